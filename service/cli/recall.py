"""`mnemic query`, `recall`, `memories`, `history` and `threads`: what is stored comes out, and how it came about."""

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Annotated, Any, Final, cast
from uuid import UUID

import typer
from rich.console import RenderableType
from rich.padding import Padding
from rich.text import Text

from mnemic.service.cli.options import Agent, AsJson, Groups, Session, User, identity, open_memory, person
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
from mnemic.state.identity import Scope, display_name
from mnemic.state.kinds import KINDS, Kind, SearchType
from mnemic.state.query import METHOD_TOP_K
from mnemic.state.records import HistoryEvent, Memory, Message, SearchResult
from mnemic.state.supervisor import ThreadStatus

Closed = Annotated[bool, typer.Option("--all", help="Closed and erased ones too.")]

#: In place of the words that an erased memory no longer has.
_ERASED: Final = "what it said was erased"
_THREADS: Final = ("conversation", "last moved (UTC)", "began", "steps", "next")

#: Filters whose values are not text, and what such values are written as.
_NOT_TEXT: Final = frozenset({"pinned", "importance_min", "importance_max"})
_PLAIN: Final[dict[str, Any]] = {"true": True, "false": False, **{str(number): number for number in range(1, 6)}}


async def query(
    question: Annotated[str, typer.Argument(help="What is looked for, in plain words.")],
    agent: Agent,
    user: User,
    group: Groups = None,
    session: Session = None,
    role: Annotated[str, typer.Option(help="The role whose allowlist holds; `owner` reads everything.")] = "supervisor",
    category: Annotated[list[str] | None, typer.Option(help="Only this category; repeatable.")] = None,
    scope: Annotated[
        list[str] | None, typer.Option(help="Only this scope: user, group, agent or session; repeatable.")
    ] = None,
    condition: Annotated[
        list[str] | None,
        typer.Option(
            "--filter", metavar="NAME=VALUE", help="Only what meets this, such as importance_min=3; repeatable."
        ),
    ] = None,
    since: Annotated[str | None, typer.Option(help="Only what changed, or was said, from this day on.")] = None,
    before: Annotated[str | None, typer.Option(help="Only what changed, or was said, before then.")] = None,
    search_type: Annotated[str, typer.Option(help="hybrid, semantic or text.")] = "hybrid",
    top_k: Annotated[int, typer.Option(help="Results at most.")] = METHOD_TOP_K,
    threshold: Annotated[float | None, typer.Option(help="The least cosine similarity of a result.")] = None,
    budget: Annotated[int | None, typer.Option(help="Tokens the results may take in a prompt.")] = None,
    explain: Annotated[bool, typer.Option("--explain", help="Say how each score came about.")] = False,
    as_json: AsJson = False,
) -> None:
    """Search the memories and kept messages of a person, as an agent in a role may."""
    who = identity(agent, user, group, session, role)
    async with open_memory() as memory:
        found = await memory.query(
            who,
            question,
            categories=category or None,
            filters=_filters(condition or (), since, before),
            scopes=cast("list[Scope] | None", scope or None),
            search_type=cast("SearchType", search_type),
            top_k=top_k,
            threshold=threshold,
            budget_tokens=budget,
        )
    report(found, _list(found, explain=explain), as_json=as_json, nothing="nothing found")


def _list(found: Sequence[SearchResult], *, explain: bool) -> Sequence[RenderableType]:
    rows: list[tuple[object, ...]] = []
    for item in found:
        attached = " (attachment)" if item.role == "attachment" else ""
        text = f"{display_name(item.subject)}{attached}: {item.shown}" if item.kind == "message" else item.content
        rows.append((day(item.dated), f"{item.score:.2f}", item.kind, item.category, text))
        rows.extend(("", "", "", "", plain(f"replaces {replaced}", style="dim")) for replaced in item.supersedes)
        if explain:
            rows.append(("", "", "", "", plain(grounds(item), style="dim")))
    return table(rows, "date", "score", "kind", "category", "")


def grounds(found: SearchResult) -> str:
    """`0.98 = 0.93 (words 0.061, similarity 0.71) + 0.05 subject`."""
    if found.related_to is not None:
        return f"came along: it is related to {found.related_to}"
    why = found.explanation
    words = "no word" if why.text is None else f"words {why.text:.3f}"
    meaning = "no vector" if why.similarity is None else f"similarity {why.similarity:.2f}"
    added = "".join(f" {value:+.3f} {name}" for name, value in why.boosts.items())
    source = "; a message it was formed from fits better than its own words" if why.from_source else ""
    return f"{found.score:.3f} = {why.fused:.3f} ({words}, {meaning}){added}{source}"


def _filters(conditions: Sequence[str], since: str | None, before: str | None) -> dict[str, Any]:
    given: dict[str, Any] = {"updated_after": since, "updated_before": before}
    for condition in conditions:
        name, equals, value = condition.partition("=")
        if not equals:
            raise InvalidInputError("--filter is written as NAME=VALUE, such as importance_min=3")
        given[name] = _PLAIN.get(value, value) if name in _NOT_TEXT else value
    return given


async def recall(
    agent: Agent,
    user: User,
    question: Annotated[str, typer.Argument(help="The message that is about to be answered.")] = "",
    group: Groups = None,
    session: Session = None,
    as_json: AsJson = False,
) -> None:
    """Print what an agent would get into its prompt for this turn."""
    async with open_memory() as memory:
        recalled = await memory.recall(identity(agent, user, group, session), question)
    texts = filter(None, (recalled.context.standing, recalled.context.turn))
    report(recalled, [*map(verbatim, texts)], as_json=as_json)
    if as_json:
        return
    say(f"{recalled.tokens} tokens; searched: {recalled.searched or 'no'}")
    if recalled.degraded:
        say(f"degraded: {recalled.degraded}; see the warning")
    for key in recalled.over_budget:
        compress = command_line("refine", key, agent=agent)
        say(f"the core memory of {key} has outgrown its budget; to compress it: {compress}")


async def memories(
    agent: Agent,
    user: User,
    group: Groups = None,
    session: Session = None,
    kind: Annotated[list[str] | None, typer.Option(help=f"Only this kind; repeatable: {', '.join(KINDS)}.")] = None,
    closed: Closed = False,
    shared: Annotated[bool, typer.Option("--shared", help="Only what this person brought to others.")] = False,
    as_json: AsJson = False,
) -> None:
    """List the memories of a person, newest first."""
    if shared and (kind or closed):
        raise InvalidInputError("--shared lists what others see today, of every kind: leave out --kind and --closed")
    kinds, who = cast("list[Kind] | None", kind) or KINDS, person(agent, user, group, session)
    async with open_memory() as memory:
        found = await memory.privacy.shared(who) if shared else await memory.memories(who, kinds, with_closed=closed)
    nothing = "nothing is shared, as far as --group names the groups" if shared else "no memories"
    report(found, list_memories(found), as_json=as_json, nothing=nothing)


def list_memories(found: Sequence[Memory]) -> Iterator[RenderableType]:
    """By scope key, in the given order within each."""
    by_scope = sorted(found, key=lambda memory: memory.scope_key)  # stable: newest first within each
    for number, (scope_key, group) in enumerate(groupby(by_scope, key=lambda memory: memory.scope_key)):
        if number:
            yield ""
        yield plain(scope_key, "bold")
        yield from table(map(_row, group))


def _row(memory: Memory) -> tuple[object, ...]:
    marks = [mark for mark in ("protected", "pinned") if getattr(memory, mark)]
    what = [", ".join([memory.kind, *marks, *([memory.state] if memory.state != "active" else [])])]
    if memory.superseded_by:
        until = f"until {day(memory.valid_until)}, " if memory.valid_until else ""
        what += [f"{until}replaced by", str(memory.superseded_by)]
    text = memory.content if memory.state != "purged" else plain(_ERASED, "dim")
    return day(memory.valid_from), what, [text, plain(memory.id, "dim")]


async def history(
    memory_id: Annotated[UUID, typer.Argument(metavar="ID", help="As `mnemic memories` prints it.")],
    agent: Agent,
    user: User,
    group: Groups = None,
    session: Session = None,
    as_json: AsJson = False,
) -> None:
    """Show everything that happened to one memory."""
    async with open_memory() as memory:
        events = await memory.history.events(person(agent, user, group, session), memory_id)
    report(events, (line for event in events for line in _describe(event)), as_json=as_json)
    exit_if_wrong(not events, "no memory of this id is visible to this person")


def _describe(event: HistoryEvent) -> Iterator[RenderableType]:
    who_and_why = (f"  {to_the_second(event.ts)} UTC  by ", plain(acting(event)), "  (", plain(event.reason), ")")
    yield Text.assemble((f"{event.revision}  {event.event}", "bold"), *who_and_why)
    if not event.before and not event.after:
        change = plain(_ERASED, "dim")
    elif event.before == event.after:  # the memory was closed or opened
        change = plain("the words stay as they are", "dim")
    else:
        change = Text(" → ").join(plain(text) for text in (event.before, event.after) if text is not None)
    into = [f"merged into: {event.merged_into}"] if event.merged_into else []
    replaced = [f"replaced by: {event.superseded_by}"] if event.superseded_by else []
    replaced += [f"replaces: {memory_id}" for memory_id in event.supersedes]
    lines = [*into, *(f"merged from: {part}" for part in event.merged_from), *replaced]
    yield from (Padding(line, (0, 0, 0, 3)) for line in (change, *(plain(line, "dim") for line in lines)))


async def messages(
    agent: Agent,
    user: User,
    session: Session = None,
    count: Annotated[bool, typer.Option("--count", help="Print only how many there are.")] = False,
    limit: Annotated[int, typer.Option(help="Messages at most.")] = 100,
    as_json: AsJson = False,
) -> None:
    """List the stored messages of a person, newest first; with --session those of one conversation."""
    who = person(agent, user, None, session)
    async with open_memory() as memory:
        number = await memory.privacy.count_messages(who, session_id=session)
        found = [] if count else await memory.privacy.messages(who, session_id=session, limit=limit)
    if count:
        report({"count": number}, [str(number)], as_json=as_json)
        return
    rows = table(map(_message_row, found), "said", "session", "role", "")
    report(found, rows, as_json=as_json, nothing="no messages")
    if len(found) < number and not as_json:
        say(f"{len(found)} of {number} messages; --limit shows more")


def _message_row(message: Message) -> tuple[object, ...]:
    said = f"{message.author}: {message.content}"
    return f"{message.said_at:%Y-%m-%d %H:%M %z}", message.session_id, message.role, said


async def threads(agent: Agent, user: User, as_json: AsJson = False) -> None:
    """List the conversations of a person with an agent, the one that moved last first; nothing of what was said."""
    who = identity(agent, user)
    async with open_memory() as memory:
        found = await memory.threads.list(who)
    report(found, table(map(_thread_row, found), *_THREADS), as_json=as_json, nothing="no conversations")
    if found and not as_json:
        say(f"to go on with the latest: {command_line('chat', agent=agent, user=user, session=found[0].id)}")


def _thread_row(thread: ThreadStatus) -> tuple[object, ...]:
    moved, began = to_the_second(thread.updated_at), to_the_second(thread.created_at)
    steps = "?" if thread.step is None else str(thread.step + 1)  # the first one is -1
    return thread.id, moved, began, steps, ", ".join(thread.next)
