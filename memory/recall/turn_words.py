"""Words of a turn, and whether the memory knows them: names, uncommon words, and things such as `the car`."""

import re
from itertools import zip_longest
from typing import Final, NamedTuple

from mnemic.memory.text.details import DATE_WORDS
from mnemic.memory.text.questions import folded, is_question, spoken_sentences
from mnemic.memory.text.word_lists import FUNCTION_WORDS
from mnemic.memory.text.words import bare, is_common_word, stem, word_set, words
from mnemic.state.records import TurnWords, WordCounts

QUESTION_WORDS = word_set("what when where who whom why how which whose")
#: Maximum number of words that are looked up.
MAX_WORDS: Final = 60
#: Weight of a common English word, and of one that refers to a known thing; any other word has 1.
_COMMON_WEIGHT: Final = 0.4
_DEFINITE_WEIGHT: Final = 0.6
#: Minimum weight of the words that a memory shares with a short message, and its growth with each word above `_SHORT`.
_MIN_WEIGHT: Final = 0.6
_WEIGHT_STEP: Final = 0.05
_SHORT: Final = 7
#: Minimum number of letters of a word, and of a capitalised one within a sentence.
_MIN_LETTERS: Final = 3
_MIN_LETTERS_OF_NAME: Final = 2
_APOSTROPHE = re.compile("['’]")
POSSESSIVES = word_set("my our mine ours")
_FIRST_PERSON = POSSESSIVES | {"i", "we"}
_DETERMINERS = POSSESSIVES | word_set("the this that these those his her its their")


class TurnWord(NamedTuple):
    """One word of a turn, in lower case."""

    text: str
    #: Whether it is an English function word, or too short to look up.
    is_function: bool
    #: Whether it is a common English word and not capitalised within a sentence.
    is_common: bool
    #: Whether it refers to a known thing: `the car`, `my car`, `Ana's car`, but not `the price of gold`.
    is_definite: bool

    @property
    def weight(self) -> float:
        """Weight of the word as a sign that a memory is meant."""
        if not self.is_common:
            return 1
        if self.is_definite:
            return _DEFINITE_WEIGHT
        return _COMMON_WEIGHT


def read_words(text: str) -> list[TurnWord]:
    """Return the words of a text, in order."""
    turn: list[TurnWord] = []
    for sentence in spoken_sentences(text):
        turn += _words_of_sentence(sentence, is_own=_is_own_request(sentence))
    return turn


def _is_own_request(sentence: str) -> bool:
    """Return whether a question or a request has an `I` or `my`: its things are the user's own."""
    spoken = folded(sentence)
    if not any(word.partition("'")[0] in _FIRST_PERSON for word in spoken):
        return False
    return is_question(sentence) or spoken[0] in QUESTION_WORDS or spoken[0] not in FUNCTION_WORDS


def _words_of_sentence(sentence: str, *, is_own: bool) -> list[TurnWord]:
    in_order: list[TurnWord] = []
    spoken = words(sentence)
    has_determiner = False
    for word, following in zip_longest(spoken, spoken[1:]):
        is_described = following is not None and following.text == "of"
        is_name = word.text[0].isupper() and not word.initial
        is_definite = is_own or (has_determiner and not is_described)
        for part in _APOSTROPHE.split(bare(word.text)):
            text = part.casefold()
            min_letters = _MIN_LETTERS_OF_NAME if is_name else _MIN_LETTERS
            is_function = text in FUNCTION_WORDS or len(text) < min_letters
            is_common = text in DATE_WORDS or (not is_name and is_common_word(text))
            in_order.append(TurnWord(text, is_function, is_common, is_definite))
        has_determiner = word.text.casefold() in _DETERMINERS or bare(word.text) != word.text
    return in_order


def look_up(text: str) -> TurnWords | None:
    """Return the words of a text to count; None if it has only function words and indefinite common ones."""
    turn = read_words(text)
    if all(word.is_function or (word.is_common and not word.is_definite) for word in turn):
        return None
    content: dict[str, None] = {}
    for word in turn:
        if not word.is_function:
            content[word.text] = None
    return TurnWords([word.text for word in turn[:MAX_WORDS]], [*content][:MAX_WORDS])


def telling_stems(question: str, counts: WordCounts | None) -> frozenset[str]:
    """Return the stems of the words of a question that few memories have; without counts, of all but function words."""
    telling: set[str] = set()
    for rare in counts.rare_by_entry if counts else ():
        telling.update(rare)
    if counts is None:
        telling.update(word.text for word in read_words(question) if not word.is_function)
    stems: set[str] = set()
    for word in telling:
        stems.update(map(stem, folded(word)))
    return frozenset(stems)


def is_known(message: str, counts: WordCounts | None) -> bool:
    """Return whether a memory shares enough rare words with a message; a longer message needs more."""
    if counts is None:
        return False
    weights: dict[str, float] = {}
    length = 0
    for word in read_words(message):
        if word.is_function or counts.by_word.get(word.text) == -1:
            continue
        length += 1
        weight = word.weight if counts.is_indexed_language else 1
        weights[word.text] = max(weight, weights.get(word.text, 0))
    min_weight = _MIN_WEIGHT + _WEIGHT_STEP * max(0, length - _SHORT)
    return any(sum(weights.get(word, 0) for word in rare) >= min_weight for rare in counts.rare_by_entry)


def has_unknown_word(message: str, counts: WordCounts | None) -> bool:
    """Return whether the message has a word that is not common and that no entry has: it is about something else."""
    if counts is None:
        return False
    return any(counts.by_word.get(word.text) == 0 and not word.is_common for word in read_words(message))
