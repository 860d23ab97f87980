"""How a conversation is shown to a model: numbered lines, dated, escaped, fenced as data."""

from collections.abc import Iterable
from datetime import UTC, date, datetime, time
from email.utils import format_datetime
from itertools import groupby
from typing import NamedTuple
from xml.sax.saxutils import escape

from mnemic.state.kinds import Role

#: What ends a name, or begins a role.
_MARKS = str.maketrans("():", "[];")


class Line(NamedTuple):
    """One message as a step sees it; the model names it by its number only."""

    number: int
    #: Display name of the speaker.
    speaker: str
    role: Role
    said_at: datetime
    content: str


class Speaker(NamedTuple):
    """A user who speaks in a conversation."""

    #: Display name.
    name: str
    #: Whether what they type may become a group's, and everybody's.
    is_member: bool = False
    teaches: bool = False

    def line(self) -> str:
        """`user Vera, speaks for the group, teaches the agent`."""
        marks = {"speaks for the group": self.is_member, "teaches the agent": self.teaches}
        return ", ".join([f"user {single_line(self.name)}", *(mark for mark, holds in marks.items() if holds)])


class People(NamedTuple):
    """Who takes part in a conversation."""

    #: Display name of the agent, and who it is by its settings; may be empty.
    agent: str = "Agent"
    persona: str = ""
    speakers: tuple[Speaker, ...] = ()
    #: Display names of the groups it belongs to; a draft names one of several by its number.
    groups: tuple[str, ...] = ()

    def lines(self) -> str:
        """A line for the agent, each user and each group."""
        persona = f": {single_line(self.persona)}" if self.persona else ""
        numbered = len(self.groups) > 1
        groups = (
            f"group {f'{number} ' if numbered else ''}{single_line(name)}"
            for number, name in enumerate(self.groups, start=1)
        )
        agent = f"agent {single_line(self.agent)} (the assistant){persona}"
        return "\n".join([agent, *(speaker.line() for speaker in self.speakers), *groups])


def as_data(text: str) -> str:
    """Text that cannot close the fence it stands in. Quotes and apostrophes stay as they are."""
    return escape(text)


def single_line(text: str) -> str:
    """Data without a line break, which could otherwise pass for the beginning of another entry."""
    return as_data(" ".join(text.split()))


def render_lines(lines: Iterable[Line], *, others: int | None = None) -> str:
    """`3 [09:14] Ana: text`, one message after the other, each at its own offset, below their day:
    `Mon 2026-03-02`.

    With the weekday and the time, "next Tuesday" and "tonight" are dates. All but users have their role in brackets.
    Further lines of a message are set in, so that nobody's words can pass for another message or day; a name stands
    on one line, without colon and round brackets, so that no name can pass for another's words, or another role's.

    Args:
        others: how many characters are shown of a message that is no user's; None: all.
    """
    shown = []
    for day, said in groupby(lines, key=lambda line: on_day(line.said_at)):
        shown += [day, *(_said(line, others) for line in said)]
    return "\n".join(shown)


def _said(line: Line, others: int | None) -> str:
    text = line.content if line.role == "user" else _beginning(line.content, others)
    speaker = single_line(line.speaker.translate(_MARKS))
    role = "" if line.role == "user" else f" ({line.role})"
    return f"{line.number} [{line.said_at:%H:%M}] {speaker}{role}: {indented(text)}"


def _beginning(text: str, most: int | None) -> str:
    return text if most is None or len(text) <= most else f"{text[:most].rsplit(' ', 1)[0]} ..."


def on_day(day: date) -> str:
    """`Wed 2026-05-20`, in English whatever the locale: with the weekday, "last Friday" is a date."""
    return f"{format_datetime(datetime.combine(day, time(), UTC))[:3]} {day:%Y-%m-%d}"


def indented(text: str) -> str:
    """Data whose further lines are set in."""
    return "\n    | ".join(as_data(text).splitlines())
