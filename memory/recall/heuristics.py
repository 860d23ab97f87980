"""Decide without a model whether a message needs a search: by requests, known words, own affairs, the turn before."""

from collections.abc import Sequence, Set
from typing import Final, NamedTuple

from mnemic.memory.recall.turn_words import POSSESSIVES, QUESTION_WORDS, has_unknown_word, is_known, look_up, read_words
from mnemic.memory.runtime.requests import Phrase, Run
from mnemic.memory.text.questions import folded, is_question, spoken_sentences
from mnemic.memory.text.words import pattern, word_set
from mnemic.state.graphs import SearchReason
from mnemic.state.records import TurnWords, WordCounts

#: Maximum number of words of a turn that leans on the one before.
_MAX_LEANING_WORDS: Final = 6
#: Beginnings of a turn that adds to the one before, in the languages of the phrases.
_ADDITIONS = word_set("and but or also plus und aber oder auch y e pero o tambien et mais ou aussi mas tambem") | {
    "what about",
    "how about",
}
_PAST = word_set("was were did had said told mentioned wasn't weren't didn't hadn't")
_SUBJECTS = word_set("i you he she it we they there")
_HYPOTHETICAL = word_set("if would should could might")
#: A question about the user's own affairs: `what is my sister allergic to`, `do I drink coffee`.
_ABOUT_OWN = pattern(
    r"^(?:(?:and|so|but|ok|okay|hey|by the way) )*(?:"
    r"(?:(?:on|in|at|for|from|with|to) )?(?:what(?:'s)?|when(?:'s)?|where(?:'s)?|who(?:'s)?|which|whose|since when"
    r"|how (?:old|many|much|often|long))\b.*\b(?:i|i'm|my|mine|we|our|ours)"
    r"|(?:do|am|are|have|is|does) (?:i|we|my|our)"
    r"|do you (?:still )?(?:know|have)\b.*\b(?:my|i|our|we|me|us)"
    r")\b"
)
#: Words of a question for advice, not for memory: `what should I do`, `what do you think of my poem`.
_ADVICE = word_set(
    "should shall can could would might need want wanna gonna must think recommend recommendations advice"
)
#: `When should I renew my passport?` needs a fact; `where should I go?` and `what should I give my mother?` do not.
_FACT_WORDS = word_set("when where who whose")
#: Maximum number of words between the question word and the past indicator: "which of the two restaurants was".
_MAX_BETWEEN: Final = 4


def words_to_count(message: str, previous: str, requests: Sequence[Phrase] = ()) -> TurnWords | None:
    """Return the words of a turn whose number of entries decides on a search; None if there are none.

    A turn that is searched for another reason needs no counts.

    Args:
        message: Message of the user.
        previous: Message of the user before it; it counts for a turn that may lean on it.
        requests: Phrases that request a search.
    """
    if _reason_by_request(_sentences(message), requests):
        return None
    if previous and _may_lean(message):
        return look_up(f"{previous}\n{message}")
    return look_up(message)


def search_reason(
    message: str, previous: str = "", counts: WordCounts | None = None, requests: Sequence[Phrase] = ()
) -> SearchReason | None:
    """Return the reason for a search; None if there is none.

    Args:
        message: Message of the user.
        previous: Message of the user before it; `follow_up` searches for both.
        counts: Number of entries with each of the words to count.
        requests: Phrases that request a search.
    """
    sentences = _sentences(message)
    reason = _reason_by_request(sentences, requests)
    if reason:
        return reason
    known = is_known(message, counts)
    if previous and _leans(message, counts) and (known or search_reason(previous, "", counts, requests)):
        return "follow_up"
    if known:
        return "known_word"
    is_past = any(_is_about_the_past(sentence) for sentence in sentences)
    if is_past and not has_unknown_word(message, counts):
        return "past_question"
    return None


def _reason_by_request(sentences: Sequence["_Sentence"], requests: Sequence[Phrase]) -> SearchReason | None:
    """Return the reason of a turn that is searched whatever the memory has."""
    if any(_requests_search(sentence.words, requests) for sentence in sentences):
        return "phrase"
    if any(sentence.is_question and _is_about_own(sentence.words) for sentence in sentences):
        return "own_question"
    return None


# -- turns that lean on the one before


def _may_lean(message: str) -> bool:
    """Return whether a message is short, and begins like an addition or is a question."""
    spoken = folded(message)
    return len(spoken) <= _MAX_LEANING_WORDS and (_begins_as_addition(spoken) or is_question(message))


def _leans(message: str, counts: WordCounts | None) -> bool:
    """Return whether a message is short, and begins as an addition or is a question without content words."""
    if not _may_lean(message):
        return False
    if _begins_as_addition(folded(message)):
        return True
    for word in read_words(message):
        is_function = word.is_function or (counts is not None and counts.by_word.get(word.text) == -1)
        if not is_function:
            return False
    return True


def _begins_as_addition(spoken: Sequence[str]) -> bool:
    return bool(spoken) and (spoken[0] in _ADDITIONS or " ".join(spoken[:2]) in _ADDITIONS)


# -- requests, own affairs, the past


class _Sentence(NamedTuple):
    #: Words without case and accents.
    words: list[str]
    is_question: bool


def _sentences(message: str) -> list[_Sentence]:
    sentences: list[_Sentence] = []
    for text in spoken_sentences(message):
        sentences.append(_Sentence(folded(text), is_question(text)))
    return sentences


def _requests_search(words_of_sentence: Sequence[str], requests: Sequence[Phrase]) -> bool:
    return any(_has_phrase(words_of_sentence, phrase) for phrase in requests)


def _has_phrase(words: Sequence[str], phrase: Phrase) -> bool:
    """Return whether a sentence of folded words has the phrase; only the first place of each run is tried."""
    for run in phrase.runs:
        if run[0].isdisjoint(words):  # most phrases, a microsecond each
            return False
    place = 0
    for number, run in enumerate(phrase.runs):
        starts = range(place, len(words) - len(run) + 1)
        if number == 0 and not phrase.anywhere:
            starts = starts[:1]
        start = _find_run(words, run, starts)
        if start is None:
            return False
        place = start + len(run)
    return True


def _find_run(words: Sequence[str], run: Run, starts: range) -> int | None:
    """Return the first of the places at which the run begins; None if it begins at none of them."""
    for start in starts:
        if words[start] in run[0] and _continues(words, start, run):
            return start
    return None


def _continues(words: Sequence[str], start: int, run: Run) -> bool:
    following = words[start + 1 : start + len(run)]
    return all(word in options for word, options in zip(following, run[1:], strict=True))


def _is_about_the_past(sentence: _Sentence) -> bool:
    """Return whether a question has a question word, soon followed by a past indicator.

    Without a question mark only the word order of a question counts: "where did she", but not "when I was young".
    """
    if not _HYPOTHETICAL.isdisjoint(sentence.words):
        return False
    for place, word in enumerate(sentence.words):
        if word.partition("'")[0] not in QUESTION_WORDS:
            continue
        following = sentence.words[place + 1 : place + 2 + _MAX_BETWEEN]
        past = _first_place(following, _PAST)
        if past is None:
            continue
        has_question_order = place <= 1 and _SUBJECTS.isdisjoint(following[:past])
        if sentence.is_question or has_question_order:
            return True
    return False


def _first_place(sequence: Sequence[str], wanted: Set[str]) -> int | None:
    """Return the place of the first of the wanted words in a sequence."""
    for place, word in enumerate(sequence):
        if word in wanted:
            return place
    return None


def _is_about_own(question: Sequence[str]) -> bool:
    """Return whether a question is about the user's own affairs, and does not request advice."""
    if not _ABOUT_OWN().match(" ".join(question)):
        return False
    has_fact = not _FACT_WORDS.isdisjoint(question) and not POSSESSIVES.isdisjoint(question)
    return has_fact or _ADVICE.isdisjoint(question)
