"""What the answers of the decision step do to the new facts. Pure; whatever cannot be trusted becomes ADD."""

from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass, field, replace
from uuid import UUID

from mnemic.operations.formation.selection import repeat
from mnemic.policy.formation.sharing import content_tokens, has_foreign_claims, is_grounded, is_personal, steers
from mnemic.policy.text.details import missing_details
from mnemic.policy.text.shape import search_text
from mnemic.policy.text.writing import check_text
from mnemic.prompts.decide import Decision
from mnemic.state.formation import Closing, Neighbour, Repeat
from mnemic.state.identity import split_scope_key
from mnemic.state.records import NewMemory


@dataclass
class Outcome:
    """The facts to store and the ones to close."""

    #: By id, in order; a repeated fact is gone, a changed one replaced.
    facts: dict[UUID, NewMemory]
    #: By the id of what is closed.
    closing: dict[UUID, Closing] = field(default_factory=dict)
    deletions: int = 0
    #: What the facts that are gone repeat.
    repeats: list[Repeat] = field(default_factory=list)

    def closings(self) -> list[Closing]:
        """Closings of which both ends exist: a new fact may have been dropped after it was named."""
        return [row for row in self.closing.values() if row.new_id in self.facts and self._exists(row)]

    def _exists(self, row: Closing) -> bool:
        return row.is_stored or row.old_id in self.facts


def apply_decisions(
    facts: Sequence[NewMemory],
    concerned: Sequence[NewMemory],
    neighbours: Sequence[Neighbour],
    decisions: Iterable[Decision],
    *,
    deletions: int,
    foreign: Set[str],
) -> Outcome:
    """Applies the first decision on each fact that the step was asked about.

    Args:
        facts: all new ones.
        concerned: those that the step was asked about, in the order of the numbers that it saw.
        neighbours: in the order of theirs; a decision may name only those of its own fact.
        decisions: what the step answered.
        deletions: most facts that contradictions may close in this run.
        foreign: what the assistant, tools and pasted documents of the batch tell, as `content_tokens`.
    """
    outcome = Outcome({fact.id: fact for fact in facts})
    first = {decision.fact: decision for decision in reversed(list(decisions))}
    for number, fact in enumerate(concerned, start=1):
        decision = first.get(number)
        named = _named(decision, fact, neighbours)
        if decision is None or not named:
            continue
        if decision.event == "NONE":
            if missing_details([fact.content], " ".join(row.fact.content for row in named)):
                continue  # it says more than what it is said to repeat
            del outcome.facts[fact.id]
            outcome.repeats += [repeat(fact, row.fact.id, is_stored=row.fact.is_stored) for row in named]
        elif decision.event == "DELETE":
            _close(outcome, _allowed(outcome, named, deletions), fact, neighbours)
        elif decision.event == "UPDATE" and (updated := _updated(fact, decision.text, named, foreign)):
            _close(outcome, _renewed(outcome, named, updated, deletions), updated, neighbours)
    return outcome


def _renewed(outcome: Outcome, named: Sequence[Neighbour], updated: NewMemory, deletions: int) -> list[Neighbour]:
    """What an update closes: the fact it renews, and as many others as may be deleted.

    A text that keeps less than half of the words it is said to renew deletes that fact, too, whatever it is called.
    """
    renews = is_grounded(named[0].fact.content, [updated.content])
    first = list(named[:1]) if renews else _allowed(outcome, named[:1], deletions)
    return first and first + _allowed(outcome, named[1:], deletions)


def _allowed(outcome: Outcome, named: Sequence[Neighbour], deletions: int) -> list[Neighbour]:
    """As many as the run may still delete."""
    allowed = list(named[: deletions - outcome.deletions])
    outcome.deletions += len(allowed)
    return allowed


def _updated(fact: NewMemory, text: str, named: Sequence[Neighbour], foreign: Set[str]) -> NewMemory | None:
    """The fact with the merged text; None where that brings in what nobody said, or loses what the new fact says.

    A text for a group or an agent passes the gate of `policy.formation.sharing` anew: it is not the one that passed.
    """
    checked = check_text(text, kind="fact").text
    known = " ".join([fact.content, *(row.fact.content for row in named)])
    if checked is None or missing_details([checked], known) or missing_details([fact.content], checked):
        return None
    private = fact.private or any(row.fact.private for row in named)
    importance = max(fact.importance, *(row.fact.importance for row in named))
    is_wide = split_scope_key(fact.scope_key)[0] in ("group", "agent")
    if is_wide and (private or is_personal(checked, fact.category) or steers(checked)):
        return None
    if is_wide and has_foreign_claims(content_tokens(checked), content_tokens(known), foreign):
        return None
    return replace(
        fact,
        content=checked,
        search_text=search_text(fact.valid_from, fact.subject, checked),
        private=private,
        importance=importance,
    )


def _named(decision: Decision | None, fact: NewMemory, neighbours: Sequence[Neighbour]) -> list[Neighbour]:
    """What the decision names, as far as it was shown for this very fact."""
    numbers = set(decision.known) if decision else set()
    shown = enumerate(neighbours, start=1)
    return [row for number, row in shown if number in numbers and row.new_id == fact.id]


def _close(
    outcome: Outcome, named: Sequence[Neighbour], replacement: NewMemory, neighbours: Iterable[Neighbour]
) -> None:
    """The named facts make room for the replacement, unless another fact says the same: such a twin is never stored."""
    if not named or _has_twin(replacement, outcome, neighbours):
        return
    outcome.facts[replacement.id] = replacement
    for row in named:
        outcome.closing[row.fact.id] = Closing(
            old_id=row.fact.id,
            version=max(row.fact.version, 1),
            is_stored=row.fact.is_stored,
            new_id=replacement.id,
            until=replacement.valid_from,
        )


def _has_twin(fact: NewMemory, outcome: Outcome, neighbours: Iterable[Neighbour]) -> bool:
    """Whether a known fact shown for this one, or another one of the batch, has the very same text."""
    shown = (row.fact.content for row in neighbours if row.new_id == fact.id)
    batch = (
        other.content for other in outcome.facts.values() if other.id != fact.id and other.scope_key == fact.scope_key
    )
    return fact.content in {*shown, *batch}
