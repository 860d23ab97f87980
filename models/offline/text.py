"""Words, stems and typographic folding: the ground on which every offline rule compares sentences."""

import re
from functools import lru_cache

from mnemic.models.offline.lexicon import STEM_EXCEPTIONS, STOP_WORDS

WORD = re.compile(r"[^\W_]+(?:['’.:@+#/-][^\W_]+)*[+#%]*")
_SUFFIXES = (
    ("ies", "y"),
    ("ied", "y"),
    ("sses", "ss"),
    ("ches", "ch"),
    ("shes", "sh"),
    ("xes", "x"),
    ("ing", ""),
    ("ed", ""),
    ("s", ""),
)
#: What must be left after a suffix is taken off; `red` and `king` are no verb forms.
_SHORTEST_STEM = 3
_BACKTICK = re.compile(r"(?<=\w)[`´](?=\w)")
_FOLDED = str.maketrans({"’": "'", "‘": "'", "“": '"', "”": '"', "\u00a0": " ", "…": "."})


def fold(text: str) -> str:
    """The text with plain quotes, apostrophes and spaces."""
    return _BACKTICK.sub("'", text.translate(_FOLDED))


def words(text: str) -> list[str]:
    """Its words in lower case, without a possessive ending."""
    return [word.removesuffix("'s") for word in WORD.findall(fold(text).lower())]


@lru_cache(maxsize=8192)
def stem(word: str) -> str:
    """A rough stem: `works`, `working` and `worked` meet."""
    if word in STEM_EXCEPTIONS:
        return STEM_EXCEPTIONS[word]
    for suffix, ending in _SUFFIXES:
        rest = word.removesuffix(suffix)
        if rest != word and len(rest) >= _SHORTEST_STEM and not (suffix == "s" and rest.endswith(("s", "u", "i"))):
            return _without_double(rest + ending)
    return _without_double(word)


def _without_double(word: str) -> str:
    if len(word) > _SHORTEST_STEM and word[-1] == word[-2] and word[-1] in "bdgmnprt":
        word = word[:-1]
    return word.removesuffix("e") if len(word) > _SHORTEST_STEM else word


def content_stems(text: str) -> frozenset[str]:
    """The stems of the words that carry its meaning."""
    return frozenset(stem(word) for word in words(text) if word not in STOP_WORDS and not word.endswith("n't"))
