"""Decisions that name an unrelated fact: the named fact stays. Pure.

A weak model names any fact of the same person. Facts of a person are all near one another for an embedder, so nearness
counts in comparison with the other candidates.
"""

from collections.abc import Iterable, Sequence
from statistics import fmean, pstdev
from typing import Final

from mnemic.memory.formation.candidates import Candidates, NumberedFact, numbered_facts
from mnemic.memory.text.bands import Bands
from mnemic.memory.text.details import content_tokens
from mnemic.memory.text.words import folded_words
from mnemic.prompts.formation.decide import Decision
from mnemic.state.formation import SimilarFact
from mnemic.state.identity import display_name, split_scope_key
from mnemic.state.records import NewMemory

#: Standard deviations by which a fact must be nearer than the other candidates, if it shares no word with the new one:
#: in any category, in the new fact's category, and if the new fact is of another language than all of them.
#: Of 131 closings of a careful reader (benchmarks/corpus, conversations and pairs, minilm) the rule keeps all but one.
#: Of the 1,515 other pairs in the reader's prompts it refuses 832. The `fallback` band or an equal category, in place
#: of these figures, would keep 125, and refuse 397.
_MIN_DISTANCE: Final = 1.8
_MIN_DISTANCE_IN_CATEGORY: Final = 0.5
_MIN_DISTANCE_IN_LANGUAGE: Final = 0.0
#: Smallest standard deviation that is no chance.
_MIN_DEVIATION: Final = 0.05
#: With fewer other candidates the embedder's `check` band decides instead.
_MIN_OTHERS: Final = 2


def without_unrelated(
    facts: Sequence[NewMemory], candidates: Candidates, decisions: Iterable[Decision], bands: Bands
) -> tuple[list[Decision], int]:
    """Return the decisions without the stored facts that are unrelated to their new ones, and how many these are.

    A stored fact that is ended, updated or repeated shares its subject with the new one, and also a word, a name, a
    number, or nearness. A decision that is left without any stored fact adds its new one.
    """
    numbered = dict(enumerate(numbered_facts(facts, candidates), start=1))
    related: list[Decision] = []
    refused = 0
    for decision in decisions:
        row = numbered.get(decision.fact)
        if row is None or decision.event == "ADD":
            related.append(decision)
            continue
        numbers = [number for number in decision.known if not _is_unrelated(row, number, decision, bands)]
        refused += len(set(decision.known) - set(numbers))
        related.append(decision.model_copy(update={"known": numbers}))
    return related, refused


def _is_unrelated(row: NumberedFact, number: int, decision: Decision, bands: Bands) -> bool:
    old = row.candidates.get(number)
    if old is None or (decision.event == "UPDATE" and _is_retained(old, decision.text)):
        return False
    if not _share_subject(row.fact, old):
        return True
    return not _shared_words(row.fact, old) and not _is_near(row, old, bands)


def _is_retained(old: SimilarFact, text: str) -> bool:
    """Return whether the new text has half of a fact's words."""
    words = content_tokens(old.content) - _owner_tokens(old.scope_key)
    return bool(words) and 2 * len(words & content_tokens(text)) >= len(words)


def _share_subject(fact: NewMemory, old: SimilarFact) -> bool:
    if fact.scope_key == old.scope_key or fact.subject.casefold() == old.subject.casefold():
        return True
    if fact.subject_user_id and fact.subject_user_id == old.subject_user_id:
        return True
    mine, theirs = content_tokens(fact.subject, 1), content_tokens(old.subject, 1)
    return bool(mine & content_tokens(f"{old.subject} {old.content}", 1) or theirs & content_tokens(fact.content, 1))


def _shared_words(fact: NewMemory, old: SimilarFact) -> frozenset[str]:
    """Return the content words and numbers of both facts, except the names of their owner and of a shared subject."""
    subject = content_tokens(fact.subject, 1) & content_tokens(old.subject, 1)
    names = subject | _owner_tokens(fact.scope_key) | _owner_tokens(old.scope_key) | {"not"}
    return (content_tokens(fact.content) & content_tokens(old.content)) - names


def _owner_tokens(scope_key: str) -> frozenset[str]:
    """Return the tokens of a user's name, which is in nearly every fact of that user; of other owners none."""
    scope, owner = split_scope_key(scope_key)
    return content_tokens(display_name(owner), 1) if scope == "user" else frozenset()


def _is_near(row: NumberedFact, old: SimilarFact, bands: Bands) -> bool:
    """Return whether a stored fact is near the new one, in comparison with the other candidates."""
    if old.similarity <= 0:
        return False
    candidates = row.candidates.values()
    others = [other.similarity for other in candidates if other.id != old.id and other.similarity]
    if len(others) < _MIN_OTHERS:
        return old.similarity >= bands.check
    distance = (old.similarity - fmean(others)) / max(_MIN_DEVIATION, pstdev(others))
    if distance >= _MIN_DISTANCE:
        return True
    if row.fact.category == old.category and distance >= _MIN_DISTANCE_IN_CATEGORY:
        return True
    return distance >= _MIN_DISTANCE_IN_LANGUAGE and _is_of_another_language(row.fact, candidates)


def _is_of_another_language(fact: NewMemory, candidates: Iterable[SimilarFact]) -> bool:
    """Return whether a fact shares no word with any candidate, except names and numbers.

    Facts of one language share articles and forms of `to be` with some of a few others.
    """
    words = _plain_words(fact.content)
    return all(words.isdisjoint(_plain_words(other.content)) for other in candidates)


def _plain_words(text: str) -> set[str]:
    """Return the words of a text in small letters."""
    return {word for word in folded_words(text) if word.isalpha() and word in text.split()}
