"""The user's own sentences of a conversation, each with where it stands."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from mnemic.models.offline.clauses import is_joke
from mnemic.models.offline.lexicon import DANGLING, MONTHS, PERSONAL, WEEKDAYS
from mnemic.models.offline.pieces import pattern
from mnemic.models.offline.prose import sentences
from mnemic.models.offline.text import fold
from mnemic.prompts.conversation import Line

_PRIVATE = pattern("<CONVERSATION_PRIVATE>", ignore_case=True)
_CAPITALISED = re.compile(r"(?<=[a-z,;] )[A-Z][\w-]*[a-z\d]\b")
_NO_NAMES = frozenset({*MONTHS, *WEEKDAYS, "I", "English"})


@dataclass(frozen=True)
class Said:
    """One sentence of a user."""

    line: Line
    text: str
    private: bool


def user_sentences(lines: Iterable[Line]) -> list[Said]:
    """The sentences that users typed and meant, in order; those a joke takes back are left out."""
    found: list[Said] = []
    for line in lines:
        if line.role == "user":
            own = sentences(line.content)
            joking = [is_joke(text) for text in own]
            private = [bool(_PRIVATE.search(text)) for text in own]
            for index, text in enumerate(own):
                around = slice(max(index - 1, 0), index + 2)
                if not any(joking[index : index + 2]):
                    found.append(Said(line=line, text=text, private=any(private[around])))
    return found


def addresses_assistant(lines: Iterable[Line]) -> bool:
    """Whether `you` is the assistant: it speaks, or nobody else is there to be spoken to."""
    given = list(lines)
    return any(line.role == "assistant" for line in given) or len({line.speaker for line in given}) == 1


def known_names(lines: Iterable[Line]) -> frozenset[str]:
    """Names of the speakers, and words that users wrote with a capital inside a sentence."""
    names: set[str] = set()
    common = DANGLING | PERSONAL
    for line in lines:
        if line.role == "user":
            names.update(line.speaker.split())
            names.update(_CAPITALISED.findall(fold(line.content)))
    return frozenset(name for name in names - _NO_NAMES if name.lower() not in common)
