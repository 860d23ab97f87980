"""The commands `query`, `recall`, `memories`, `history`, `messages` and `threads`."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Annotated, Any, Final, cast

import typer
from rich.console import RenderableType
from rich.padding import Padding
from rich.text import Text

from mnemic.service.cli.options import Agent, AsJson, MemoryId, PersonOptions, Session, User, open_memory, to_time
from mnemic.service.cli.terminal import (
    acting,
    command_line,
    day,
    exit_if_wrong,
    plain,
    report,
    say,
    table,
    to_the_second,
    verbatim,
)
from mnemic.state.errors import InvalidInputError
from mnemic.state.identity import SUPERVISOR, display_name
from mnemic.state.kinds import KINDS, Kind
from mnemic.state.query import METHOD_TOP_K
from mnemic.state.records import HistoryEvent, Memory, Message, SearchResult
from mnemic.state.supervisor import ThreadStatus

Closed = Annotated[bool, typer.Option("--all", help="Include closed and erased memories.")]

#: Shown in place of an erased content.
_ERASED: Final = "its content was erased"
_THREADS: Final = ("conversation", "last turn (UTC)", "began", "steps", "next")

#: Filters with values other than text, and the texts of these values.
_NOT_TEXT: Final = frozenset({"pinned", "importance_min", "importance_max"})
_PLAIN: Final[dict[str, Any]] = {"true": True, "false": False, **{str(number): number for number in range(1, 6)}}


@dataclass(frozen=True, kw_only=True)
class SearchOptions:
    """Options of a search."""

    category: Annotated[list[str] | None, typer.Option(help="Only this category; repeatable.")] = None
    scope: Annotated[
        list[str] | None, typer.Option(help="Only this scope: user, group, agent or session; repeatable.")
    ] = None
    condition: Annotated[
        list[str] | None,
        typer.Option("--filter", metavar="NAME=VALUE", help="Filter such as importance_min=3; repeatable."),
    ] = None
    since: Annotated[str | None, typer.Option(help="Only memories and messages since this day or time.")] = None
    before: Annotated[str | None, typer.Option(help="Only memories and messages before this day or time.")] = None
    search_type: Annotated[str, typer.Option(help="hybrid, semantic or text.")] = "hybrid"
    top_k: Annotated[int, typer.Option(help="Maximum number of results.")] = METHOD_TOP_K
    threshold: Annotated[float | None, typer.Option(help="Minimum cosine similarity of a result.")] = None
    budget: Annotated[int | None, typer.Option(help="Maximum tokens of the results in a prompt.")] = None

    def arguments(self) -> dict[str, Any]:
        """Return the arguments of `Mnemic.query`."""
        return {
            "categories": self.category or None,
            "filters": self._filters(),
            "scopes": self.scope or None,
            "search_type": self.search_type,
            "top_k": self.top_k,
            "threshold": self.threshold,
            "budget_tokens": self.budget,
        }

    def _filters(self) -> dict[str, Any]:
        filters: dict[str, Any] = {}
        if self.since is not None:
            filters["updated_after"] = to_time("--since", self.since)
        if self.before is not None:
            filters["updated_before"] = to_time("--before", self.before)
        for condition in self.condition or ():
            name, equals, value = condition.partition("=")
            if not equals:
                raise InvalidInputError("--filter is written as NAME=VALUE, such as importance_min=3")
            filters[name] = _PLAIN.get(value, value) if name in _NOT_TEXT else value
        return filters


async def query(
    question: Annotated[str, typer.Argument(help="Question in plain words.")],
    person: PersonOptions,
    search: SearchOptions,
    role: Annotated[str, typer.Option(help="Role whose allowlist applies; `owner` reads everything.")] = SUPERVISOR,
    explain: Annotated[bool, typer.Option("--explain", help="Print the parts of each score.")] = False,
    as_json: AsJson = False,
) -> None:
    """Search the memories and kept messages of a person, with the rights of a role."""
    async with open_memory() as memory:
        results = await memory.query(person.identity(role), question, **search.arguments())
    report(results, _list(results, explain=explain), as_json=as_json, nothing="nothing found")


def _list(results: Sequence[SearchResult], *, explain: bool) -> Sequence[RenderableType]:
    rows: list[tuple[object, ...]] = []
    for result in results:
        text = [plain(_text(result)), plain(result.id, "dim")]
        rows.append((day(result.dated), f"{result.score:.2f}", result.kind, result.category, text))
        for replaced in result.supersedes:
            rows.append(("", "", "", "", plain(f"replaces {replaced}", style="dim")))
        if explain:
            rows.append(("", "", "", "", plain(grounds(result), style="dim")))
    return table(rows, "date", "score", "kind", "category", "")


def _text(result: SearchResult) -> str:
    """Return the content of a memory, or a message with its author."""
    if result.kind != "message":
        return result.content
    author = display_name(result.subject)
    if result.role == "attachment":
        author += " (attachment)"
    return f"{author}: {result.shown}"


def grounds(result: SearchResult) -> str:
    """Return the parts of a score, such as `0.98 = 0.93 (words 0.061, similarity 0.71) + 0.05 subject`."""
    if result.related_to is not None:
        return f"added, since it is related to {result.related_to}"
    explanation = result.explanation
    words, meaning = "no word", "no vector"
    if explanation.text is not None:
        words = f"words {explanation.text:.3f}"
    if explanation.similarity is not None:
        meaning = f"similarity {explanation.similarity:.2f}"
    line = f"{result.score:.3f} = {explanation.fused:.3f} ({words}, {meaning})"
    for name, value in explanation.boosts.items():
        line += f" {value:+.3f} {name}"
    if explanation.from_source:
        line += "; by a source message, which fits better than its own text"
    return line


async def recall(
    person: PersonOptions,
    question: Annotated[str, typer.Argument(help="Message that the agent is about to answer.")] = "",
    as_json: AsJson = False,
) -> None:
    """Print the memory context of an agent's prompt for this turn."""
    async with open_memory() as memory:
        recalled = await memory.recall(person.identity(), question)
    texts = [text for text in (recalled.context.standing, recalled.context.turn) if text]
    report(recalled, map(verbatim, texts), as_json=as_json)
    if as_json:
        return
    say(f"{recalled.tokens} tokens; searched: {recalled.searched or 'no'}")
    if recalled.degraded:
        say(f"degraded: {recalled.degraded}; see the warning")
    for key in recalled.over_budget:
        say(
            f"the context memory of {key} exceeds its budget; to refine it: "
            f"{command_line('refine', key, agent=person.agent)}"
        )


async def memories(
    person: PersonOptions,
    kind: Annotated[list[str] | None, typer.Option(help=f"Only this kind; repeatable: {', '.join(KINDS)}.")] = None,
    closed: Closed = False,
    shared: Annotated[bool, typer.Option("--shared", help="Only memories that this person shared.")] = False,
    as_json: AsJson = False,
) -> None:
    """List the memories of a person, newest first."""
    if shared and (kind or closed):
        raise InvalidInputError("--shared lists today's shared memories of every kind: leave out --kind and --all")
    identity, nothing = person.owner(), "no memories"
    async with open_memory() as memory:
        if shared:
            listed = await memory.privacy.shared(identity)
            nothing = "nothing is shared with the groups that --group names, or with all users"
        else:
            kinds = cast("list[Kind] | None", kind) or KINDS
            listed = await memory.memories(identity, kinds, with_closed=closed)
    report(listed, list_memories(listed), as_json=as_json, nothing=nothing)


def list_memories(listed: Sequence[Memory]) -> Iterator[RenderableType]:
    """Yield memories by scope key, in the order of the list within each."""
    by_scope = sorted(listed, key=lambda memory: memory.scope_key)  # stable: newest first within each
    for number, (scope_key, group) in enumerate(groupby(by_scope, key=lambda memory: memory.scope_key)):
        if number:
            yield ""
        yield plain(scope_key, "bold")
        yield from table(map(_row, group))


def _row(memory: Memory) -> tuple[object, ...]:
    marks = [memory.kind, *(mark for mark in ("protected", "pinned") if getattr(memory, mark))]
    if memory.state != "active":
        marks.append(memory.state)
    lines = [", ".join(marks)]
    if memory.superseded_by:
        until = f"until {day(memory.valid_until)}, " if memory.valid_until else ""
        lines += [f"{until}replaced by", str(memory.superseded_by)]
    text = plain(_ERASED, "dim") if memory.state == "purged" else plain(memory.content)
    return day(memory.valid_from), lines, [text, plain(memory.id, "dim")]


async def history(memory_id: MemoryId, person: PersonOptions, as_json: AsJson = False) -> None:
    """Show every change of one memory."""
    async with open_memory() as memory:
        events = await memory.history.events(person.owner(), memory_id)
    lines: list[RenderableType] = []
    for event in events:
        lines.extend(_describe(event))
    report(events, lines, as_json=as_json)
    exit_if_wrong(not events, f"no memory of this person has the id {memory_id}; `mnemic memories --all` lists them")


def _describe(event: HistoryEvent) -> Iterator[RenderableType]:
    head = (f"  {to_the_second(event.ts)} UTC  by ", plain(acting(event)), "  (", plain(event.reason), ")")
    yield Text.assemble((f"{event.revision}  {event.event}", "bold"), *head)
    lines = [_change(event)]
    if event.merged_into:
        lines.append(plain(f"merged into: {event.merged_into}", "dim"))
    lines += [plain(f"merged from: {memory_id}", "dim") for memory_id in event.merged_from]
    if event.superseded_by:
        lines.append(plain(f"replaced by: {event.superseded_by}", "dim"))
    lines += [plain(f"replaces: {memory_id}", "dim") for memory_id in event.supersedes]
    for line in lines:
        yield Padding(line, (0, 0, 0, 3))


def _change(event: HistoryEvent) -> Text:
    if not event.before and not event.after:
        return plain(_ERASED, "dim")
    if event.before == event.after:
        return plain(_changed_values(event) or "the content stays", "dim")
    return Text(" → ").join(plain(text) for text in (event.before, event.after) if text is not None)


def _changed_values(event: HistoryEvent) -> str:
    """Return the values that an update changed, such as `pinned: false → true`."""
    changes: list[str] = []
    for name, (before, after) in event.changes.items():
        changes.append(f"{name}: {json.dumps(before)} → {json.dumps(after)}")
    return ", ".join(changes)


async def messages(
    agent: Agent,
    user: User,
    session: Session = None,
    count: Annotated[bool, typer.Option("--count", help="Print only the number of messages.")] = False,
    limit: Annotated[int, typer.Option(help="Maximum number of messages.")] = 100,
    as_json: AsJson = False,
) -> None:
    """List the stored messages of a person, newest first, or those of one session."""
    identity = PersonOptions(agent=agent, user=user, session=session).owner()
    listed: Sequence[Message] = []
    async with open_memory() as memory:
        number = await memory.privacy.count_messages(identity, session_id=session)
        if not count:
            listed = await memory.privacy.messages(identity, session_id=session, limit=limit)
    if count:
        report({"count": number}, [str(number)], as_json=as_json)
        return
    rows = table(map(_message_row, listed), "time", "session", "role", "")
    report(listed, rows, as_json=as_json, nothing="no messages")
    if len(listed) < number and not as_json:
        say(f"{len(listed)} of {number} messages; --limit shows more")


def _message_row(message: Message) -> tuple[object, ...]:
    text = f"{message.author}: {message.content}"
    return f"{message.said_at:%Y-%m-%d %H:%M %z}", message.session_id, message.role, text


async def threads(agent: Agent, user: User, as_json: AsJson = False) -> None:
    """List the conversations of a person with an agent, latest first, without contents."""
    identity = PersonOptions(agent=agent, user=user).identity()
    async with open_memory() as memory:
        listed = await memory.threads.list(identity)
    report(listed, table(map(_thread_row, listed), *_THREADS), as_json=as_json, nothing="no conversations")
    if listed and not as_json:
        latest = command_line("chat", agent=agent, user=user, session=listed[0].id)
        say(f"to continue the latest conversation: {latest}")


def _thread_row(thread: ThreadStatus) -> tuple[object, ...]:
    updated, created = to_the_second(thread.updated_at), to_the_second(thread.created_at)
    steps = "?"
    if thread.step is not None:
        steps = str(thread.step + 1)  # the first step is -1
    return thread.id, updated, created, steps, ", ".join(thread.next)


#: Commands of this module, in the order of `mnemic --help`.
COMMANDS = (threads, query, recall, memories, messages, history)
