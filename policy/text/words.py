"""Words, sentences and quotations of a text: the ground of the other rules, each pattern linear in the text."""

import re
from collections.abc import Callable
from functools import cache, partial
from typing import NamedTuple

from mnemic.policy.text.common_words import word_set

#: A word begins with a letter and may hold apostrophes; hyphens part words, so that `Berlin-based` shows `Berlin`.
WORD = re.compile(r"(?<!\w)[^\W\d_]\w*(?:['’]\w+)*")
#: Between two words: the end of a sentence, a line end, or an opening quotation mark.
_NEW_SENTENCE = re.compile(r"""[.!?…:]["'”’»)\]]*+\s|[。！？\n]|(?:^|\s)["“«]$""")
_SENTENCE_END = re.compile(r"""(?<![.!?…])[.!?…]++["'”’»)\]]*+(?=\s|$)|[。！？]++""")
#: Quotations. No pattern may cross its own opening mark, which keeps unclosed ones linear.
QUOTED = re.compile(r"\"([^\"]*)\"|“([^“”]*)”|«([^«»]*)»|`([^`\n]*)`|(?<!\w)'([^'\n]*)'(?!\w)|‘([^‘\n]*?)’(?!\w)")
#: A full stop after these ends no sentence; neither does one after a single letter or after `no` before a number.
_ABBREVIATIONS = word_set(
    "dr mr mrs ms prof st vs approx inc ltd co corp jr sr fig dept est ca cf e.g i.e a.m p.m u.s u.k"
)


def pattern(expression: str, flags: int = 0) -> Callable[[], re.Pattern[str]]:
    """Gives the pattern when called: for large ones, 20 ms together, which importing the graphs need not take."""
    return cache(partial(re.compile, expression, flags))


class Word(NamedTuple):
    """One word, where it stands, and whether a sentence, line or quotation begins with it."""

    text: str
    start: int
    initial: bool


def words(text: str) -> list[Word]:
    """The words of a text in order."""
    found: list[Word] = []
    end = 0
    for match in WORD.finditer(text):
        initial = not found or _NEW_SENTENCE.search(text[end : match.start()]) is not None
        found.append(Word(match.group(), match.start(), initial))
        end = match.end()
    return found


def bare(word: str) -> str:
    """The word without its possessive ending."""
    return word.removesuffix("'s").removesuffix("’s")


def folded_words(text: str) -> list[str]:
    """Every word without case and possessive ending, in order."""
    return [bare(word).casefold() for word in WORD.findall(text)]


def _ends_sentence(text: str, end: re.Match[str]) -> bool:
    if not end.group().startswith("."):
        return True
    before = text[max(0, end.start() - 12) : end.start()].split()
    last = before[-1].lstrip("(\"'“‘").casefold() if before else ""
    following = text[end.end() : end.end() + 2].strip()
    if last in ("no", "nr"):
        return not following.isdigit()
    return not (last in _ABBREVIATIONS or (len(last) == 1 and last.isalpha()) or following.islower())


def sentence_ends(text: str) -> list[int]:
    """Where each sentence ends, the last at the end of the text; in doubt, as after `Dr.`, none ends."""
    ends = [match.end() for match in _SENTENCE_END.finditer(text) if _ends_sentence(text, match)]
    if not ends or text[ends[-1] :].strip():
        ends.append(len(text))
    return ends


def sentences(text: str) -> list[str]:
    """The sentences of a text without white space around them."""
    ends = sentence_ends(text)
    found = [text[start:end].strip() for start, end in zip([0, *ends], ends, strict=False)]
    return [sentence for sentence in found if sentence]


def without_quotes(text: str) -> str:
    """The text with every quotation blanked, so that positions stay the same."""
    return QUOTED.sub(lambda match: " " * len(match.group()), text)
