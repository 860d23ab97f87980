"""`mnemic erase`, `purge`, `protect` and `unprotect`: what is gone for good, and what no agent takes away."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Annotated
from uuid import UUID

import typer

from mnemic.service.cli.options import ADMINISTRATOR, Actor, Agent, AsJson, Session, User, identity
from mnemic.service.cli.terminal import EXIT_FOUND_WRONG, emit, exit_if_wrong, plain, progress, say, show, withheld
from mnemic.service.governance.administration import Administration
from mnemic.service.memory import Mnemic
from mnemic.state.errors import InvalidInputError, UnknownMemoryError
from mnemic.state.governance import Erasure
from mnemic.state.identity import Identity
from mnemic.storage.erasure import Progress

ToErase = Annotated[list[UUID] | None, typer.Argument(metavar="ID", help="Of memories, or of messages of theirs.")]
ToProtect = Annotated[list[UUID], typer.Argument(metavar="ID", help="As `mnemic memories` or `as-of` prints them.")]
Everything = Annotated[bool, typer.Option("--everything", help="All that the agent has of this person.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Erase nothing; show what goes, and what stays and why.")]
Yes = Annotated[bool, typer.Option("--yes", help="Do it without a question.")]


async def erase(
    agent: Agent,
    user: User,
    memory_ids: ToErase = None,
    everything: Everything = False,
    session: Session = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Erase memories of a person for good, with what says the same; one that was broken off goes on.

    The exit code is 1 where one of the ids is none of theirs, or something is left.
    """
    ids = list(dict.fromkeys(memory_ids or ()))
    if everything == bool(ids):
        raise InvalidInputError("name the memories to erase, or say --everything")
    who = identity(agent, user, session=session)
    if dry_run:
        planned = await _erase(who, ids, dry_run=True)
        _show_plan(planned, as_json=as_json)
        if _name_missing(ids, [item.id for item in planned.going]):
            raise typer.Exit(EXIT_FOUND_WRONG)
        return
    what = "everything this agent has of this person" if everything else _memories(len(ids))
    _require_consent(f"Erase {what} for good?", yes=yes, as_json=as_json)
    done = await _erase_with_progress(who, ids)
    if done.goes_on_from:
        say(f"this went on with an erasure that was begun at {done.goes_on_from:%Y-%m-%d %H:%M} UTC")
    _show_erased(done.erased, as_json=as_json, messages=done.messages, left=done.left)
    is_missing = _name_missing(ids, done.erased)
    if not done.is_complete:
        say(f"{done.left} are left, for more is written all the time: the same command goes on")
    exit_if_wrong(is_missing or not done.is_complete)


async def _erase_with_progress(who: Identity, ids: Sequence[UUID]) -> Erasure:
    with progress() as bar:
        task = bar.add_task("erasing", total=None)
        return await _erase(who, ids, lambda done, left: bar.update(task, completed=done, total=done + left))


async def _erase(
    who: Identity, ids: Sequence[UUID], advance: Progress | None = None, *, dry_run: bool = False
) -> Erasure:
    async with Mnemic.open() as memory:
        if ids:
            return await memory.erase(who, *ids, dry_run=dry_run, progress=advance)
        return await memory.erase_person(who, dry_run=dry_run, progress=advance)


def _name_missing(ids: Sequence[UUID], found: Sequence[UUID]) -> bool:
    """Names the ids that are none of the person's; whether there are any."""
    missing = sorted(set(ids) - set(found))
    if missing:
        say(f"no memory or message of this person, or erased already: {' '.join(map(str, missing))}")
    return bool(missing)


def _show_plan(planned: Erasure, *, as_json: bool) -> None:
    if as_json:
        emit({"going": planned.going, "staying": planned.staying})
        return
    for item in planned.going:
        text = item.content if item.content is not None else f"of {item.scope_key}"
        show(plain(f"goes: {item.kind} {item.id} {text}"))
    for item in planned.staying:
        show(plain(f"stays, {item.stays}: {item.kind} {item.id} {item.content or 'of ' + item.scope_key}"))
    messages = sum(item.kind == "message" for item in planned.going)
    going = f"{_memories(len(planned.going) - messages)}, {messages} messages"
    show(plain(f"would go: {going}; would stay: {len(planned.staying)}"))


async def purge(agent: Agent, actor: Actor = ADMINISTRATOR, yes: Yes = False, as_json: AsJson = False) -> None:
    """Erase what is due by its age, as the administrators' role.

    Due are words of messages MNEMIC_FORGET_AFTER_DAYS after they were formed, and memories that expired longer ago than
    MNEMIC_RETENTION_PURGE_AFTER_DAYS, if that is set.
    """
    _require_consent("Erase words of messages and memories that are due for good?", yes=yes, as_json=as_json)
    async with Administration.open(actor=actor) as administration:
        forgotten = await administration.forget_messages(agent)
        erased = await administration.purge(agent) if administration.purges else []
        if not administration.purges:
            say("no memory is purged: MNEMIC_RETENTION_PURGE_AFTER_DAYS is not set")
    if as_json:
        emit({"erased": erased, "messages": forgotten})
    else:
        _show_erased(erased, as_json=False)
        show(plain(f"messages that lost their words: {forgotten}"))


def _require_consent(question: str, *, yes: bool, as_json: bool) -> None:
    why_not = withheld(question, yes=yes, as_json=as_json)
    if why_not is not None:
        if as_json:
            emit({"erased": []})
        say(f"nothing was erased: {why_not}")
        raise typer.Exit(EXIT_FOUND_WRONG)


def _show_erased(erased: Sequence[UUID], *, as_json: bool, **figures: int) -> None:
    if as_json:
        emit({"erased": erased, **figures})
    else:
        messages = f", {figures['messages']} messages" if figures.get("messages") else ""
        show(*map(plain, erased), plain(f"erased: {_memories(len(erased))}{messages}"))


async def protect(memory_ids: ToProtect, agent: Agent, actor: Actor = ADMINISTRATOR, as_json: AsJson = False) -> None:
    """Protect memories, as administrator: no agent changes, merges or forgets them; exit code 1 on an unknown id."""
    async with Administration.open(actor=actor) as administration:
        await _protect_each(administration.protect, "protected", agent, memory_ids, as_json=as_json)


async def unprotect(memory_ids: ToProtect, agent: Agent, actor: Actor = ADMINISTRATOR, as_json: AsJson = False) -> None:
    """Lift the protection of memories, as administrator; the exit code is 1 where one of the ids is unknown."""
    async with Administration.open(actor=actor) as administration:
        await _protect_each(administration.unprotect, "unprotected", agent, memory_ids, as_json=as_json)


async def _protect_each(
    act: Callable[[str, UUID], Awaitable[bool]], done: str, agent: str, memory_ids: Sequence[UUID], *, as_json: bool
) -> None:
    """Each is an operation of its own."""
    changed, missing = [], []
    for memory_id in dict.fromkeys(memory_ids):
        try:
            changed += [memory_id] if await act(agent, memory_id) else []
        except UnknownMemoryError:
            missing.append(memory_id)
    if as_json:
        emit({done: changed})
    else:
        show(*map(plain, changed), plain(f"{done}: {_memories(len(changed))}"))
    if missing:
        say(f"no living memory of this agent: {' '.join(map(str, missing))}")
        raise typer.Exit(EXIT_FOUND_WRONG)


def _memories(count: int) -> str:
    return "1 memory" if count == 1 else f"{count} memories"
