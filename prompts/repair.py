"""Why an answer cannot be used, and what its model is told of it."""

from collections.abc import Mapping
from typing import Final, NamedTuple


class ValidationIssue(NamedTuple):
    """Why an answer cannot be used."""

    #: For errors and logs: nothing of the answer is in it.
    kind: str
    #: What the model is told; goes back to that model only.
    advice: str
    #: Whether some drafts of the answer can be used; they are, if the repair brings no better answer.
    is_partial: bool = False


BROKEN: Final = ValidationIssue("broken JSON", "it was not one complete JSON object.")
EMPTY: Final = ValidationIssue("an empty answer", "it was empty.")
REFUSED: Final = ValidationIssue("a refusal", "you refused. Nothing is asked but this record; leave out what you must.")
CUT: Final = ValidationIssue("cut off at the output limit", "it was cut off. Write much less.")
FILTERED: Final = ValidationIssue(
    "stopped by the content filter", "it was stopped by a content filter. Leave that out."
)
UNREASONABLE: Final = ValidationIssue("far too long, or one thing repeated", "it was far too long or repeated itself.")
NOTHING: Final = ValidationIssue(
    "nothing, and no word that there is nothing",
    "it holds nothing. Write down what is there, or set nothing_else to true if nothing is.",
)
#: Of an answer whose JSON is not of the form that was asked for.
BROKE_SCHEMA: Final = "it broke the schema ({problems})."
#: The turn that asks for another answer.
REPAIR: Final = "Your last answer could not be used: {advice} Answer anew."
#: Behind the request, for a model that cannot be told a schema otherwise.
AS_JSON: Final = "Answer with one JSON object of this JSON schema, and with nothing else:\n{schema}"
#: What is wrong with a draft.
_PROBLEMS: Final[Mapping[str, str]] = {
    "unreadable": "lack a field of the schema, or have another value in it",
    "no_source": "cite no line of the conversation",
    "not_own_words": "say of somebody what nobody said of themselves",
    "from_attachment": "have their content from an attachment, which nobody typed",
    "not_in_conversation": "hold a number that is nowhere in the conversation",
    "no_owner": "rest on no user's lines",
    "copied": "repeat these instructions",
    "empty": "are empty",
    "degenerate": "repeat themselves",
    "too_long": "are too long",
    "first_person": "speak in the first or second person",
    "pronoun_start": "begin with a pronoun instead of a name",
    "not_neutral": "exclaim",
}


def refusal_summary(refused: Mapping[str, int]) -> str:
    """Return the refused drafts by reason, as in `2 first_person, 1 too_long`."""
    return ", ".join(f"{count} {problem}" for problem, count in sorted(refused.items()))


def unusable_drafts(refused: Mapping[str, int], drafts: int, lines: int) -> str:
    """What is told of an answer of whose drafts too many were refused."""
    problems = "; ".join(f"{count} {_PROBLEMS[problem]}" for problem, count in sorted(refused.items()))
    return f"of its {drafts} texts {problems}. The lines of the conversation have the numbers 1 to {lines}."
