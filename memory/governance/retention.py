"""How long memories stay: forgotten at a word, erased for the person concerned, purged by their age, or protected."""

from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import Final
from uuid import UUID

from mnemic.memory.runtime.categories import Allowlist
from mnemic.memory.runtime.principal import Principal
from mnemic.memory.runtime.resources import Resources
from mnemic.state.errors import ConfigurationError, InvalidInputError, NotForgottenError, UnknownMemoryError
from mnemic.state.governance import Erasure
from mnemic.state.identity import Identity, scope_key, split_scope_key
from mnemic.state.records import Memory
from mnemic.storage import erasure, history, inbox, memories
from mnemic.storage.erasure import Progress
from mnemic.storage.transaction import ScopedTransaction

_REASON: Final = "forget"
#: Reasons of operations that count among what a session has forgotten.
FORGETTING: Final = (_REASON, "correct")
PROTECTED: Final = "this memory is protected: only an administrator can lift that"


async def forgettable(resources: Resources, identity: Identity, memory_ids: Iterable[UUID]) -> list[Memory]:
    """Those of these memories that `forget` would take, each once.

    Raises:
        CategoryRefusedError: the role has no allowlist.
    """
    known = await known_memories(resources, identity, memory_ids)
    return [memory for memory in known if memory.state in memories.KEPT and _obstacle(memory) is None]


async def known_memories(resources: Resources, identity: Identity, memory_ids: Iterable[UUID]) -> list[Memory]:
    """Those of these memories that the identity's role may know of, in any state, each once.

    Raises:
        CategoryRefusedError: the role has no allowlist.
    """
    allowlist = resources.categories.of_role(identity.role)
    async with resources.database.scoped(identity, categories=allowlist.categories) as scoped:
        found = [await memories.find(scoped, memory_id) for memory_id in dict.fromkeys(memory_ids)]
    return [memory for memory in found if memory and is_known(memory, allowlist)]


async def forget(resources: Resources, identity: Identity, memory_id: UUID, *, by_model: bool = False) -> bool:
    """Soft-deletes a memory of the identity's user or session; False where it lived no more.

    With a fact go the unabsorbed reflections that rest on its words alone; what else was drawn from them is left to the
    next consolidation, which is told of it. Its source messages are searched no more either, but those that another
    living memory rests on. An id that is unknown, somebody else's, or of a category that the role may not read is
    answered alike.

    Args:
        by_model: whether a model asks. Its calls are bounded without a session too, where a person's own page is not.

    Raises:
        InvalidInputError: no such memory.
        NotForgottenError: it is protected, shared with others, or a consolidation; or the conversation has had as many
            forgotten as it may today.
        CategoryRefusedError: the role has no allowlist.
    """
    allowlist = resources.categories.of_role(identity.role)

    async def act(scoped: ScopedTransaction) -> bool:
        await scoped.begin_operation(_REASON)
        memory = require_known(await memories.find(scoped, memory_id), allowlist)
        if obstacle := _obstacle(memory):
            raise NotForgottenError(obstacle)
        if memory.state not in memories.KEPT:
            return False
        await memories.see_categories(scoped, None)
        if by_model or identity.session_id:
            # a conversation that orders the memory about does bounded damage; without a session, an actor's are all one
            most = resources.settings.forgets_per_session_and_day
            if await history.done_today(scoped, *FORGETTING) >= most:
                raise NotForgottenError(f"this session has had {most} memories forgotten today, and that is the most")
        await memories.forget_drawn(scoped, memory.id)
        await memories.forget(scoped, memory)
        return True

    with resources.events.timed(identity, "explicit", "delete") as outcome:
        is_forgotten = await resources.database.write(identity, act, categories=allowlist.categories)
        outcome.memory_id = memory_id
        outcome.status = "ok" if is_forgotten else "skipped"
    resources.write_events()
    return is_forgotten


def require_known(memory: Memory | None, allowlist: Allowlist) -> Memory:
    """A memory that was found.

    Raises:
        InvalidInputError: there is none, or the role may not know of it; it is the same to whoever asks.
    """
    if memory is None or not is_known(memory, allowlist):
        raise InvalidInputError(
            "no memory of this user or session has this id: search for it, and take the id from there"
        )
    return memory


def is_known(memory: Memory, allowlist: Allowlist) -> bool:
    """Whether the role reads it: of the standing kinds only absorbed reflections are searched."""
    is_searched = memory.kind not in memories.STANDING or memory.state == "absorbed"
    return memory.category in allowlist.categories and (is_searched or allowlist.standing)


def _obstacle(memory: Memory) -> str | None:
    """Why nobody may have it forgotten; None: they may."""
    if memory.protected:
        return PROTECTED
    if split_scope_key(memory.scope_key)[0] in ("group", "agent"):
        return "this memory is shared with others, and no conversation may take it from them"
    if memory.kind == "consolidation":
        return "this is the consolidation of everything: it is rewritten, not forgotten"
    return None


async def erase(
    actor: Principal, memory_ids: Sequence[UUID] | None, *, dry_run: bool, progress: Progress | None
) -> Erasure:
    """Erases memories and messages of the person for good, with what says the same (docs/erasure.md).

    Args:
        actor: the person concerned.
        memory_ids: which; None: all that the agent has of the person.
        dry_run: only tells what would be erased.
        progress: hears how far it has come.

    Raises:
        InvalidInputError: no user in the identity, where all is to be erased.
    """
    keys: Sequence[str] = actor.keys or ()
    if memory_ids is None:
        if actor.identity.user_id is None:
            raise InvalidInputError("user_id: erasing a person needs the person's id")
        keys = [scope_key("user", actor.identity.user_id)]
    if dry_run:
        return await erasure.preview(actor.database, actor.identity, keys, memory_ids)
    return await erasure.erase(actor.database, actor.identity, keys, memory_ids, progress)


async def forget_messages(actor: Principal) -> int:
    """Takes the words of the agent's messages whose days after formation are over; of how many."""
    total = 0
    while taken := await actor.write(inbox.forget_due):
        total += taken
    return total


async def purge(actor: Principal, days: int | None) -> list[UUID]:
    """Erases the agent's memories that expired so many days ago; their ids.

    Raises:
        ConfigurationError: None, as the setting is by default.
    """
    if days is None:
        raise ConfigurationError("nothing is purged: set MNEMIC_RETENTION_PURGE_AFTER_DAYS to say after how long")
    return await erasure.purge_expired(actor.database, actor.identity, timedelta(days=days))


async def set_protection(actor: Principal, memory_id: UUID, *, protected: bool) -> bool:
    """Protects a living memory of the agent, or lifts that; whether it changed.

    Raises:
        UnknownMemoryError: the agent has no living memory of this id.
    """

    async def act(scoped: ScopedTransaction) -> bool:
        changed = await memories.set_protection(scoped, memory_id, protected=protected)
        if changed is None:
            raise UnknownMemoryError  # within the transaction, so that nothing is written
        return changed

    return await actor.write(act)
