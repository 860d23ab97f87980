"""Formation: what each new fact does to the facts near it. One call for all; it may name only what it was shown."""

from collections.abc import Sequence
from datetime import datetime

from langgraph.runtime import Runtime

from mnemic.models.steps import DECIDE
from mnemic.operations.formation.decisions import Neighbour, apply_decisions
from mnemic.operations.formation.scope_resolver import told_by_others
from mnemic.operations.run.identity import identity_of
from mnemic.operations.run.model_step import perform
from mnemic.operations.run.node_types import FormationNode
from mnemic.operations.run.resources import Provider
from mnemic.operations.run.serialization import from_plain, to_plain
from mnemic.prompts.decide import DecideInput, KnownFact, NewFact
from mnemic.state.graphs import FormationState
from mnemic.state.identity import Identity
from mnemic.state.records import Message, NewMemory


def decide(provide: Provider) -> FormationNode:
    """ADD, UPDATE, DELETE with the new fact in its place, or NONE."""

    async def decide(state: FormationState, runtime: Runtime[Identity]) -> FormationState:
        resources = await provide()
        facts = from_plain(NewMemory, state["facts"])
        neighbours = state["neighbours"]
        concerned = {row["fact_id"] for row in neighbours}
        asked = [fact for fact in facts if str(fact.id) in concerned]
        output = await perform(resources, identity_of(runtime), DECIDE, _question(asked, neighbours))
        outcome = apply_decisions(
            facts,
            asked,
            neighbours,
            output.decisions,
            deletions=resources.settings.deletions_per_run,
            others=told_by_others(from_plain(Message, state["batch"])),
        )
        changed = {str(fact.id) for fact in facts if outcome.facts.get(fact.id, fact).content != fact.content}
        return {
            "facts": to_plain(NewMemory, outcome.facts.values()),
            "vectors": {key: vector for key, vector in state["vectors"].items() if key not in changed},
            "closing": outcome.closings(),
            "repeated": state["repeated"] + len(facts) - len(outcome.facts),
            "repeats": [*state["repeats"], *outcome.repeats],
        }

    return decide


def _question(asked: Sequence[NewMemory], neighbours: Sequence[Neighbour]) -> DecideInput:
    return DecideInput(
        facts=tuple(
            NewFact(number=number, content=fact.content, dated=fact.valid_from, known=_known(fact, neighbours))
            for number, fact in enumerate(asked, start=1)
        )
    )


def _known(fact: NewMemory, neighbours: Sequence[Neighbour]) -> tuple[KnownFact, ...]:
    return tuple(
        KnownFact(
            number=number,
            content=row["content"],
            dated=datetime.fromisoformat(row["dated"]),
            similarity=row["similarity"],
        )
        for number, row in enumerate(neighbours, start=1)
        if row["fact_id"] == str(fact.id)
    )
