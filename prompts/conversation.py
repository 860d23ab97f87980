"""How a conversation is shown to a model: numbered lines, dated, escaped, fenced as data."""

from collections.abc import Iterable
from datetime import datetime
from typing import NamedTuple
from xml.sax.saxutils import escape

from mnemic.state.kinds import Role

_SQUARE = str.maketrans("()", "[]")


class Line(NamedTuple):
    """One message as a step sees it; the model names it by its number only."""

    number: int
    #: Display name of the speaker.
    speaker: str
    role: Role
    said_at: datetime
    content: str


def as_data(text: str) -> str:
    """Text that cannot close the fence it stands in. Quotes and apostrophes stay as they are."""
    return escape(text)


def single_line(text: str) -> str:
    """Data without a line break, which could otherwise pass for the beginning of another entry."""
    return as_data(" ".join(text.split()))


def render_lines(lines: Iterable[Line]) -> str:
    """`3 [2026-03-02] Ana (user): text`, one message after the other.

    Further lines of a message are set in, so that nobody's words can pass for another numbered message; a name stands
    on one line and without round brackets, so that no name can pass for another role's words.
    """
    return "\n".join(
        f"{line.number} [{line.said_at:%Y-%m-%d}] {single_line(line.speaker.translate(_SQUARE))} ({line.role}): "
        f"{indented(line.content)}"
        for line in lines
    )


def indented(text: str) -> str:
    """Data whose further lines are set in."""
    return "\n    | ".join(as_data(text).splitlines())
