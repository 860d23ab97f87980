"""The form of a conversation in a prompt: numbered lines, dated, escaped, fenced as data."""

from collections.abc import Iterable
from datetime import UTC, date, datetime, time
from email.utils import format_datetime
from itertools import groupby
from typing import NamedTuple
from xml.sax.saxutils import escape

from mnemic.state.identity import Attributable, Attribution, attribution_for, display_name
from mnemic.state.kinds import Role

#: Replacements of the characters that end a name or begin a role.
_MARKS = str.maketrans("():", "[];")


class Line(NamedTuple):
    """One message in a prompt; the model refers to it by its number only."""

    number: int
    #: Display name of the speaker.
    speaker: str
    role: Role
    said_at: datetime
    content: str


class Speaker(NamedTuple):
    """Speaking user of a conversation."""

    #: Display name.
    name: str
    #: Whether typed text of the user may become a memory of the group.
    is_member: bool = False
    #: Whether typed text of the user may become a memory of the agent.
    teaches: bool = False

    def line(self) -> str:
        """Return a line such as `user Vera, speaks for the group, teaches the agent`."""
        line = f"user {single_line(self.name)}"
        if self.is_member:
            line += ", speaks for the group"
        if self.teaches:
            line += ", teaches the agent"
        return line


class People(NamedTuple):
    """Agent, users and groups of a conversation."""

    #: Display name of the agent.
    agent: str = "Agent"
    #: Persona of the agent from its settings; may be empty.
    persona: str = ""
    speakers: tuple[Speaker, ...] = ()
    #: Display names of the groups of the conversation; a draft refers to one of several by its number.
    groups: tuple[str, ...] = ()

    def lines(self) -> str:
        """Return a line for the agent, each user and each group."""
        lines = [f"agent {single_line(self.agent)} (the assistant)"]
        if self.persona:
            lines[0] += f": {single_line(self.persona)}"
        lines += [speaker.line() for speaker in self.speakers]
        for number, name in enumerate(self.groups, start=1):
            prefix = f"group {number}" if len(self.groups) > 1 else "group"
            lines.append(f"{prefix} {single_line(name)}")
        return "\n".join(lines)


def as_data(text: str) -> str:
    """Return text that cannot close the fence around it. Quotes and apostrophes stay as they are."""
    return escape(text)


def single_line(text: str) -> str:
    """Return data without a line break, which could otherwise pass for the beginning of another entry."""
    return as_data(" ".join(text.split()))


def render_lines(lines: Iterable[Line], *, others: int | None = None) -> str:
    """Return one line for each message, such as `3 [09:14] Ana: text`, under a line for its day: `Mon 2026-03-02`.

    Each time has the offset of its message. With the weekday and the time, "next Tuesday" and "tonight" are dates. All
    speakers except users have their role in brackets. Further lines of a message are indented, so that no text can pass
    for another message or day. A name is one line without colon and round brackets, so that no name can pass for the
    text or the role of another speaker.

    Args:
        lines: Messages in order.
        others: Maximum number of characters of a message that is no user's; None for all.
    """
    rendered: list[str] = []
    for day, messages in groupby(lines, key=lambda line: line.said_at.date()):
        rendered.append(on_day(day))
        rendered += [_render_line(line, others) for line in messages]
    return "\n".join(rendered)


def _render_line(line: Line, others: int | None) -> str:
    speaker = single_line(line.speaker.translate(_MARKS))
    text = line.content
    if line.role != "user":
        speaker += f" ({line.role})"
        text = _beginning(text, others)
    return f"{line.number} [{line.said_at:%H:%M}] {speaker}: {indented(text)}"


def _beginning(text: str, max_chars: int | None) -> str:
    if max_chars is None or len(text) <= max_chars:
        return text
    return f"{text[:max_chars].rsplit(' ', 1)[0]} ..."


def on_day(day: date) -> str:
    """Return a day such as `Wed 2026-05-20`, in English in every locale: with the weekday, "last Friday" is a date."""
    return f"{format_datetime(datetime.combine(day, time(), UTC))[:3]} {day:%Y-%m-%d}"


def indented(text: str) -> str:
    """Return data with its further lines indented."""
    return "\n    | ".join(as_data(text).splitlines())


def signature(attribution: Attribution | None) -> str:
    """Return the end of a line that names the author and quotes the typed sentence: ` (from Ana: "At nine.")`."""
    if attribution is None:
        return ""
    author = single_line(display_name(attribution.author))
    if not attribution.said:
        return f" (from {author})"
    return f' (from {author}: "{quotable(attribution.said)}")'


def signature_of_others(memory: Attributable, reader: str | None) -> str:
    """Return the signature for a prompt of a model step, or nothing for a memory that the reader submitted."""
    attribution = attribution_for(reader, memory)
    if attribution is None or attribution.author == reader:
        return ""
    return signature(attribution)


def quotable(text: str) -> str:
    """Return one escaped line that cannot end the quotation around it."""
    return escape(" ".join(text.split()), {'"': "&quot;"})
