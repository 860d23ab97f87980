"""Spellings of a name that a careless comparison would take for the name itself."""

import random
from collections.abc import Callable, Iterator

_LOOK_ALIKES = str.maketrans("aceiopsxyj", "асеіорѕхуј")
_INVISIBLE = ["\u200b", "\u200c", "\u200d", "\u2060", "\ufeff", "\u00ad", "\u202e", "\x00", "\u0301", "\ufe0f"]
_SPACE = [" ", "\t", "\n", "\r\n", "\u00a0", "\u3000", "\u2028"]
_AROUND = ["'{}'", '"{}"', "{{{}}}", "{}%", "%{}", "{}_", "{},profile", "{}|message", "{}; --", "{}/../message", "{}\\"]


def _wide(text: str) -> str:
    return "".join(chr(ord(sign) + 0xFEE0) if sign.isascii() and sign.isalnum() else sign for sign in text)


def _mixed(text: str, dice: random.Random) -> str:
    return "".join(sign.upper() if dice.random() < 0.4 else sign for sign in text)


def _one_of(text: str, dice: random.Random) -> str:
    """One sign of it in another alphabet or width."""
    place = dice.randrange(len(text))
    sign = text[place]
    other = dice.choice([_wide(sign), sign.translate(_LOOK_ALIKES), sign.upper()])
    return text[:place] + other + text[place + 1 :]


def _hidden(text: str, dice: random.Random) -> str:
    place = dice.randrange(len(text) + 1)
    return text[:place] + dice.choice([*_INVISIBLE, *_SPACE]) + text[place:]


_WAYS: list[Callable[[str, random.Random], str]] = [
    _mixed,
    _one_of,
    _hidden,
    lambda text, _: _wide(text),
    lambda text, dice: dice.choice(_AROUND).format(text),
]


def spellings(name: str, count: int, seed: int = 7) -> Iterator[str]:
    """So many of them, none the name itself; the same ones each time."""
    dice = random.Random(f"{seed} {name}")
    made = 0
    while made < count:
        spelling = name
        for way in dice.choices(_WAYS, k=dice.randint(1, 3)):
            spelling = way(spelling, dice)
        if spelling != name:
            made += 1
            yield spelling
