"""What is stored, as it is: a listing, what happened since, one memory's history; under the role's allowlist."""

from collections.abc import Sequence
from typing import Final
from uuid import UUID

from mnemic.operations.explicit.forget import is_known
from mnemic.operations.run.resources import Resources
from mnemic.policy.recall.delta import bullets
from mnemic.state.identity import Identity
from mnemic.state.kinds import Kind
from mnemic.state.query import Updates
from mnemic.state.records import HistoryEvent, Memory
from mnemic.storage import history, memories, revisions

#: No history comes so far.
_END: Final = 2**63 - 1


async def list_memories(
    resources: Resources, identity: Identity, kinds: Sequence[Kind], *, limit: int, with_closed: bool
) -> list[Memory]:
    """The identity's memories of these kinds, newest first.

    Raises:
        CategoryRefusedError: the role has no allowlist.
    """
    allowlist = resources.categories.of_role(identity.role)
    readable = [kind for kind in kinds if allowlist.standing or kind not in memories.STANDING]
    async with resources.database.scoped(identity, categories=allowlist.categories) as scoped:
        return await memories.living(scoped, readable, most=limit, with_closed=with_closed)


async def updates_since(resources: Resources, identity: Identity, revision: int | None) -> Updates:
    """What happened to the identity's memories since a revision; None: nothing but today's revision.

    Raises:
        CategoryRefusedError: the role has no allowlist.
    """
    allowlist = resources.categories.of_role(identity.role)
    async with resources.database.scoped(identity, categories=allowlist.categories) as scoped:
        changes = await revisions.changes(
            scoped, None, since=_END if revision is None else revision, standing=allowlist.standing
        )
    return Updates(revision=max(changes.revision, revision or 0), bullets=bullets(changes))


async def memory_history(resources: Resources, identity: Identity, memory_id: UUID) -> list[HistoryEvent]:
    """Everything that happened to one memory, oldest first; empty for one that the role may not read.

    Raises:
        CategoryRefusedError: the role has no allowlist.
    """
    allowlist = resources.categories.of_role(identity.role)
    async with resources.database.scoped(identity, categories=allowlist.categories) as scoped:
        memory = await memories.find(scoped, memory_id)
        is_readable = memory is not None and is_known(memory, allowlist)
        return await history.of_memory(scoped, memory_id) if is_readable else []
