"""The labelled pairs of `pairs.txt`, and their two halves."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import resources
from typing import Literal, get_args
from zlib import crc32

#: `same` needs no new row; `update` changes, ends or refines what is known, so that a decision is needed; `related` is
#: of the same topic and both are true; `unrelated` has nothing in common but, mostly, the subject.
Label = Literal["same", "update", "related", "unrelated"]
Half = Literal["calibration", "held-out"]
LABELS: tuple[Label, ...] = get_args(Label)
#: Labels of pairs that a decision must see; each of the others is better left alone.
DECIDED: tuple[Label, ...] = ("same", "update")

_LINE = re.compile(r"\[[^\]]+\] [^:]+: (?P<content>\S.*)")


@dataclass(frozen=True)
class Pair:
    """An older fact and a newer one as they are embedded, `[date] subject: content`."""

    label: Label
    old: str
    new: str

    @property
    def contents(self) -> tuple[str, str]:
        """The bare sentences, older first."""
        return _content(self.old), _content(self.new)

    @property
    def half(self) -> Half:
        """Decided by the older sentence, so that all pairs of one sentence are of the same half."""
        return "held-out" if crc32(self.contents[0].encode()) % 2 else "calibration"


def load_pairs() -> tuple[Pair, ...]:
    """Every pair in the order of the file.

    Raises:
        ValueError: a block is not a label and two search texts.
    """
    text = resources.files("benchmarks.bands").joinpath("pairs.txt").read_text("utf-8")
    return tuple(_pairs(text))


def _pairs(text: str) -> Iterator[Pair]:
    for block in text.strip().split("\n\n"):
        label, old, new = block.splitlines()
        if label not in LABELS:
            raise ValueError(f"no label but {', '.join(LABELS)} is known: {block}")
        pair = Pair(next(known for known in LABELS if known == label), old, new)
        _ = pair.contents  # a line of another form is told now
        yield pair


def _content(line: str) -> str:
    found = _LINE.fullmatch(line)
    if found is None:
        raise ValueError(f"not `[date] subject: content`: {line}")
    return found["content"]
