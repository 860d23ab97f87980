"""Formation: what each new fact does to the facts near it. One call for all; it may name only what it was shown."""

from collections.abc import Sequence

from langgraph.runtime import Runtime

from mnemic.models.steps import DECIDE
from mnemic.models.structured import run_step
from mnemic.operations.formation.decisions import apply_decisions
from mnemic.operations.formation.scope_resolver import foreign_tokens
from mnemic.operations.run.graph import FormationNode, metered
from mnemic.operations.run.identity import identity_of
from mnemic.operations.run.resources import Provider
from mnemic.prompts.decide import DecideInput, KnownFact, NewFact
from mnemic.state.formation import Neighbour
from mnemic.state.graphs import FormationState
from mnemic.state.identity import Identity
from mnemic.state.records import NewMemory


def decide(provide: Provider) -> FormationNode:
    """ADD, UPDATE, DELETE with the new fact in its place, or NONE."""

    async def decide(state: FormationState, runtime: Runtime[Identity]) -> FormationState:
        resources = await provide()
        facts, neighbours = state["facts"], state["neighbours"]
        ids = {row.new_id for row in neighbours}
        concerned = [fact for fact in facts if fact.id in ids]
        deciding = run_step(DECIDE, _question(concerned, neighbours), resources.models)
        output = (await metered(resources, identity_of(runtime), deciding)).output
        outcome = apply_decisions(
            facts,
            concerned,
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

    return decide


def _question(concerned: Sequence[NewMemory], neighbours: Sequence[Neighbour]) -> DecideInput:
    return DecideInput(
        facts=tuple(
            NewFact(number=number, content=fact.content, dated=fact.valid_from, known=_known(fact, neighbours))
            for number, fact in enumerate(concerned, start=1)
        )
    )


def _known(fact: NewMemory, neighbours: Sequence[Neighbour]) -> tuple[KnownFact, ...]:
    return tuple(
        KnownFact(number=number, content=row.fact.content, dated=row.fact.dated, similarity=row.fact.similarity)
        for number, row in enumerate(neighbours, start=1)
        if row.new_id == fact.id
    )
