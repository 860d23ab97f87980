"""Stores a core memory, has the product refine it, and reads back what became of each memory."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID, uuid4

from benchmarks.refinement.cores import Core, Given
from mnemic.operations.run.resources import Resources
from mnemic.policy.text.shape import search_text
from mnemic.service.memory import Mnemic
from mnemic.state.identity import Identity, scope_key
from mnemic.state.records import Memory, NewMemory
from mnemic.state.refinement import RefinementResult
from mnemic.storage import memories
from mnemic.storage.transaction import ScopedTransaction

_MERGED = "select from_id, to_id from relations where agent_id = %(agent_id)s and relation_type = 'merged_from'"


@dataclass(frozen=True, kw_only=True)
class Refined:
    """A core memory before and after."""

    core: Core
    result: RefinementResult
    before: Mapping[UUID, Given]
    #: The living memories, and the original ones that each took in, itself among them where it is one.
    after: Sequence[Memory]
    taken: Mapping[UUID, Sequence[UUID]]


async def refine(resources: Resources, core: Core) -> Refined:
    """Stores the memories as the core memory of an agent of its own, and refines it."""
    who = Identity(agent_id=f"refined-{uuid4().hex[:12]}", user_id="curator")
    before = {uuid4(): given for given in core.memories}
    service = Mnemic(resources)
    await service.configure_agent(who, refinement_target_tokens=core.target)
    await _store(resources, who, before)
    result = await service.refine(who, scope_key("agent", who.agent_id), force=True)
    after = await service.memories(who, ("core", "reflection"))
    async with resources.database.scoped(who) as scoped:
        merged = await scoped.tuples(_MERGED, {})
    return Refined(core=core, result=result, before=before, after=after, taken=_taken(after, merged, before))


async def _store(resources: Resources, who: Identity, given: Mapping[UUID, Given]) -> None:
    rows = [
        NewMemory(
            id=id_,
            kind="core",
            scope_key=scope_key("agent", who.agent_id),
            category=memory.category,
            content=memory.text,
            search_text=search_text(memory.dated, memory.subject, memory.text),
            subject=memory.subject,
            subject_user_id=memory.subject_user_id,
            valid_from=memory.dated,
        )
        for id_, memory in given.items()
    ]

    async def act(scoped: ScopedTransaction) -> None:
        await scoped.begin_operation("formation")
        await memories.insert(scoped, rows, model=resources.embedder.name, vectors={}, run_id=None)

    await resources.database.write(who, act)


def _taken(
    after: Sequence[Memory], merged: Sequence[tuple[UUID, UUID]], before: Mapping[UUID, Given]
) -> dict[UUID, list[UUID]]:
    """The original memories in each living one; a merge may have taken in what was merged before."""
    parts: dict[UUID, list[UUID]] = defaultdict(list)
    for new, old in merged:
        parts[new].append(old)

    def originals(id_: UUID) -> list[UUID]:
        return [id_] if id_ in before else [found for part in parts[id_] for found in originals(part)]

    return {memory.id: originals(memory.id) for memory in after}
