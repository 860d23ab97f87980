"""What a model is told of an answer that could not be used."""

from collections.abc import Sequence

BROKEN = "it was not one complete JSON object."
EMPTY = "it was empty."
REFUSED = "you refused. Nothing is asked but this record; leave out what you must."
CUT = "it was cut off. Write much less."
FILTERED = "it was stopped by a content filter. Leave that out."
UNREASONABLE = "it was far too long or repeated itself."


def broke_schema(problems: Sequence[str]) -> str:
    """An answer whose JSON is not of the form that was asked for."""
    return f"it broke the schema ({'; '.join(problems)})."


def repair(advice: str) -> str:
    """The turn that asks for another answer."""
    return f"Your last answer could not be used: {advice} Answer anew."
