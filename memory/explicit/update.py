"""Explicit changes of the values of a memory, such as pinning, but not of its text."""

from typing import Final
from uuid import UUID

from mnemic.memory.runtime.access import require_visible
from mnemic.memory.runtime.resources import Resources
from mnemic.memory.text.shape import clean_text, is_blank
from mnemic.prompts.explicit import refusals
from mnemic.state.errors import InvalidInputError, NotUpdatedError
from mnemic.state.explicit import UpdateRequest
from mnemic.state.identity import Identity, is_shared
from mnemic.state.kinds import RETAINED_STATES
from mnemic.state.records import CANDIDATE, Memory
from mnemic.storage import memories
from mnemic.storage.transaction import ScopedTransaction

_REASON: Final = "update_values"


async def update(resources: Resources, identity: Identity, memory_id: UUID, request: UpdateRequest) -> Memory:
    """Change pinning, tags, importance or the end of a memory; return the changed memory.

    Raises:
        InvalidInputError: if there is no such memory, the role may not see it, a value is invalid, or there is none.
        NotUpdatedError: if it is protected or closed, or shared and the identity does not teach the agent.
        CategoryRefusedError: if the role has no allowlist.
        ConcurrentChangeError: if the memory was changed meanwhile; nothing was written.
    """
    if request == UpdateRequest():
        raise InvalidInputError("nothing to change: give pinned, tags, importance or valid_until")
    if request.tags is not None:
        request = request.model_copy(update={"tags": _checked_tags(request.tags)})
    allowlist = resources.categories.of_role(identity.role)

    async def update_in(tx: ScopedTransaction) -> Memory:
        await tx.begin_operation(_REASON)
        memory = require_visible(await memories.find(tx, memory_id), allowlist)
        if obstacle := _obstacle(memory, identity):
            raise NotUpdatedError(obstacle)
        await memories.update(tx, memory, _with_candidate_tag(request, memory))
        return require_visible(await memories.find(tx, memory_id), allowlist)

    return await resources.database.write(identity, update_in, categories=allowlist.categories)


def _obstacle(memory: Memory, identity: Identity) -> str | None:
    """Return the reason against a change, or None."""
    if memory.protected:
        return refusals.PROTECTED
    if memory.state not in RETAINED_STATES:
        return refusals.closed(memory.state, memory.superseded_by, "update")
    if is_shared(memory.scope_key) and not identity.teaches_agent:
        return refusals.SHARED_TO_UPDATE
    return None


def _checked_tags(tags: tuple[str, ...]) -> tuple[str, ...]:
    """Return the tags on one line each, cleaned and without duplicates.

    Raises:
        InvalidInputError: if a tag is empty, or one that only formation sets.
    """
    cleaned = [" ".join(clean_text(tag).split()) for tag in tags]
    if any(is_blank(tag) for tag in cleaned):
        raise InvalidInputError("tags: one of them is empty; give some text")
    if CANDIDATE in cleaned:
        raise InvalidInputError(f"tags: {CANDIDATE!r} marks what may be shared later, and only formation sets it")
    return tuple(dict.fromkeys(cleaned))


def _with_candidate_tag(request: UpdateRequest, memory: Memory) -> UpdateRequest:
    """Return the request with the tag that only formation sets, if the memory has it."""
    if request.tags is None or CANDIDATE not in (memory.tags or ()):
        return request
    return request.model_copy(update={"tags": (*request.tags, CANDIDATE)})
