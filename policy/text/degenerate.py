"""Tells a text from the loops that language models fall into."""

import re
from collections import Counter

from mnemic.policy.text.words import sentences

_TOKEN = re.compile(r"\w+")
_ONE_CHARACTER = re.compile(r"(\w)\1{29}")
#: A phrase of so many words is a loop when it stands so many times in a row; "very, very, very" is not, nor are rows
#: of equal numbers.
_MOST_IN_A_ROW = {1: 6, 2: 4, 3: 4, 4: 3, 5: 3, 6: 3, 7: 3, 8: 3}
#: English prose of 1,000 words still has more than a third of different ones.
_LEAST_DIFFERENT = 0.2
_ENOUGH_WORDS = 40


def is_degenerate(text: str) -> bool:
    """Whether a word, a phrase or a sentence is repeated absurdly, or the text has hardly any different words."""
    tokens = _TOKEN.findall(text.casefold())
    if len(tokens) >= _ENOUGH_WORDS and len(set(tokens)) < _LEAST_DIFFERENT * len(tokens):
        return True
    if _ONE_CHARACTER.search(text):
        return True
    if any(_repeats(tokens, size, times) for size, times in _MOST_IN_A_ROW.items()):
        return True
    spoken = Counter(
        " ".join(_TOKEN.findall(sentence.casefold())) for line in text.splitlines() for sentence in sentences(line)
    )
    # two words such as "Not yet" may well come back
    return any(times >= 3 and len(sentence.split()) >= 3 for sentence, times in spoken.items())


def _repeats(tokens: list[str], size: int, times: int) -> bool:
    needed = size * (times - 1)
    run = 0
    for token, earlier in zip(tokens[size:], tokens, strict=False):
        run = run + 1 if token == earlier and not token.isdigit() else 0
        if run >= needed:
            return True
    return False
