"""Phrases that request a recall, in any language with separated words: read from a file, matched word by word."""

from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import Annotated, NamedTuple

from pydantic import ConfigDict, PlainValidator, RootModel

from mnemic.memory.text.questions import folded

_NAME = "recall requests file"


class Phrase(NamedTuple):
    """Runs of words, each word with its alternatives; any words may be between two runs."""

    runs: tuple[tuple[frozenset[str], ...], ...]
    #: Whether any words may precede it; else a sentence must begin with it.
    anywhere: bool

    def stands_in(self, words: Sequence[str]) -> bool:
        """Return whether a sentence of folded words has the phrase; only the first place of each run is tried."""
        if any(run[0].isdisjoint(words) for run in self.runs):  # most phrases, a microsecond each
            return False
        place = 0
        for number, run in enumerate(self.runs):
            starts = range(place, len(words) - len(run) + 1)
            if not (number or self.anywhere):
                starts = starts[:1]
            found = next((start for start in starts if words[start] in run[0] and _goes_on(words, start, run)), None)
            if found is None:
                return False
            place = found + len(run)
        return True


def _goes_on(words: Sequence[str], start: int, run: Sequence[frozenset[str]]) -> bool:
    return all(word in options for word, options in zip(words[start + 1 : start + len(run)], run[1:], strict=True))


def load_requests(path: Path | None = None) -> tuple[Phrase, ...]:
    """Load the packaged phrases of all languages; a file replaces those of its languages.

    Raises:
        ConfigurationError: the file cannot be read, or does not have the form of `memory/runtime/requests.yaml`.
    """
    from mnemic.memory.runtime.plain_yaml import read_settings  # 10 ms, which importing the graphs need not take

    packaged = resources.files("mnemic.memory.runtime").joinpath("requests.yaml")
    phrases = read_settings(packaged, _File, _NAME).root
    if path is not None:
        phrases = {**phrases, **read_settings(path, _File, _NAME).root}
    return tuple(phrase for own in phrases.values() for phrase in own)


def _phrase(written: object) -> Phrase:
    if not isinstance(written, str):
        raise ValueError("has to be a text")
    runs = [tuple(map(_options, run.split())) for run in written.split("...")]
    if not any(runs):
        raise ValueError("names no word, so that every message would have it")
    return Phrase(tuple(filter(None, runs)), anywhere=not runs[0])


def _options(written: str) -> frozenset[str]:
    options = [folded(option) for option in written.split("/")]
    if any(len(words) != 1 for words in options):
        raise ValueError("consists of words, `/` between those that may stand for each other, and `...`")
    return frozenset(words[0] for words in options)


class _File(RootModel[dict[str, tuple[Annotated[Phrase, PlainValidator(_phrase)], ...]]]):
    model_config = ConfigDict(hide_input_in_errors=True, defer_build=True)
