"""Reads the lists of words and the named patterns beside this module."""

import re
from functools import cache
from pathlib import Path

_HERE = Path(__file__).parent
_PIECE = re.compile(r"<([A-Z_]+)>")


def entries(name: str) -> list[list[str]]:
    """The entries of a table as their lines; an indented line goes on with the one before it, `#` begins a comment.

    White space at the ends of a line does not count: a pattern writes it as `[ ]`.
    """
    found: list[list[str]] = []
    for line in (_HERE / name).read_text(encoding="utf-8").splitlines():
        if line.startswith(" ") and found:
            found[-1].append(line.strip())
        elif line and not line.startswith("#"):
            found.append([line.strip()])
    return found


@cache
def _lists() -> dict[str, frozenset[str]]:
    lines = (" ".join(entry).partition(" = ") for entry in entries("words.txt"))
    return {name: frozenset(word.replace("_", " ") for word in listed.split()) for name, _, listed in lines}


@cache
def _patterns() -> dict[str, str]:
    lines = ("".join(entry).partition(" ~ ") for entry in entries("patterns.txt"))
    return {name: value for name, _, value in lines}


def words(name: str) -> frozenset[str]:
    """The words of a list of `words.txt`."""
    return _lists()[name]


@cache
def _inside(name: str) -> str:
    """What a name in angle brackets stands for: any one word of a list, the longest first, or a named pattern."""
    if name in _lists():
        return "(?:" + "|".join(sorted(map(re.escape, words(name)), key=lambda word: (-len(word), word))) + ")"
    return expand(_patterns()[name])


def expand(text: str) -> str:
    """The text with every `<NAME>` in it replaced by what it stands for."""
    return _PIECE.sub(lambda match: _inside(match[1]), text)


@cache
def pattern(text: str, *, ignore_case: bool = False) -> re.Pattern[str]:
    """A compiled pattern with its pieces in it."""
    return re.compile(expand(text), re.IGNORECASE if ignore_case else 0)
