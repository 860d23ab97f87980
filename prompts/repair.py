"""What a model is told of an answer that could not be used."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final

BROKEN = "it was not one complete JSON object."
EMPTY = "it was empty."
REFUSED = "you refused. Nothing is asked but this record; leave out what you must."
CUT = "it was cut off. Write much less."
FILTERED = "it was stopped by a content filter. Leave that out."
UNREASONABLE = "it was far too long or repeated itself."
NOTHING = "it holds nothing. Write down what is there, or set nothing_else to true if nothing is."
#: What is wrong with a draft.
_PROBLEMS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "no_source": "cite no line of the conversation",
        "not_own_words": "say of somebody what nobody said of themselves",
        "no_owner": "rest on no user's lines",
        "copied": "repeat these instructions",
        "empty": "are empty",
        "degenerate": "repeat themselves",
        "too_long": "are too long",
        "first_person": "speak in the first or second person",
        "pronoun_start": "begin with a pronoun instead of a name",
        "not_neutral": "exclaim",
    }
)


def broke_schema(problems: Sequence[str]) -> str:
    """An answer whose JSON is not of the form that was asked for."""
    return f"it broke the schema ({'; '.join(problems)})."


def unusable_drafts(refused: Mapping[str, int], drafts: int, lines: int) -> str:
    """An answer of whose drafts too many were refused."""
    problems = "; ".join(f"{count} {_PROBLEMS[problem]}" for problem, count in sorted(refused.items()))
    return f"of its {drafts} texts {problems}. The lines of the conversation have the numbers 1 to {lines}."


def repair(advice: str) -> str:
    """The turn that asks for another answer."""
    return f"Your last answer could not be used: {advice} Answer anew."
