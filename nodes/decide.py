"""Formation: what each new fact does to the facts near it. One call for all; it may name only what it was shown."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from langgraph.runtime import Runtime

from mnemic.models.steps import DECIDE
from mnemic.nodes.perform import perform
from mnemic.nodes.resources import Provider
from mnemic.nodes.typing import FormationNode
from mnemic.nodes.who import identity_of
from mnemic.nodes.wire import from_plain, to_plain
from mnemic.policy.search_text import search_text
from mnemic.policy.writing import check_text
from mnemic.prompts.decide import DecideInput, Decision, KnownFact, NewFact
from mnemic.state.graphs import FormationState
from mnemic.state.identity import Identity
from mnemic.state.records import NewMemory


@dataclass(frozen=True)
class _Shown:
    """A known fact under the number the model saw."""

    number: int
    row: dict[str, Any]


def decide(provide: Provider) -> FormationNode:
    """ADD, UPDATE, DELETE with the new fact in its place, or NONE; whatever cannot be trusted becomes ADD."""

    async def decide(state: FormationState, runtime: Runtime[Identity]) -> FormationState:
        resources = await provide()
        facts = from_plain(NewMemory, state["facts"])
        shown = [_Shown(number, row) for number, row in enumerate(state["neighbours"], start=1)]
        asked = [fact for fact in facts if any(item.row["fact_id"] == str(fact.id) for item in shown)]
        output = await perform(resources, identity_of(runtime), DECIDE, _question(asked, shown))
        decisions = {decision.fact: decision for decision in reversed(output.decisions)}
        final = {fact.id: fact for fact in facts}
        closing: dict[str, dict[str, Any]] = {}
        deletions = 0
        for number, fact in enumerate(asked, start=1):
            decision = decisions.get(number)
            named = _named(decision, fact, shown)
            if decision is None or decision.event == "ADD" or not named:
                continue
            if decision.event == "NONE":
                del final[fact.id]
                continue
            if decision.event == "DELETE":
                named = named[: resources.settings.deletions_per_run - deletions]
                deletions += len(named)
            if not (replacement := _replacement(decision, fact, named)):
                continue
            final[fact.id] = replacement
            closing |= {row["memory_id"]: _closing(row, replacement) for row in named}
        kept = [fact for fact in facts if fact.id in final]
        changed = {str(fact.id) for fact in kept if final[fact.id].content != fact.content}
        return {
            "facts": to_plain(NewMemory, [final[fact.id] for fact in kept]),
            "vectors": {key: value for key, value in state["vectors"].items() if key not in changed},
            "closing": [row for row in closing.values() if _still_there(row, final)],
            "repeated": state["repeated"] + len(facts) - len(kept),
        }

    return decide


def _question(asked: Sequence[NewMemory], shown: Sequence[_Shown]) -> DecideInput:
    return DecideInput(
        facts=tuple(
            NewFact(
                number=number,
                content=fact.content,
                dated=fact.valid_from,
                known=tuple(
                    KnownFact(
                        number=item.number,
                        content=item.row["content"],
                        dated=datetime.fromisoformat(item.row["dated"]),
                        similarity=item.row["similarity"],
                    )
                    for item in shown
                    if item.row["fact_id"] == str(fact.id)
                ),
            )
            for number, fact in enumerate(asked, start=1)
        )
    )


def _named(decision: Decision | None, fact: NewMemory, shown: Iterable[_Shown]) -> list[dict[str, Any]]:
    """What the decision names, as far as it was shown for this very fact."""
    numbers = set(decision.known) if decision else set()
    return [item.row for item in shown if item.number in numbers and item.row["fact_id"] == str(fact.id)]


def _replacement(decision: Decision, fact: NewMemory, named: Sequence[dict[str, Any]]) -> NewMemory | None:
    """The memory that takes the named ones' place; None where nothing may be closed."""
    if not named:
        return None
    verdict = check_text(decision.text, kind="fact")
    text = verdict.text if decision.event == "UPDATE" else fact.content
    if text is None or any(text == row["content"] for row in named):
        return None
    return replace(fact, content=text, search_text=search_text(fact.valid_from, fact.subject, text))


def _closing(row: dict[str, Any], replacement: NewMemory) -> dict[str, Any]:
    return {
        "old_id": row["memory_id"],
        "version": row["version"],
        "stored": row["stored"],
        "new_id": str(replacement.id),
        "until": replacement.valid_from.isoformat(),
    }


def _still_there(row: dict[str, Any], final: dict[Any, NewMemory]) -> bool:
    """Both ends of a closing exist: its new fact was not dropped, and an old one of the same batch neither."""
    living = {str(memory_id) for memory_id in final}
    return row["new_id"] in living and (row["stored"] or row["old_id"] in living)
