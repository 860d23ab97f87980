"""Explicit forgetting of a memory of the user or session, which can be undone."""

from collections.abc import Iterable
from typing import Final
from uuid import UUID

from mnemic.memory.explicit.caller import Caller, ModelCaller
from mnemic.memory.runtime.access import require_visible, visible_memories
from mnemic.memory.runtime.categories import Allowlist
from mnemic.memory.runtime.resources import Resources
from mnemic.prompts.explicit import refusals
from mnemic.state.errors import NotForgottenError
from mnemic.state.identity import Identity, is_shared
from mnemic.state.kinds import RETAINED_STATES
from mnemic.state.records import Memory
from mnemic.storage import history, memories
from mnemic.storage.transaction import ScopedTransaction

_REASON: Final = "forget"
#: Reasons of operations that count as forgets of a session.
FORGET_REASONS: Final = (_REASON, "correct")


async def forgettable(resources: Resources, identity: Identity, memory_ids: Iterable[UUID]) -> list[Memory]:
    """Return the memories of these ids that `forget` accepts, each once.

    Raises:
        CategoryRefusedError: if the role has no allowlist.
    """
    visible = await visible_memories(resources, identity, memory_ids)
    return [memory for memory in visible if memory.state in RETAINED_STATES and _obstacle(memory) is None]


async def forget(resources: Resources, identity: Identity, memory_id: UUID, caller: Caller) -> bool:
    """Soft-delete a memory of the identity's user or session; return False if it was not active.

    Unabsorbed reflections that rest on the memory alone are deleted with it. Its source messages are not searched any
    more, unless another active memory rests on them. The next consolidation learns of the deletion.

    Args:
        resources: the open database and models.
        identity: identity of the run; its role limits the categories.
        memory_id: the memory to forget.
        caller: a model's forgets are limited in number with and without a session.

    Raises:
        InvalidInputError: if there is no such memory, or the role may not see it.
        NotForgottenError: if it is protected, shared or a consolidation, or the session's limit of the day is reached.
        CategoryRefusedError: if the role has no allowlist.
    """
    allowlist = resources.categories.of_role(identity.role)
    limit = None
    if identity.session_id or isinstance(caller, ModelCaller):
        limit = resources.settings.forgets_per_session_and_day

    async def forget_in(tx: ScopedTransaction) -> bool:
        return await _forget(tx, memory_id, allowlist, limit)

    with resources.events.timed(identity, "explicit", "delete") as outcome:
        is_forgotten = await resources.database.write(identity, forget_in, categories=allowlist.categories)
        outcome.memory_id = memory_id
        if not is_forgotten:
            outcome.status = "skipped"
    resources.write_events()
    return is_forgotten


async def _forget(tx: ScopedTransaction, memory_id: UUID, allowlist: Allowlist, limit: int | None) -> bool:
    await tx.begin_operation(_REASON)
    memory = require_visible(await memories.find(tx, memory_id), allowlist)
    if obstacle := _obstacle(memory):
        raise NotForgottenError(obstacle)
    if memory.state not in RETAINED_STATES:
        return False
    await memories.allow_categories(tx, None)
    # limits the damage of a conversation that talks a model into forgetting
    if limit is not None and await history.count_today(tx, *FORGET_REASONS) >= limit:
        raise NotForgottenError(refusals.limit_reached(limit, "forgotten"))
    await memories.forget_derived(tx, memory.id)
    await memories.forget(tx, memory)
    return True


def _obstacle(memory: Memory) -> str | None:
    """Return the reason against forgetting a memory, or None."""
    if memory.protected:
        return refusals.PROTECTED
    if is_shared(memory.scope_key):
        return refusals.SHARED_TO_FORGET
    if memory.kind == "consolidation":
        return refusals.CONSOLIDATION_TO_FORGET
    return None
