"""The user's own sentences of a conversation, each with where it stands."""

from collections.abc import Iterable
from dataclasses import dataclass

from mnemic.models.offline.capitals import known_names, restored
from mnemic.models.offline.clauses import is_joke
from mnemic.models.offline.pieces import pattern
from mnemic.models.offline.prose import sentences
from mnemic.prompts.conversation import Line

__all__ = ["Said", "addresses_assistant", "known_names", "user_sentences"]

_PRIVATE = pattern("<CONVERSATION_PRIVATE>", ignore_case=True)


@dataclass(frozen=True)
class Said:
    """One sentence of a user."""

    line: Line
    text: str
    private: bool


def user_sentences(lines: Iterable[Line]) -> list[Said]:
    """The sentences that users typed and meant, in order; those a joke takes back are left out."""
    given = list(lines)
    names = known_names(given)
    found: list[Said] = []
    for line in given:
        if line.role == "user":
            own = [restored(text, line.content, names) for text in sentences(line.content)]
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
