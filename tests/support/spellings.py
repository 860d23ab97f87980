"""Spellings of a name that a careless comparison would take for the name itself."""

import random
from collections.abc import Iterator

_LOOK_ALIKES = str.maketrans("aceiopsxyj", "асеіорѕхуј")
_HIDDEN = "\u200b\u200c\u200d\u2060\ufeff\u00ad\u202e\x00\u0301\ufe0f \t\n\r\u00a0\u3000\u2028"
_AROUND = ["'{}'", '"{}"', "{{{}}}", "{}%", "%{}", "{}_", "{},profile", "{}|message", "{}; --", "{}/../message", "{}\\"]


def _wide(text: str) -> str:
    return "".join(chr(ord(sign) + 0xFEE0) if sign.isascii() and sign.isalnum() else sign for sign in text)


def _otherwise(text: str, dice: random.Random) -> str:
    """In other cases, or wide; one sign of it so or in another alphabet; something hidden in it, or around it."""
    place = dice.randrange(len(text))
    sign, rest = text[place], text[place + 1 :]
    other = dice.choice([_wide(sign), sign.translate(_LOOK_ALIKES), sign.upper()])
    ways = [
        "".join(dice.choice([each, each.upper()]) for each in text),
        _wide(text),
        text[:place] + other + rest,
        text[:place] + dice.choice(_HIDDEN) + sign + rest,
        dice.choice(_AROUND).format(text),
    ]
    return dice.choice(ways)


def spellings(name: str, count: int, seed: int = 7) -> Iterator[str]:
    """So many of them, none the name itself; the same ones each time."""
    dice = random.Random(f"{seed} {name}")
    made = 0
    while made < count:
        spelling = name
        for _ in range(dice.randint(1, 3)):
            spelling = _otherwise(spelling, dice)
        if spelling != name:
            made += 1
            yield spelling
