"""Words, sentences and quotations of a text, for all other rules; each pattern is linear in the text."""

import re
from collections.abc import Callable, Iterator
from functools import cache, partial
from typing import Final, NamedTuple

from mnemic.memory.text.word_lists import COMMON_WORDS


def word_set(text: str) -> frozenset[str]:
    """Return the words of a list that is written as one text."""
    return frozenset(text.split())


#: Endings to remove, each with its replacement. `-er` is not among them: Parker and Baker are people.
_ENDINGS = tuple(pair.split("=") for pair in word_set("ies=y ied=y ily=y es= s= ly= ing=e ing= ed=e ed= est= ness="))


def is_common_word(word: str) -> bool:
    """Return whether an English word, in any case and inflection, is a common one."""
    folded = word.casefold().replace("’", "'").partition("'")[0]
    if folded in COMMON_WORDS:
        return True
    for ending, instead in _ENDINGS:
        stem = folded.removesuffix(ending)
        if stem == folded or len(stem) < 3:
            continue
        doubled = len(stem) > 3 and stem[-1] == stem[-2] and stem[:-1] in COMMON_WORDS
        if stem + instead in COMMON_WORDS or doubled:
            return True
    return False


def pattern(expression: str, flags: int = 0) -> Callable[[], re.Pattern[str]]:
    """Return a function that compiles the pattern at its first call: large ones take 20 ms that an import need not."""
    return cache(partial(re.compile, expression, flags))


#: A word begins with a letter and may hold apostrophes; hyphens part words, so that `Berlin-based` shows `Berlin`.
WORD = re.compile(r"(?<!\w)[^\W\d_]\w*(?:['’]\w+)*")
#: Between two words: the end of a sentence, a line end, or an opening quotation mark.
_NEW_SENTENCE = pattern(r"""[.!?…:]["'”’»)\]]*+\s|[。！？\n]|(?:^|\s)["“«]$""")
_SENTENCE_END = pattern(r"""(?<![.!?…])[.!?…]++["'”’»)\]]*+(?=\s|$)|[。！？]++""")
#: Quotations. No pattern may cross its own opening mark, which keeps unclosed ones linear.
QUOTED = re.compile(r"\"([^\"]*)\"|“([^“”]*)”|«([^«»]*)»|`([^`\n]*)`|(?<!\w)'([^'\n]*)'(?!\w)|‘([^‘\n]*?)’(?!\w)")
#: A full stop after these ends no sentence; neither does one after a single letter or after `no` before a number.
_ABBREVIATIONS = word_set(
    "dr mr mrs ms prof st vs approx inc ltd co corp jr sr fig dept est ca cf e.g i.e a.m p.m u.s u.k"
)


def caseless(expression: str) -> Callable[[str], Iterator[re.Match[str]]]:
    """Return a function that finds a pattern of lower-case letters in a text of any case."""
    in_lower_case, in_any_case = pattern(expression), pattern(expression, re.IGNORECASE)

    def find(text: str) -> Iterator[re.Match[str]]:
        if text.isascii():  # five times as fast
            return in_lower_case().finditer(text.lower())
        return in_any_case().finditer(text)

    return find


class Word(NamedTuple):
    """One word, its place, and whether a sentence, line or quotation begins with it."""

    text: str
    start: int
    initial: bool


def words(text: str) -> list[Word]:
    """Return the words of a text in order."""
    in_order: list[Word] = []
    end = 0
    for match in WORD.finditer(text):
        between = text[end : match.start()]
        initial = not in_order or (between != " " and _NEW_SENTENCE().search(between) is not None)
        in_order.append(Word(match.group(), match.start(), initial))
        end = match.end()
    return in_order


def bare(word: str) -> str:
    """Return a word without its possessive ending."""
    if word[-2:].casefold() in ("'s", "’s"):
        return word[:-2]
    return word


def folded_words(text: str) -> list[str]:
    """Return every word without case and possessive ending, in order."""
    return [bare(word).casefold() for word in WORD.findall(text)]


def stem(word: str) -> str:
    """Return the beginning that a folded word has in all its forms."""
    return word.removesuffix("s")[:5]


#: Characters before a full stop that are read to find an abbreviation.
_LONGEST_ABBREVIATION: Final = 12


def _ends_sentence(text: str, end: re.Match[str]) -> bool:
    if not end.group().startswith("."):
        return True
    before = text[max(0, end.start() - _LONGEST_ABBREVIATION) : end.start()].split()
    last = ""
    if before:
        last = before[-1].lstrip("(\"'“‘").casefold()
    following = text[end.end() : end.end() + 2].strip()
    if last in ("no", "nr"):
        return not following.isdigit()
    return not (last in _ABBREVIATIONS or (len(last) == 1 and last.isalpha()) or following.islower())


def sentence_ends(text: str) -> list[int]:
    """Return the end of each sentence; the last one is the end of the text. In doubt, as after `Dr.`, none ends."""
    ends: list[int] = []
    for match in _SENTENCE_END().finditer(text):
        if _ends_sentence(text, match):
            ends.append(match.end())
    if not ends or text[ends[-1] :].strip():
        ends.append(len(text))
    return ends


def sentences(text: str) -> list[str]:
    """Return the sentences of a text without outer white space."""
    stripped: list[str] = []
    start = 0
    for end in sentence_ends(text):
        sentence = text[start:end].strip()
        if sentence:
            stripped.append(sentence)
        start = end
    return stripped
