"""Phrases that request a recall, in any language with separated words, read from a file."""

from importlib import resources
from pathlib import Path
from typing import Annotated, Final, NamedTuple

from pydantic import ConfigDict, PlainValidator, RootModel

from mnemic.memory.text.questions import folded

_NAME: Final = "recall requests file"
#: Words in a row, each with its alternatives.
Run = tuple[frozenset[str], ...]


class Phrase(NamedTuple):
    """Runs of words; any words may be between two runs."""

    runs: tuple[Run, ...]
    #: Whether any words may precede it; else a sentence must begin with it.
    anywhere: bool


def load_requests(path: Path | None = None) -> tuple[Phrase, ...]:
    """Load the packaged phrases of all languages; a file replaces those of its languages.

    Raises:
        ConfigurationError: if the file cannot be read, or does not have the form of `memory/runtime/requests.yaml`.
    """
    from mnemic.memory.runtime.plain_yaml import read_settings  # 10 ms, which importing the graphs need not take

    class File(RootModel[dict[str, tuple[Annotated[Phrase, PlainValidator(_phrase)], ...]]]):
        model_config = ConfigDict(hide_input_in_errors=True)

    packaged = resources.files("mnemic.memory.runtime").joinpath("requests.yaml")
    by_language = read_settings(packaged, File, _NAME).root
    if path is not None:
        by_language = {**by_language, **read_settings(path, File, _NAME).root}
    phrases: list[Phrase] = []
    for phrases_of_language in by_language.values():
        phrases += phrases_of_language
    return tuple(phrases)


def _phrase(written: object) -> Phrase:
    """Read a phrase such as `do you remember ... i/we mentioned`."""
    if not isinstance(written, str):
        raise ValueError("must be text")
    parts = [part.split() for part in written.split("...")]
    runs: list[Run] = []
    for words in parts:
        if words:
            runs.append(tuple(_options(word) for word in words))
    if not runs:
        raise ValueError("has no word, so every message would match")
    return Phrase(tuple(runs), anywhere=not parts[0])


def _options(written: str) -> frozenset[str]:
    options: set[str] = set()
    for option in written.split("/"):
        words = folded(option)
        if len(words) != 1:
            raise ValueError("must consist of words, `/` between alternatives of a word, and `...`")
        options.add(words[0])
    return frozenset(options)
