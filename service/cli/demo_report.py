"""What `mnemic demo` found, and how that looks: at most about 120 lines for the conversations of the package."""

import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from rich.console import RenderableType
from rich.padding import Padding
from rich.text import Text

from mnemic.policy.text.shape import clip_text, display_name
from mnemic.service.cli.demo_corpus import Conversation, Question
from mnemic.service.cli.formed import Counts
from mnemic.service.cli.terminal import columns, day, plain, show, show_text
from mnemic.state.identity import split_scope_key
from mnemic.state.records import Memory

#: A consolidation may have 400 words, a message 32,000 characters; the demo shows how they begin.
_TEXT_CHARS = 420
_LINE_CHARS = 180
#: Results and contradictions that are shown; of more there is the number.
_RESULTS = 3
_CHANGES = 8
_FACTS = 8


@dataclass(frozen=True, kw_only=True)
class DemoSession:
    """What one conversation became."""

    session: str
    people: tuple[str, ...]
    messages: int
    #: What its runs stored and refused.
    counts: Counts
    consolidated: list[str]
    #: Why nothing came of it, or something waits.
    complaints: list[str]


@dataclass(frozen=True, kw_only=True)
class Contradiction:
    """A fact that a later one replaced."""

    scope_key: str
    old: str
    new: str
    since: datetime


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What was recalled for a question."""

    question: Question
    #: The memories found, best first, as the recall graph returns them.
    memories: list[dict[str, Any]]
    tokens: int


@dataclass(frozen=True, kw_only=True)
class Demo:
    """All that the demo shows."""

    agent_id: str
    runs_on: str
    sessions: list[DemoSession]
    #: Those that hold, oldest first.
    facts: list[Memory]
    consolidations: list[Memory]
    contradictions: list[Contradiction]
    answers: list[Answer]


def show_start(runs_on: str, conversations: Sequence[Conversation]) -> None:
    """What is about to happen, and on what."""
    messages = sum(len(conversation.messages) for conversation in conversations)
    people = {person for conversation in conversations for person in conversation.people}
    show_text(runs_on)
    show(f"Forming memories: {messages} messages, {len(conversations)} conversations, {len(people)} people.")


def show_demo(demo: Demo) -> None:
    """The whole report."""
    _heading("What was formed")
    _show_sessions(demo.sessions)
    if demo.facts:
        _heading("Facts, for example")
        # spread over the whole time and not the first ones alone
        _show_dated([(fact.valid_from, plain(fact.content)) for fact in demo.facts[:: -(-len(demo.facts) // _FACTS)]])
    _heading("Always in context: one living text for each scope")
    for memory in demo.consolidations:
        _show_consolidation(memory)
    if not demo.consolidations:
        show(_indented(Text("none yet: too few reflections were formed", "dim")))
    if demo.contradictions:
        _heading("Facts that later ones replaced: closed with a date, never overwritten")
        _show_contradictions(demo.contradictions)
    if demo.answers:
        _heading("Questions asked later, and what a search brings into the prompt")
        for answer in demo.answers:
            _show_answer(answer)
    first = demo.sessions[0].people[0]
    show("", "Look around:")
    show_text(f"  {_program()} memories --agent {demo.agent_id} --user {first}")
    show_text(f'  {_program()} recall "What did I tell you last time?" --agent {demo.agent_id} --user {first}')


def _program() -> str:
    """What to type: the name, or the path this very run was started by where the name alone would not be found."""
    return sys.argv[0] if Path(sys.argv[0]).name == "mnemic" and not shutil.which("mnemic") else "mnemic"


def _heading(title: str) -> None:
    show("", f"[bold cyan]{title}[/]")


def _show_sessions(sessions: Sequence[DemoSession]) -> None:
    table = columns("conversation", "messages", "facts", "superseded", "reflections", "episode", "consolidated")
    for name in ("messages", "facts", "superseded", "reflections", "episode"):
        next(column for column in table.columns if column.header == name).justify = "right"
    losses = Counts()
    for session in sessions:
        stored, counts = session.counts.stored, session.counts
        figures = [session.messages, stored["fact"], counts.superseded, stored["reflection"], stored["episode"]]
        consolidated = ", ".join(map(_owner, dict.fromkeys(session.consolidated)))
        table.add_row(plain(session.session), *(str(figure or "·") for figure in figures), plain(consolidated))
        losses.refused.update(counts.refused)
        losses.unaccounted += counts.unaccounted
    show(table, *losses.losses())
    for session in sessions:
        show(*(plain(f"{session.session}: {complaint}") for complaint in session.complaints))


def _show_consolidation(memory: Memory) -> None:
    words = len(memory.content.split())
    show(Text.assemble(plain(_owner(memory.scope_key), "bold"), (f" · {memory.scope_key} · {words} words", "dim")))
    show(_indented(plain(clip_text(" ".join(memory.content.split()), _TEXT_CHARS))))


def _show_contradictions(changes: Sequence[Contradiction]) -> None:
    _show_dated(
        [
            (change.since, Text.assemble(plain(change.old, "strike"), "\n→ ", plain(change.new)))
            for change in changes[:_CHANGES]
        ]
    )
    if len(changes) > _CHANGES:
        show(_indented(Text(f"and {len(changes) - _CHANGES} more", "dim")))


def _show_answer(answer: Answer) -> None:
    name, question = display_name(answer.question.user), answer.question.question
    show(Text.assemble((f"{name}: ", "bold"), plain(question), (f" · {answer.tokens} tokens", "dim")))
    found = answer.memories[:_RESULTS]
    _show_dated([(datetime.fromisoformat(item["dated"]), _found(item)) for item in found])
    if not found:
        show(_indented(Text("nothing found", "dim")))


def _found(found: dict[str, Any]) -> Text:
    content = plain(clip_text(" ".join(found["content"].split()), _LINE_CHARS))
    if found["kind"] == "message":
        return Text.assemble(plain(display_name(found["subject"])), " said: “", content, "”")
    return content


def _show_dated(rows: Sequence[tuple[datetime, Text]]) -> None:
    table = columns()
    for moment, text in rows:
        table.add_row(Text(day(moment), "dim"), text)
    show(_indented(table))


def _indented(renderable: RenderableType) -> Padding:
    return Padding(renderable, (0, 0, 0, 2))


def _owner(scope_key: str) -> str:
    return display_name(split_scope_key(scope_key)[1])
