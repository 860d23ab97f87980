"""The labelled pairs of `pairs.txt`, and the verdicts of a careful reader in `answers.txt`.

The reader saw each pair as the prompt shows it, in another order than that of the file and without its label.
"""

from dataclasses import dataclass
from importlib import resources
from typing import Literal
from zlib import crc32

from mnemic.prompts.background.judge_pairs import PairVerdict

#: `same`: reworded. `near`: another person, thing, place, time, or a denial. `step`: another number or date.
Group = Literal["same", "near", "step"]
#: `same`: one fact is enough. `update`: the later one replaces the earlier one. `apart`: both stay.
Key = Literal["same", "update", "apart"]


@dataclass(frozen=True)
class Pair:
    """Two facts on one person, and what is right."""

    person: str
    group: Group
    key: Key
    earlier: str
    later: str

    @property
    def id(self) -> str:
        """The name of the pair in `answers.txt`."""
        return f"{crc32(f'{self.earlier}{chr(10)}{self.later}'.encode()):08x}"


def load_pairs() -> list[Pair]:
    """Return every pair in the order of the file."""
    pairs: list[Pair] = []
    person = ""
    for line in _lines("pairs.txt"):
        if line.startswith("# "):
            person = line.removeprefix("# ")
            continue
        label, earlier, later = line.split(" | ")
        pairs.append(Pair(person, *_labels(label), earlier, later))
    return pairs


def load_answers() -> dict[str, PairVerdict]:
    """Return the reader's verdicts by the ids of the pairs."""
    answers: dict[str, PairVerdict] = {}
    for line in _lines("answers.txt"):
        pair_id, verdict, *words = line.split(" ")
        given = {"pair": 0, "reason": "", "verdict": verdict, "text": " ".join(words)}
        answers[pair_id] = PairVerdict.model_validate(given)
    return answers


def _labels(label: str) -> tuple[Group, Key]:
    labels: dict[str, tuple[Group, Key]] = {
        "same": ("same", "same"),
        "near apart": ("near", "apart"),
        "near update": ("near", "update"),
        "step apart": ("step", "apart"),
        "step update": ("step", "update"),
    }
    return labels[label]


def _lines(name: str) -> list[str]:
    text = resources.files("benchmarks.pairs").joinpath(name).read_text("utf-8")
    return [line for line in text.splitlines() if line]
