"""How a conversation is shown to a model: numbered lines, dated, escaped, fenced as data."""

from collections.abc import Iterable
from datetime import UTC, date, datetime, time
from email.utils import format_datetime
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
    """`3 [Mon 2026-03-02 09:14] Ana (user): text`, one message after the other, in UTC.

    With the weekday and the time, "next Tuesday" and "tonight" are dates.
    Further lines of a message are set in, so that nobody's words can pass for another numbered message; a name stands
    on one line and without round brackets, so that no name can pass for another role's words.
    """
    return "\n".join(
        f"{line.number} [{_moment(line.said_at)}] {single_line(line.speaker.translate(_SQUARE))} ({line.role}): "
        f"{indented(line.content)}"
        for line in lines
    )


def _moment(moment: datetime) -> str:
    return f"{on_day(moment)} {moment:%H:%M}"


def on_day(day: date) -> str:
    """`Wed 2026-05-20`, in English whatever the locale: with the weekday, "last Friday" is a date."""
    return f"{format_datetime(datetime.combine(day, time(), UTC))[:3]} {day:%Y-%m-%d}"


def indented(text: str) -> str:
    """Data whose further lines are set in."""
    return "\n    | ".join(as_data(text).splitlines())
