"""Consolidation: the new text replaces the old one and takes the reflections in, if both are still as read."""

from uuid import UUID, uuid4

from langgraph.runtime import Runtime

from mnemic.operations.run.graph import ConsolidationNode, give_back
from mnemic.operations.run.identity import identity_of
from mnemic.operations.run.resources import Provider
from mnemic.policy.text.search_text import search_text
from mnemic.state.errors import ConcurrentChangeError
from mnemic.state.graphs import ConsolidationState
from mnemic.state.identity import Identity, split_scope_key
from mnemic.state.records import NewMemory
from mnemic.storage import leases, memories, scopes
from mnemic.storage.transaction import ScopedTransaction


def save_consolidation(provide: Provider) -> ConsolidationNode:
    """One operation. Whoever came second finds another version, writes nothing and leaves the rest for the next run."""

    async def save_consolidation(state: ConsolidationState, runtime: Runtime[Identity]) -> ConsolidationState:
        resources = await provide()
        identity = identity_of(runtime)
        reflections = state["reflections"]

        async def act(scoped: ScopedTransaction) -> None:
            await scoped.begin_operation("consolidation", meta={"kept_share": state["kept_share"]})
            consolidation_id = await _write(scoped, state)
            await memories.absorb(scoped, consolidation_id, [memory.id for memory in reflections])
            await scopes.touch(scoped, [state["scope_key"]], consolidated=True)
            await leases.finish(scoped, state["lease"])

        try:
            await resources.database.write(identity, act)
        except ConcurrentChangeError:
            await give_back(resources, identity, state["lease"], failure="interrupted")
            return {"outcome": "stale", "absorbed": 0}
        return {"outcome": "saved", "absorbed": len(reflections)}

    return save_consolidation


async def _write(scoped: ScopedTransaction, state: ConsolidationState) -> UUID:
    if current := state["current"]:
        await memories.rewrite_consolidation(scoped, current, state["text"])
        return current.id
    times = [memory.valid_from for memory in state["reflections"]]
    first = NewMemory(
        id=uuid4(),
        kind="consolidation",
        scope_key=state["scope_key"],
        category="profile" if split_scope_key(state["scope_key"])[0] == "user" else "knowledge",
        content=state["text"],
        search_text=search_text(max(times), state["owner"], state["text"]),
        subject=state["owner"],
        provenance="consolidated",
        valid_from=min(times),
    )
    if not await memories.insert(scoped, [first], model="", vectors={}, run_id=None):
        raise ConcurrentChangeError
    return first.id
