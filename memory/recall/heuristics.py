"""Decide by the words of a message whether it needs a search: requests, the past, the user's own affairs, names."""

from collections.abc import Sequence, Set
from typing import Final, NamedTuple

from mnemic.memory.runtime.requests import Phrase, Run
from mnemic.memory.text.details import may_be_name
from mnemic.memory.text.questions import folded, is_question, spoken_sentences
from mnemic.memory.text.words import Word, bare, folded_words, is_common_word, pattern, word_set, words
from mnemic.state.records import ScopeContext

#: Number of unknown names that make a search worth its time.
NAMES_NEEDED: Final = 2

_QUESTION_WORDS = word_set("what when where who whom why how which whose")
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
#: Maximum number of words between the question word and the past indicator: "which of the two restaurants was".
_MAX_BETWEEN: Final = 4
#: Capitalised nouns of general knowledge, which refer to no memory.
_GENERAL_KNOWLEDGE = word_set(
    "english french german spanish italian portuguese dutch danish swedish norwegian finnish polish russian ukrainian "
    "romanian hungarian czech greek turkish arabic hebrew hindi chinese mandarin japanese korean latin european "
    "american british internet christmas easter god python javascript typescript java"
)


def search_reason(message: str, scopes: Sequence[ScopeContext] = (), requests: Sequence[Phrase] = ()) -> str | None:
    """Return the reason for a search: `phrase`, `past_question`, `own_question` or `names`; None if there is none.

    Args:
        message: Message of the user.
        scopes: Memories that are always in context; names that they do not have are a reason, too.
        requests: Phrases that request a search.
    """
    sentences: list[_Sentence] = []
    for text in spoken_sentences(message):
        sentences.append(_Sentence(folded(text), is_question(text)))
    if any(_requests_search(sentence.words, requests) for sentence in sentences):
        return "phrase"
    if any(_is_about_the_past(sentence) for sentence in sentences):
        return "past_question"
    if any(sentence.is_question and _is_about_own(sentence.words) for sentence in sentences):
        return "own_question"
    names = candidate_names(message)
    if len(names) < NAMES_NEEDED:
        return None
    context = "\n".join(scope.text for scope in scopes)
    if len(unknown_names(names, context)) < NAMES_NEEDED:
        return None
    return "names"


class _Sentence(NamedTuple):
    #: Words without case and accents.
    words: list[str]
    is_question: bool


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
        if word.partition("'")[0] not in _QUESTION_WORDS:
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
    return _ADVICE.isdisjoint(question) and bool(_ABOUT_OWN().match(" ".join(question)))


def unknown_names(names: Sequence[str], context: str) -> tuple[str, ...]:
    """Return the names without any distinctive word in the context, in any case."""
    lines = [(line, line.casefold()) for line in context.split("\n")]
    unknown: list[str] = []
    for name in names:
        if not any(_is_in_lines(word, lines) for word in _distinctive_words(name)):
            unknown.append(name)
    return tuple(unknown)


def _is_in_lines(word: str, lines: Sequence[tuple[str, str]]) -> bool:
    # skip lines that cannot hold the word: the words of 6,000 memories take 35 ms
    return any(word in folded_line and word in folded_words(line) for line, folded_line in lines)


def _distinctive_words(name: str) -> list[str]:
    """Return the words that identify a name: `york` for `New York`; all words of a name of common words alone."""
    folded_name = folded_words(name)
    distinctive: list[str] = []
    for word in folded_name:
        if not is_common_word(word):
            distinctive.append(word)
    return distinctive or folded_name


def candidate_names(message: str) -> tuple[str, ...]:
    """Return the names within the sentences of a message, each once; adjacent capitalised words are one name.

    Acronyms, shouted words and the first word of a sentence do not count.
    """
    names: dict[str, str] = {}
    name = ""
    end = -1
    for word in words(message):
        if not _may_be_part_of_name(word):
            continue
        is_adjacent = message[end : word.start] in (" ", "-")
        if name and is_adjacent:
            names.pop(name.casefold(), None)
            name = f"{name} {bare(word.text)}"
        else:
            name = bare(word.text)
        names.setdefault(name.casefold(), name)
        end = word.start + len(word.text)
    return tuple(names.values())


def _may_be_part_of_name(word: Word) -> bool:
    part = bare(word.text)
    if word.initial or part.isupper():
        return False
    return may_be_name(word.text) and part.casefold() not in _GENERAL_KNOWLEDGE
