"""Decisions that name a fact the new one has nothing to do with: the fact stays. Pure.

A judge that reads badly names any fact of the same person. Facts of a person are all near one another for an embedder,
so that nearness counts in comparison with the other facts that were shown.
"""

from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean, pstdev
from typing import Final

from mnemic.memory.formation.candidates import Candidates, concerned
from mnemic.memory.text.bands import Bands
from mnemic.memory.text.sharing import content_tokens
from mnemic.memory.text.words import folded_words
from mnemic.prompts.extraction import Decision
from mnemic.state.formation import SimilarFact
from mnemic.state.identity import display_name, split_scope_key
from mnemic.state.records import NewMemory

#: Standard deviations by which a fact has to be nearer than the others that were shown, if it shares no word with the
#: new one: in any category, in the new fact's category, and if the new fact is of another language than all of them.
#: Of 131 closings of a careful reader (benchmarks/corpus, conversations and pairs, minilm) the rule keeps all but one.
#: Of the 1,515 other pairs that the reader was shown it refuses 832. The `fallback` band or an equal category, in place
#: of these figures, would keep 125, and refuse 397.
_STANDS_OUT: Final = 1.8
_STANDS_OUT_IN_CATEGORY: Final = 0.5
_STANDS_OUT_IN_LANGUAGE: Final = 0.0
#: Below it the similarities of facts differ by chance.
_MIN_DEVIATION: Final = 0.05
#: Fewer other facts give no measure. Then the embedder's `check` band decides: near enough that one replaces the other.
_MIN_OTHERS: Final = 2


def without_unrelated(
    facts: Sequence[NewMemory], candidates: Candidates, decisions: Iterable[Decision], bands: Bands
) -> tuple[list[Decision], int]:
    """Return the decisions without the known facts that have too little in common with their new ones, and how many.

    A known fact that is ended, renewed or repeated shares the subject with the new one, and something else: a word, a
    name, a number, or nearness. A decision that is left without any known fact adds its new one.
    """
    shown = dict(enumerate(concerned(facts, candidates), start=1))
    related: list[Decision] = []
    refused = 0
    for decision in decisions:
        fact, known = shown.get(decision.fact, (None, {}))
        if fact is None or decision.event == "ADD":
            related.append(decision)
            continue
        unrelated = {number for number in decision.known if _is_unrelated(fact, number, known, decision, bands)}
        refused += len(unrelated)
        numbers = [number for number in decision.known if number not in unrelated]
        related.append(decision.model_copy(update={"known": numbers}))
    return related, refused


def _is_unrelated(
    fact: NewMemory, number: int, known: Mapping[int, SimilarFact], decision: Decision, bands: Bands
) -> bool:
    old = known.get(number)
    if old is None or (decision.event == "UPDATE" and _is_kept(old, decision.text)):
        return False
    if not _share_subject(fact, old):
        return True
    return not _shared_words(fact, old) and not _is_near(fact, old, [*known.values()], bands)


def _is_kept(old: SimilarFact, text: str) -> bool:
    """Return whether the new text keeps half of a fact's words, so that nothing of it is lost."""
    told = content_tokens(old.content) - _owner_tokens(old.scope_key)
    return bool(told) and 2 * len(told & content_tokens(text)) >= len(told)


def _share_subject(fact: NewMemory, old: SimilarFact) -> bool:
    if fact.scope_key == old.scope_key or fact.subject.casefold() == old.subject.casefold():
        return True
    if fact.subject_user_id and fact.subject_user_id == old.subject_user_id:
        return True
    mine, theirs = content_tokens(fact.subject, 1), content_tokens(old.subject, 1)
    return bool(mine & content_tokens(f"{old.subject} {old.content}", 1) or theirs & content_tokens(fact.content, 1))


def _shared_words(fact: NewMemory, old: SimilarFact) -> frozenset[str]:
    """Return the telling words and numbers of both facts, but for the names of their owner and of a shared subject."""
    subject = content_tokens(fact.subject, 1) & content_tokens(old.subject, 1)
    names = subject | _owner_tokens(fact.scope_key) | _owner_tokens(old.scope_key) | {"not"}
    return (content_tokens(fact.content) & content_tokens(old.content)) - names


def _owner_tokens(scope_key: str) -> frozenset[str]:
    """Return the tokens of a user's name, which stands in nearly every fact of that user; of other owners none."""
    scope, owner = split_scope_key(scope_key)
    return content_tokens(display_name(owner), 1) if scope == "user" else frozenset()


def _is_near(fact: NewMemory, old: SimilarFact, known: Sequence[SimilarFact], bands: Bands) -> bool:
    """Return whether a fact is near the new one, in comparison with the others that were shown with it."""
    if old.similarity <= 0:
        return False
    others = [other.similarity for other in known if other.id != old.id and other.similarity]
    if len(others) < _MIN_OTHERS:
        return old.similarity >= bands.check
    distance = (old.similarity - fmean(others)) / max(_MIN_DEVIATION, pstdev(others))
    if distance >= _STANDS_OUT:
        return True
    if fact.category == old.category and distance >= _STANDS_OUT_IN_CATEGORY:
        return True
    return distance >= _STANDS_OUT_IN_LANGUAGE and _is_of_another_language(fact, known)


def _is_of_another_language(fact: NewMemory, known: Iterable[SimilarFact]) -> bool:
    """Return whether a fact shares no word with any other one, however short, but for names and numbers.

    Facts of one language share articles and forms of `to be` with some of a few others.
    """
    words = _plain_words(fact.content)
    return all(words.isdisjoint(_plain_words(other.content)) for other in known)


def _plain_words(text: str) -> set[str]:
    """Return the words of a text in small letters."""
    return {word for word in folded_words(text) if word.isalpha() and word in text.split()}
