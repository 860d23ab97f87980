"""Formation: what is already known near each new fact. One embedding batch, one query."""

import asyncio

from langgraph.runtime import Runtime

from mnemic.operations.formation.similarity import compare_facts
from mnemic.operations.messages.transcript import speakers
from mnemic.operations.run.graph import FormationNode
from mnemic.operations.run.identity import identity_of
from mnemic.operations.run.resources import Provider
from mnemic.state.graphs import FormationState
from mnemic.state.identity import Identity, scope_key
from mnemic.storage import memories


def find_similar(provide: Provider) -> FormationNode:
    """Drops new facts that are known word for word, relates the others, and gathers what a decision is needed on.

    The facts of one batch are compared with one another, too: who corrects themselves does so in the same breath.
    """

    async def find_similar(state: FormationState, runtime: Runtime[Identity]) -> FormationState:
        resources = await provide()
        identity = identity_of(runtime)
        facts, settings = state["facts"], resources.settings
        vectors = await resources.embedder.embed([fact.search_text for fact in facts])
        keys = [scope_key("user", user) for user in speakers(state["batch"])]
        async with resources.database.scoped(identity, also=keys) as scoped:
            stored = await memories.similar(
                scoped,
                [fact.scope_key for fact in facts],
                vectors,
                model=resources.embedder.name,
                most=settings.neighbours,
            )
        # in a thread: 25 facts, each compared with all before it, take 20 ms
        compared = await asyncio.to_thread(compare_facts, facts, vectors, stored, resources.embedder.bands, settings)
        fresh = {fact.id for fact in compared.fresh}
        return {
            "facts": compared.fresh,
            "repeated": len(facts) - len(fresh),
            "repeats": compared.repeats,
            "vectors": {fact.id: [*vector] for fact, vector in zip(facts, vectors, strict=True) if fact.id in fresh},
            "neighbours": compared.neighbours,
        }

    return find_similar
