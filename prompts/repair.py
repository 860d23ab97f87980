"""Issues of useless answers, and the advice to their model for a repair."""

from collections.abc import Mapping
from typing import Final, NamedTuple


class ValidationIssue(NamedTuple):
    """Issue of an answer that cannot be used."""

    #: Name of the issue for errors and logs, without words of the answer.
    kind: str
    #: Advice to the model, which no one else reads.
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
UNREASONABLE: Final = ValidationIssue("far too long or repetitive", "it was far too long or repeated itself.")
NOTHING: Final = ValidationIssue(
    "no drafts, and nothing_else left unset",
    "it holds nothing. Write down what is there, or set nothing_else to true if nothing is.",
)
#: Advice on JSON that breaks the schema.
BROKE_SCHEMA: Final = "it broke the schema ({problems})."
#: Message that requests another answer.
REPAIR: Final = "Your last answer could not be used: {advice} Answer anew."
#: Text behind the request, for a model whose provider takes no schema.
AS_JSON: Final = "Answer with one JSON object of this JSON schema, and with nothing else:\n{schema}"
#: Problems of drafts by their reason.
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
    """Return the advice on an answer with too many refused drafts."""
    problems = "; ".join(f"{count} {_PROBLEMS[problem]}" for problem, count in sorted(refused.items()))
    return f"of its {drafts} texts {problems}. The lines of the conversation have the numbers 1 to {lines}."
