"""`mnemic memories` and `mnemic history`: what is stored, and how it came about."""

from collections.abc import Sequence
from datetime import UTC
from enum import StrEnum
from itertools import groupby
from typing import Annotated
from uuid import UUID

import typer
from rich.padding import Padding
from rich.text import Text

from mnemic.service.cli.options import Agent, AsJson, Groups, Session, User, person
from mnemic.service.cli.terminal import EXIT_FOUND_WRONG, acting, columns, day, emit, plain, report, say, show
from mnemic.service.memory import Mnemic
from mnemic.state.kinds import ALL_KINDS, Kind
from mnemic.state.records import HistoryEvent, Memory

KindName = StrEnum("KindName", {kind: kind for kind in ALL_KINDS})  # type: ignore[misc]  # made of the library's list
Kinds = Annotated[list[KindName] | None, typer.Option("--kind", help="Only this kind; may be given repeatedly.")]
Closed = Annotated[bool, typer.Option("--all", help="Closed and erased ones too.")]
MemoryId = Annotated[UUID, typer.Argument(metavar="ID", help="As `mnemic memories` prints it.")]

#: In place of the words that an erased memory no longer has.
_ERASED = "what it said was erased"


async def memories(
    agent: Agent,
    user: User,
    group: Groups = None,
    session: Session = None,
    kind: Kinds = None,
    closed: Closed = False,
    as_json: AsJson = False,
) -> None:
    """List the memories of a person, newest first."""
    kinds: list[Kind] = [name for name in ALL_KINDS if kind is None or name in kind]
    async with Mnemic.open() as memory:
        found = await memory.memories(person(agent, user, group, session), kinds, with_closed=closed)
    report(found, list_memories, as_json=as_json, nothing="no memories")


def list_memories(found: Sequence[Memory]) -> None:
    """By scope key, in the given order within each."""
    by_scope = sorted(found, key=lambda memory: memory.scope_key)  # stable: newest first within each
    for number, (scope_key, group) in enumerate(groupby(by_scope, key=lambda memory: memory.scope_key)):
        table = columns()
        for memory in group:
            marks = [mark for mark in ("protected", "pinned") if getattr(memory, mark)]
            state = [] if memory.state == "active" else [f"{memory.state}{_until(memory)}"]
            what = ", ".join([memory.kind, *marks, *state])
            text = plain(memory.content) if memory.state != "purged" else _dim(_ERASED)
            table.add_row(day(memory.valid_from), what, Text("\n").join([text, _dim(memory.id)]))
        show(*([""] if number else []), plain(scope_key, "bold"), table)


def _until(memory: Memory) -> str:
    if memory.valid_until is None:
        return ""
    return f"\nuntil {day(memory.valid_until)}" + (f", now\n{memory.superseded_by}" if memory.superseded_by else "")


def _dim(value: object) -> Text:
    return plain(value, "dim")


async def history(
    memory_id: MemoryId,
    agent: Agent,
    user: User,
    group: Groups = None,
    session: Session = None,
    as_json: AsJson = False,
) -> None:
    """Show everything that happened to one memory."""
    async with Mnemic.open() as memory:
        events = await memory.history(person(agent, user, group, session), memory_id)
    if as_json:
        emit(events)
    elif events:
        for event in events:
            _show_event(event)
    if not events:
        say("no memory of this id is visible to this person")
        raise typer.Exit(EXIT_FOUND_WRONG)


def _show_event(event: HistoryEvent) -> None:
    moment = event.ts.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    show(
        Text.assemble(
            (f"{event.seq}  {event.event}", "bold"),
            f"  {moment}  by ",
            plain(acting(event)),
            "  (",
            plain(event.reason),
            ")",
        ),
        *(Padding(line, (0, 0, 0, 3)) for line in (_change(event), *_merges(event))),
    )


def _change(event: HistoryEvent) -> Text:
    """Before and after; where the words stayed as they are, the memory was closed or opened."""
    if not event.before and not event.after:
        return _dim(_ERASED)
    if event.before == event.after:
        return _dim("the words stay as they are")
    return Text(" → ").join(plain(text) for text in (event.before, event.after) if text is not None)


def _merges(event: HistoryEvent) -> list[Text]:
    into = [_dim(f"merged into: {event.merged_into}")] if event.merged_into else []
    return [*into, *(_dim(f"merged from: {part}") for part in event.merged_from)]
