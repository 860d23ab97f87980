"""Formation: what is already known near each new fact, and what the new fact does to it."""

import asyncio

from langgraph.runtime import Runtime

from mnemic.models.structured import run_step
from mnemic.operations.formation.decisions import apply_decisions, compare_facts, concerned
from mnemic.operations.formation.drafts import foreign_tokens
from mnemic.operations.messages.transcript import speakers
from mnemic.operations.run.graph import metered
from mnemic.operations.run.identity import identity_of
from mnemic.operations.run.resources import Resources
from mnemic.prompts.decide import DECIDE, DecideInput, ShownFact
from mnemic.state.graphs import FormationState
from mnemic.state.identity import Identity, scope_key
from mnemic.storage import memories


async def find_similar(state: FormationState, resources: Resources, runtime: Runtime[Identity]) -> FormationState:
    """Drops new facts that are known word for word, relates the others, and gathers what a decision is needed on.

    One embedding batch, one query. The facts of one batch are compared with one another, too: who corrects themselves
    does so in the same breath.
    """
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
    return await asyncio.to_thread(compare_facts, facts, vectors, stored, resources.embedder.bands, settings)


async def decide(state: FormationState, resources: Resources, runtime: Runtime[Identity]) -> FormationState:
    """ADD, UPDATE, DELETE with the new fact in its place, or NONE: one call for all facts, of what it was shown."""
    facts, neighbours = state["facts"], state["neighbours"]
    question = DecideInput(
        facts=tuple(
            ShownFact(
                number=number,
                content=fact.content,
                dated=fact.valid_from,
                known=tuple(
                    ShownFact(number=place, content=old.content, dated=old.dated) for place, old in known.items()
                ),
            )
            for number, (fact, known) in enumerate(concerned(facts, neighbours), start=1)
        )
    )
    deciding = run_step(DECIDE, question, resources.models)
    output = (await metered(resources, identity_of(runtime), deciding)).output
    outcome = apply_decisions(
        facts,
        neighbours,
        output.decisions,
        deletions=resources.settings.deletions_per_run,
        foreign=foreign_tokens(state["batch"]),
    )
    changed = {fact.id for fact in facts if outcome.facts.get(fact.id, fact).content != fact.content}
    return {
        "facts": [*outcome.facts.values()],
        "vectors": {key: vector for key, vector in state["vectors"].items() if key not in changed},
        "closing": outcome.closings(),
        "repeated": state["repeated"] + len(facts) - len(outcome.facts),
        "repeats": [*state["repeats"], *outcome.repeats],
    }
