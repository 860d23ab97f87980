"""Decisions of a model on new facts: which stored facts they update, end or repeat."""

from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import Final
from uuid import UUID

from mnemic.memory.formation.builder import added_counts
from mnemic.memory.formation.candidates import (
    Candidates,
    NumberedFact,
    context_lines,
    decide_input,
    duplicates_of,
    numbered_facts,
)
from mnemic.memory.formation.invalidations import without_unrelated
from mnemic.memory.runtime.resources import Resources
from mnemic.memory.runtime.transcript import speakers, typed_messages
from mnemic.memory.runtime.usage import track_usage
from mnemic.memory.text.details import content_tokens
from mnemic.memory.text.kept import missing_details
from mnemic.memory.text.shape import search_text
from mnemic.memory.text.sharing import has_contact_data, imitates_prompt
from mnemic.memory.text.writing import check_text
from mnemic.models.answers import spent_on
from mnemic.models.structured import run_step
from mnemic.prompts.formation.decide import DECIDE, DecideInput, Decision
from mnemic.state.formation import DuplicateDraft, SimilarFact
from mnemic.state.graphs import FormationRun
from mnemic.state.identity import Identity, display_name, is_shared
from mnemic.state.records import Message, NewMemory, Supersession

#: A decision with a longer reason is ignored, as the output of a looping model.
MAX_REASON_CHARS: Final = 400
#: Closings that any run may decide on, since a short turn may correct several facts at once.
_MIN_CLOSINGS: Final = 3


async def decide(resources: Resources, identity: Identity, run: FormationRun) -> FormationRun:
    """Decide with one answer of a model what each new fact does to its candidates.

    Raises:
        ModelError: if the model fails, or its answer is useless after a repair.
    """
    step_input = _input(resources, identity, run)
    answer, usage = await track_usage(resources, identity, run_step(DECIDE, step_input, resources.models))
    bands = resources.with_embedder(run.embedder).embedder.bands
    related, unrelated = without_unrelated(run.facts, run.candidates, answer.decisions, bands)
    max_closings = closings_allowed(run.batch, resources.settings.closings_per_message)
    outcome = apply_decisions(run.facts, run.candidates, related, max_closings=max_closings)
    refused = run.refused
    if unrelated:
        refused = added_counts(refused, {"unrelated": unrelated})
    return replace(
        run,
        facts=list(outcome.facts.values()),
        vectors=_unchanged_vectors(run, outcome),
        supersessions=list(outcome.supersessions.values()),
        repeated=run.repeated + len(run.facts) - len(outcome.facts),
        duplicates=[*run.duplicates, *outcome.duplicates],
        refused=refused,
        spent=[*run.spent, *spent_on(usage, resources.settings.model_prices)],
    )


def _input(resources: Resources, identity: Identity, run: FormationRun) -> DecideInput:
    is_alone = set(speakers(run.batch)) <= {identity.user_id}
    max_tokens = resources.settings.decision_tokens
    context = context_lines(run.context or (), run.names, is_alone=is_alone, max_tokens=max_tokens)
    return decide_input(run.facts, run.candidates, run.names, context)


def _unchanged_vectors(run: FormationRun, outcome: "Outcome") -> dict[UUID, Sequence[float] | None]:
    """Return the vectors without those of facts that have a new text."""
    vectors = dict(run.vectors)
    for fact in run.facts:
        decided = outcome.facts.get(fact.id)
        if decided and decided.content != fact.content:
            vectors.pop(fact.id, None)
    return vectors


@dataclass
class Outcome:
    """Facts to store, and stored facts to close."""

    #: New facts by id, in order, without duplicates and with merged texts.
    facts: dict[UUID, NewMemory]
    #: Number of facts that contradictions may still close.
    closings_left: int
    #: Supersessions by the id of the closed fact.
    supersessions: dict[UUID, Supersession] = field(default_factory=dict)
    #: Facts that a decision dropped.
    duplicates: list[DuplicateDraft] = field(default_factory=list)

    def allowed(self, named: Sequence[SimilarFact]) -> list[SimilarFact]:
        """Return as many of the named facts as the run may still close, and count them."""
        allowed = list(named[: self.closings_left])
        self.closings_left -= len(allowed)
        return allowed

    def close(
        self,
        named: Sequence[SimilarFact],
        replacement: NewMemory,
        candidates: Iterable[SimilarFact],
        unchanged: Set[UUID] = frozenset(),
    ) -> None:
        """Close the named facts, unless another fact of the replacement's scope key has the same text.

        Args:
            named: facts to close.
            replacement: the new fact.
            candidates: stored facts near it.
            unchanged: ids of named facts that still hold, since the replacement has all their details.
        """
        if not named or self._is_known(replacement, candidates):
            return
        self.facts[replacement.id] = replacement
        for old in named:
            until = None if old.id in unchanged else replacement.valid_from
            self.supersessions[old.id] = Supersession(old.id, old.version, replacement.id, until)

    def _is_known(self, replacement: NewMemory, candidates: Iterable[SimilarFact]) -> bool:
        """Return whether another fact of the same scope key has the text of a replacement."""
        others: list[SimilarFact | NewMemory] = [*candidates, *self.facts.values()]
        for row in others:
            is_same = row.scope_key == replacement.scope_key and row.content == replacement.content
            if is_same and row.id != replacement.id:
                return True
        return False


def apply_decisions(
    facts: Sequence[NewMemory], candidates: Candidates, decisions: Iterable[Decision], *, max_closings: int
) -> Outcome:
    """Apply the first decision on each fact that needs one; any other decision adds its fact.

    A fact is closed once. Only a fact of the same scope key is repeated, or merged into a new text, so that no text
    passes from one scope key to another.

    Args:
        facts: all new facts.
        candidates: stored facts that each may change; a decision may name no others.
        decisions: answer of the step.
        max_closings: maximum number of facts that contradictions may close in this run.
    """
    outcome = Outcome({fact.id: fact for fact in facts}, max_closings)
    first: dict[int, Decision] = {}
    for decision in decisions:
        first.setdefault(decision.fact, decision)
    for number, row in enumerate(numbered_facts(facts, candidates), start=1):
        decided = first.get(number)
        if decided is not None and len(decided.reason) <= MAX_REASON_CHARS:
            _apply(outcome, row, decided)
    return outcome


def _apply(outcome: Outcome, row: NumberedFact, decision: Decision) -> None:
    named = [old for number, old in row.candidates.items() if number in decision.known]
    if decision.event == "NONE":
        _drop_duplicate(outcome, row.fact, named)
    elif decision.event == "DELETE":
        _end(outcome, row, named, decision.text)
    elif decision.event == "UPDATE":
        _update(outcome, row, named, decision.text)


def _drop_duplicate(outcome: Outcome, fact: NewMemory, named: Sequence[SimilarFact]) -> None:
    """Drop a fact that repeats named facts of its scope key, unless it has a detail that they lack."""
    repeated: list[SimilarFact] = []
    text = ""
    for old in named:
        if old.scope_key == fact.scope_key:
            repeated.append(old)
            text += f" {old.content}"
    if not repeated or missing_details([fact.content], text):
        return
    del outcome.facts[fact.id]
    outcome.duplicates += duplicates_of(fact, repeated)


def _end(outcome: Outcome, row: NumberedFact, named: Sequence[SimilarFact], text: str) -> None:
    """Close the named facts; the new one takes their place, merged with the part that still holds."""
    still_open = [old for old in named if old.id not in outcome.supersessions]
    placed, ended = _placed(row.fact, still_open)
    replacement = placed
    if {old.scope_key for old in ended} == {placed.scope_key}:
        replacement = _merged(placed, text, ended) or placed
    outcome.close(outcome.allowed(ended), replacement, row.candidates.values())


def _update(outcome: Outcome, row: NumberedFact, named: Sequence[SimilarFact], text: str) -> None:
    """Merge the named facts into the new one, if all of them have its scope key and none is closed yet."""
    fact = row.fact
    if not named or any(old.scope_key != fact.scope_key or old.id in outcome.supersessions for old in named):
        return
    merged = _merged(fact, text, named)
    if merged is None:
        return
    unchanged = {old.id for old in named if not missing_details([old.content], merged.content)}
    outcome.close(_renewed(outcome, named, merged), merged, row.candidates.values(), unchanged)


def closings_allowed(batch: Iterable[Message], per_message: float) -> int:
    """Return how many facts contradictions may close in a run, so that a misled model does limited damage."""
    return max(_MIN_CLOSINGS, int(len(typed_messages(batch)) * per_message))


def _placed(fact: NewMemory, named: Sequence[SimilarFact]) -> tuple[NewMemory, list[SimilarFact]]:
    """Return the fact in its final scope key, and the named facts that it may end.

    A user's fact that ends a group's takes its place in the group.
    """
    group_key = None
    if fact.scope_key.startswith("user:"):
        group_key = _other_group(fact, named)
    if group_key is None:
        return fact, list(named)
    user_id, about = fact.subject_user_id, None
    if user_id and display_name(user_id) == fact.subject:
        about = user_id
    placed = replace(fact, scope_key=group_key, subject_user_id=about, relations=())
    return placed, [old for old in named if old.scope_key in (fact.scope_key, group_key)]


def _other_group(fact: NewMemory, named: Iterable[SimilarFact]) -> str | None:
    for old in named:
        if old.scope_key.startswith("group:") and old.scope_key != fact.scope_key:
            return old.scope_key
    return None


def _renewed(outcome: Outcome, named: Sequence[SimilarFact], merged: NewMemory) -> list[SimilarFact]:
    """Return the facts that an update closes: the renewed one, and as many others as may be closed.

    A text with less than half of the words of the renewed fact ends that fact and counts as a closing.
    """
    words = content_tokens(named[0].content)
    first = list(named[:1])
    if 2 * len(words & content_tokens(merged.content)) < len(words):
        first = outcome.allowed(first)
    if not first:
        return []
    return first + outcome.allowed(named[1:])


def _merged(fact: NewMemory, text: str, named: Sequence[SimilarFact]) -> NewMemory | None:
    """Return the fact with the merged text, or None if the text adds a detail, or lacks one of the new fact.

    Readers of a group or an agent get the typed sentence of the new fact: see `scoping.with_shared_wording`.
    """
    checked = check_text(text, kind="fact").text
    sources, private, importance = fact.content, fact.private, fact.importance
    for old in named:
        sources += f" {old.content}"
        private = private or old.private
        importance = max(importance, old.importance)
    if checked is None or missing_details([checked], sources) or missing_details([fact.content], checked):
        return None
    may_share = not (private or has_contact_data(checked) or imitates_prompt(checked))
    if is_shared(fact.scope_key) and not may_share:
        return None
    return replace(
        fact,
        content=checked,
        search_text=search_text(fact.valid_from, fact.subject, checked),
        private=private,
        tags=fact.tags if may_share else (),
        importance=importance,
    )
