"""Check the text of a memory: complete, short, neutral, in the third person, and no loop of a language model."""

import math
import re
from collections import Counter
from typing import Literal, NamedTuple

from mnemic.memory.text.details import DATE_WORDS, SUBJECT_I
from mnemic.memory.text.shape import clean_text
from mnemic.memory.text.words import (
    QUOTED,
    WORD,
    Word,
    is_common_word,
    sentence_ends,
    sentences,
    word_set,
    words,
)
from mnemic.state.kinds import Kind

Problem = Literal["empty", "degenerate", "too_long", "first_person", "pronoun_start", "not_neutral"]


class _Limits(NamedTuple):
    words: float = math.inf
    chars: float = math.inf
    sentences: float = math.inf


#: Kinds made of sentences about a person. Other kinds are whole texts or steps: only their length is checked.
_LIMITS: dict[Kind, _Limits] = {
    "fact": _Limits(words=30, chars=280),
    "reflection": _Limits(words=35, chars=500),
    "episode": _Limits(chars=280, sentences=2),
    "insight": _Limits(chars=280, sentences=2),
}
_BARE_PRONOUNS = frozenset({"he", "she", "they", "it", "his", "her", "hers", "their", "theirs", "its"})
#: An exclamation mark that ends a word or a quotation; `!=` and the like are none.
_EXCLAMATION = re.compile(r"""(?<=[\w"'”’»)%?])\s?[!！]++(?=[\s"'”’»)]|$)""")
_LAST_EXCLAMATION = re.compile(r"(?<![!?！])[!！]++$")


_TOKEN = re.compile(r"\w+")
_ONE_CHARACTER = re.compile(r"(\w)\1{29}")
#: A phrase of so many words is a loop if it is repeated so many times in a row; "very, very, very" is not, nor are rows
#: of equal numbers.
_MAX_IN_A_ROW = {1: 6, 2: 4, 3: 4, 4: 3, 5: 3, 6: 3, 7: 3, 8: 3}
#: English prose of 1,000 words still has more than a third of different ones.
_MIN_DIFFERENT = 0.2
_ENOUGH_WORDS = 40

_PRONOUNS = word_set(
    "me my myself we us our ours ourselves you your yours yourself yourselves let's y'all we're we've we'll we'd "
    "you're you've you'll you'd"
)
#: `mine` is also a pit: only these before it make it a pronoun.
_BEFORE_MINE = frozenset({"of", "is", "was", "are", "were", "be", "and", "than", "like"})
_NUMBERED = word_set("war part phase type class level grade stage tier act chapter volume section round title group")
_PLACES = word_set("in at from to near since on for")
#: Words that may follow a numeral (`Elizabeth I was queen`), but hardly the pronoun I right after a name.
_AFTER_NUMERAL = re.compile(
    r"\s*(?:[.,;:)\]?!–-]|$|(?:of|and|or|is|was|the|in|at|for|to|by|from|with|on|as|ended|began|ruled|reigned|died)\b)",
    re.IGNORECASE,
)


class Verdict(NamedTuple):
    """The result of a check: the text to store, or the reason of its refusal."""

    text: str | None
    problem: Problem | None = None
    #: The text had to be changed: it did not pass at first.
    trimmed: bool = False


def check_text(text: str, *, kind: Kind, max_words: int | None = None) -> Verdict:
    """Accept, trim or refuse the text of a new memory.

    Trimmed are outer white space, line breaks within a sentence, a last exclamation mark and whole sentences at the end
    beyond the limits. An accepted text is accepted again unchanged.

    Args:
        text: Output of a model or a rule.
        kind: Kind of the new memory; facts, reflections, episodes and insights must meet every rule.
        max_words: Word limit in place of the kind's.
    """
    limits = _LIMITS.get(kind, _Limits())
    if max_words is not None:
        limits = limits._replace(words=max_words)
    checked = clean_text(text)
    # whole texts are never cut: the end of a consolidation would be lost for good
    if kind in _LIMITS:
        checked = " ".join(checked.split())
        checked = _LAST_EXCLAMATION.sub(".", _leading_sentences(checked, limits))
    problem = _problem(checked, limits, is_sentence=kind in _LIMITS)
    if problem:
        return Verdict(None, problem)
    return Verdict(checked, trimmed=checked != text)


def _leading_sentences(text: str, limits: _Limits) -> str:
    """Return as many sentences from the beginning of a text as fit, and at least the first one."""
    if _fits(text, limits):
        return text
    ends = sentence_ends(text)
    for end in reversed(ends):
        if _fits(text[:end], limits):
            return text[:end]
    return text[: ends[0]]


def is_data(text: str) -> bool:
    """Return whether a text is data for a program: within one pair of brackets, or in a block of code, as a whole."""
    bare = text.strip().strip("`").strip()
    if text.lstrip().startswith("```"):
        return True
    return any(bare.startswith(first) and bare.endswith(last) for first, last in ("{}", "[]", "<>"))


def _problem(text: str, limits: _Limits, *, is_sentence: bool) -> Problem | None:
    first = WORD.search(text)
    if first is None:
        return "empty"
    if is_degenerate(text):
        return "degenerate"
    if not _fits(text, limits):
        return "too_long"
    if not is_sentence:
        return None
    unquoted = QUOTED.sub(lambda quotation: " " * len(quotation.group()), text)
    in_order = words(unquoted)
    if any(_is_pronoun(unquoted, in_order, index) for index in range(len(in_order))):
        return "first_person"
    if re.split("['’]", first.group().casefold())[0] in _BARE_PRONOUNS:
        return "pronoun_start"
    if _EXCLAMATION.search(unquoted):
        return "not_neutral"
    return None


def _fits(text: str, limits: _Limits) -> bool:
    is_short = len(text) <= limits.chars and len(text.split()) <= limits.words
    return is_short and len(sentence_ends(text)) <= limits.sentences


def is_degenerate(text: str) -> bool:
    """Return whether a word, a phrase or a sentence is repeated absurdly, or hardly any two words differ."""
    tokens = _TOKEN.findall(text.casefold())
    if len(tokens) >= _ENOUGH_WORDS and len(set(tokens)) < _MIN_DIFFERENT * len(tokens):
        return True
    if _ONE_CHARACTER.search(text) or any(_repeats(tokens, *row) for row in _MAX_IN_A_ROW.items()):
        return True
    return _repeats_sentence(text)


def _repeats_sentence(text: str) -> bool:
    """Return whether a sentence comes three times; two words such as "Not yet" may well do so."""
    counts: Counter[str] = Counter()
    for line in text.splitlines():
        for sentence in sentences(line):
            counts[" ".join(_TOKEN.findall(sentence.casefold()))] += 1
    return any(times >= 3 and len(sentence.split()) >= 3 for sentence, times in counts.items())


def _repeats(tokens: list[str], size: int, times: int) -> bool:
    """Return whether a phrase of so many words comes so many times in a row."""
    for place in range(len(tokens) - size * times + 1):
        if tokens[place] == tokens[place + size] and _is_loop(tokens[place : place + size * times], size):
            return True
    return False


def _is_loop(tokens: list[str], size: int) -> bool:
    """Return whether words repeat their beginning of this size to their end. Equal numbers in a row are no loop."""
    phrase = tokens[:size]
    if any(token.isdigit() for token in phrase):
        return False
    return tokens == phrase * (len(tokens) // size)


def _is_pronoun(text: str, in_order: list[Word], index: int) -> bool:
    """Return whether a word is a pronoun of the first or second person.

    The country US, pronouns within titles (a capital inside a sentence) and the Roman numeral I are none.
    """
    word = in_order[index]
    folded = word.text.casefold().replace("’", "'")
    if folded in SUBJECT_I:
        return len(folded) > 1 or not _is_other_i(text, in_order, index)
    if folded == "mine":
        return word.initial or in_order[index - 1].text.casefold() in _BEFORE_MINE
    if folded not in _PRONOUNS or word.text == "US":
        return False
    return word.initial or not word.text[0].isupper()


def _is_other_i(text: str, in_order: list[Word], index: int) -> bool:
    """Return whether an I is a Roman numeral (`World War I`) or part of an abbreviation (`I/O`, `i.e.`)."""
    word = in_order[index]
    end = word.start + 1
    if text.startswith(("/", "&"), end) or text[end : end + 2].casefold() == ".e":
        return True
    if word.initial or word.text != "I":
        return False
    before = in_order[index - 1]
    name = before.text.casefold()
    if name in _NUMBERED:
        return True
    is_name = before.text[0].isupper() and name not in DATE_WORDS and not (before.initial and is_common_word(name))
    if not is_name or text[before.start + len(name) : word.start] != " ":
        return False
    is_place = index > 1 and in_order[index - 2].text.casefold() in _PLACES
    return not is_place and _AFTER_NUMERAL.match(text, end) is not None
