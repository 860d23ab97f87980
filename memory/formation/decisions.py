"""What new facts do to the facts near them: what they repeat, what a decision is needed on, and what it brings. Pure.

Whatever cannot be trusted of a decision becomes ADD.
"""

from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass, field, replace
from itertools import combinations
from operator import mul
from typing import Final
from uuid import UUID

from mnemic.memory.formation.candidates import Candidates, concerned
from mnemic.memory.runtime.transcript import typed_messages
from mnemic.memory.text.bands import Bands, band_of_pair, nearest_relations
from mnemic.memory.text.kept import missing_details
from mnemic.memory.text.shape import search_text
from mnemic.memory.text.sharing import content_tokens, has_contact_data, imitates_prompt
from mnemic.memory.text.writing import check_text
from mnemic.prompts.extraction import Decision
from mnemic.state.attribution import is_shared
from mnemic.state.formation import DuplicateDraft, ExactDuplicate, SimilarFact
from mnemic.state.graphs import FormationState
from mnemic.state.identity import display_name
from mnemic.state.records import Message, NewMemory, Supersession
from mnemic.state.settings import Settings

#: A reason that is longer is no reason, and its decision no decision.
MAX_REASON_CHARS: Final = 400
#: A short turn may correct several things at once.
_MIN_CLOSINGS: Final = 3


def compare_facts(
    facts: Sequence[NewMemory],
    vectors: Sequence[Sequence[float] | None],
    stored: Sequence[SimilarFact],
    bands: Bands,
    settings: Settings,
) -> FormationState:
    """Compares the facts of a batch, in the order they were said, with those that are stored and with one another.

    What comes of it are the facts that are not known yet, with their vectors, the stored ones that each may change, and
    what the others repeat. Facts of one batch were drawn from one conversation: they change nothing of one another.

    Args:
        facts: the new ones.
        vectors: theirs, of length 1; None for a fact that has to wait for its vector.
        stored: what each may change, the likeliest first.
        bands: of the embedder.
        settings: how many relations a fact gets, and from which similarity on.
    """
    fresh: list[NewMemory] = []
    candidates: dict[UUID, list[SimilarFact]] = {}
    repeats: list[DuplicateDraft] = []
    beside = _within_batch(facts, vectors)
    dropped: set[UUID] = set()
    for place, fact in enumerate(facts):
        known = [old for old in stored if old.place == place]
        near = [old for old in [*known, *beside[place]] if old.scope_key == fact.scope_key and old.id not in dropped]
        if same := [old for old in near if band_of_pair(fact.content, old.content, old.similarity, bands) == "auto"]:
            # said anew after all: what came before it in this batch does not close it
            candidates = _without(candidates, {old.id for old in same})
            dropped.add(fact.id)
            repeats += repeats_of(fact, same)
            continue
        fresh.append(replace(fact, relations=nearest_relations(near, bands, settings)))
        candidates[fact.id] = [old for old in known if not old.protected]
    return {
        "facts": fresh,
        "repeated": len(dropped),
        "repeats": repeats,
        "vectors": {
            fact.id: None if vector is None else [*vector]
            for fact, vector in zip(facts, vectors, strict=True)
            if fact.id not in dropped
        },
        "candidates": _without(candidates, set()),
    }


def _without(candidates: Candidates, gone: Set[UUID]) -> dict[UUID, list[SimilarFact]]:
    left = {new_id: [old for old in near if old.id not in gone] for new_id, near in candidates.items()}
    return {new_id: near for new_id, near in left.items() if near}


def repeats_of(new: NewMemory, known: Iterable[SimilarFact | ExactDuplicate]) -> list[DuplicateDraft]:
    """A new memory as the repeat of each of these, which live in its own scope."""
    return [
        DuplicateDraft(new=new, known_id=old.id, scope_key=new.scope_key, is_stored=old.version > 0) for old in known
    ]


def _within_batch(facts: Sequence[NewMemory], vectors: Sequence[Sequence[float] | None]) -> list[list[SimilarFact]]:
    """For each fact those before it, as if they were stored."""
    found: list[list[SimilarFact]] = [[] for _ in facts]
    for earlier, place in combinations(range(len(facts)), 2):
        fact, vector, later = facts[earlier], vectors[earlier], vectors[place]
        found[place].append(
            SimilarFact(
                place=place,
                id=fact.id,
                version=0,
                scope_key=fact.scope_key,
                subject=fact.subject,
                subject_user_id=fact.subject_user_id,
                category=fact.category,
                content=fact.content,
                dated=fact.valid_from,
                protected=False,
                private=fact.private,
                importance=fact.importance,
                similarity=sum(map(mul, vector, later)) if vector and later else 0,
            )
        )
    return found


@dataclass
class Outcome:
    """The facts to store and the ones to close."""

    #: By id, in order; a repeated fact is gone, a changed one replaced.
    facts: dict[UUID, NewMemory]
    #: How many more facts contradictions may close.
    closings: int
    #: By the id of what is closed.
    closing: dict[UUID, Supersession] = field(default_factory=dict)
    #: What the facts that are gone repeat.
    repeats: list[DuplicateDraft] = field(default_factory=list)

    def allowed(self, named: Sequence[SimilarFact]) -> list[SimilarFact]:
        """As many as the run may still close."""
        allowed = list(named[: self.closings])
        self.closings -= len(allowed)
        return allowed

    def close(
        self,
        named: Sequence[SimilarFact],
        replacement: NewMemory,
        shown: Iterable[SimilarFact],
        holding: Set[UUID] = frozenset(),
    ) -> None:
        """The named facts make room for the replacement, unless another one of its scope key says the same.

        Args:
            named: what is closed.
            replacement: what is true now.
            shown: the known facts near it.
            holding: those that hold on, in other words.
        """
        known = {(old.scope_key, old.content) for old in shown}
        batch = {(row.scope_key, row.content) for row in self.facts.values() if row.id != replacement.id}
        if not named or (replacement.scope_key, replacement.content) in known | batch:
            return
        self.facts[replacement.id] = replacement
        for old in named:
            until = None if old.id in holding else replacement.valid_from
            self.closing[old.id] = Supersession(old.id, old.version, replacement.id, until)


def apply_decisions(
    facts: Sequence[NewMemory],
    candidates: Candidates,
    decisions: Iterable[Decision],
    *,
    closings: int,
) -> Outcome:
    """Applies the first decision on each fact that the step was asked about.

    A fact is closed once. Only one that the same people see is repeated or put into a new text: nothing is carried from
    one scope key to another.

    Args:
        facts: all new ones.
        candidates: what each may change; a decision may name nothing else.
        decisions: what the step answered.
        closings: most facts that contradictions may close in this run.
    """
    outcome = Outcome({fact.id: fact for fact in facts}, closings)
    first = {decision.fact: decision for decision in reversed(list(decisions))}
    for number, (fact, known) in enumerate(concerned(facts, candidates), start=1):
        decision = first.get(number)
        if decision is None or len(decision.reason) > MAX_REASON_CHARS:
            continue
        named = [old for place, old in known.items() if place in decision.known]
        own = [old for old in named if old.scope_key == fact.scope_key]
        is_free = outcome.closing.keys().isdisjoint(old.id for old in named)
        if decision.event == "NONE" and own:
            if missing_details([fact.content], " ".join(old.content for old in own)):
                continue  # it says more than what it is said to repeat
            del outcome.facts[fact.id]
            outcome.repeats += repeats_of(fact, own)
        elif decision.event == "DELETE":
            still_open = [old for old in named if old.id not in outcome.closing]
            placed, ended = _placed(fact, still_open)
            is_one_scope = {old.scope_key for old in ended} == {placed.scope_key}
            # with what still holds of what has ended, where it can be said
            whole = _updated(placed, decision.text, ended) if is_one_scope else None
            outcome.close(outcome.allowed(ended), whole or placed, known.values())
        elif decision.event == "UPDATE" and is_free and own == named and own:
            updated = _updated(fact, decision.text, named) or fact
            holding = {old.id for old in named if not missing_details([old.content], updated.content)}
            closed = _renewed(outcome, named, updated) if updated is not fact else []
            outcome.close(closed, updated, known.values(), holding)
    return outcome


def closings_allowed(batch: Iterable[Message], per_message: float) -> int:
    """Most facts that contradictions may close in a run, so that a misled model does bounded damage."""
    return max(_MIN_CLOSINGS, int(len(typed_messages(batch)) * per_message))


def _placed(fact: NewMemory, named: Sequence[SimilarFact]) -> tuple[NewMemory, list[SimilarFact]]:
    """The fact where it stands from now on, and what it ends: what ends a group's fact takes its place there."""
    groups = [old.scope_key for old in named if old.scope_key != fact.scope_key and old.scope_key.startswith("group:")]
    if not groups or not fact.scope_key.startswith("user:"):
        return fact, [*named]
    user = fact.subject_user_id
    about = user if user and display_name(user) == fact.subject else None
    placed = replace(fact, scope_key=groups[0], subject_user_id=about, relations=())
    return placed, [old for old in named if old.scope_key in (fact.scope_key, groups[0])]


def _renewed(outcome: Outcome, named: Sequence[SimilarFact], updated: NewMemory) -> list[SimilarFact]:
    """What an update closes: the fact it renews, and as many others as may be deleted.

    A text that keeps less than half of the words it is said to renew deletes that fact, too, whatever it is called.
    """
    words = content_tokens(named[0].content)
    renews = 2 * len(words & content_tokens(updated.content)) >= len(words)
    first = list(named[:1]) if renews else outcome.allowed(named[:1])
    return first and first + outcome.allowed(named[1:])


def _updated(fact: NewMemory, text: str, named: Sequence[SimilarFact]) -> NewMemory | None:
    """Return the fact with the merged text, or None if that adds what was not said, or loses what the new fact says.

    Readers of a group or an agent get the typed sentence of the new fact: `scoping.with_shared_wording`.
    """
    checked = check_text(text, kind="fact").text
    known = " ".join([fact.content, *(old.content for old in named)])
    if checked is None or missing_details([checked], known) or missing_details([fact.content], checked):
        return None
    private = fact.private or any(old.private for old in named)
    may_share = not (private or has_contact_data(checked) or imitates_prompt(checked))
    if is_shared(fact.scope_key) and not may_share:
        return None
    return replace(
        fact,
        content=checked,
        search_text=search_text(fact.valid_from, fact.subject, checked),
        private=private,
        tags=fact.tags if may_share else (),
        importance=max(fact.importance, *(old.importance for old in named)),
    )
