"""Memories that a role may see, in any state, by their ids."""

from collections.abc import Iterable
from uuid import UUID

from mnemic.memory.runtime.categories import Allowlist
from mnemic.memory.runtime.resources import Resources
from mnemic.prompts.explicit.refusals import UNKNOWN_ID
from mnemic.state.errors import InvalidInputError, UnknownMemoryError
from mnemic.state.identity import Identity
from mnemic.state.kinds import CONTEXT_KINDS
from mnemic.state.records import Memory
from mnemic.storage import memories


async def visible_memories(resources: Resources, identity: Identity, memory_ids: Iterable[UUID]) -> list[Memory]:
    """Return the memories of these ids that the identity's role may see, in any state, each once.

    Raises:
        CategoryRefusedError: if the role has no allowlist.
    """
    allowlist = resources.categories.of_role(identity.role)
    visible: list[Memory] = []
    async with resources.database.transaction(identity, categories=allowlist.categories) as tx:
        for memory_id in dict.fromkeys(memory_ids):
            memory = await memories.find(tx, memory_id)
            if memory and is_visible(memory, allowlist):
                visible.append(memory)
    return visible


async def get_memory(resources: Resources, identity: Identity, memory_id: UUID) -> Memory:
    """Return one memory that the identity's role may see, in any state.

    Raises:
        UnknownMemoryError: if there is no such memory.
        CategoryRefusedError: if the role has no allowlist.
    """
    visible = await visible_memories(resources, identity, [memory_id])
    if not visible:
        raise UnknownMemoryError("no memory of this identity has this id: `memories` lists them")
    return visible[0]


def require_visible(memory: Memory | None, allowlist: Allowlist) -> Memory:
    """Return the memory if the role may see it.

    Raises:
        InvalidInputError: if there is none, or the role may not see it; both cases have the same message.
    """
    if memory is None or not is_visible(memory, allowlist):
        raise InvalidInputError(UNKNOWN_ID)
    return memory


def is_visible(memory: Memory, allowlist: Allowlist) -> bool:
    """Return whether a role may see a memory.

    Kinds that are always in context need a role that reads them, except absorbed reflections, which are searched.
    """
    is_searched = memory.kind not in CONTEXT_KINDS or memory.state == "absorbed"
    return memory.category in allowlist.categories and (is_searched or allowlist.standing)
