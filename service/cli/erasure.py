"""`mnemic erase` and `mnemic purge`: what is gone for good."""

from collections.abc import Sequence
from typing import Annotated
from uuid import UUID

import typer

from mnemic.service.cli.consent import withheld
from mnemic.service.cli.options import ADMINISTRATOR, Actor, Agent, AsJson, Session, User, identity
from mnemic.service.cli.output import emit, plain, progress, say, show
from mnemic.service.cli.running import EXIT_FOUND_WRONG
from mnemic.service.governance.administration import Administration
from mnemic.service.memory import Mnemic
from mnemic.state.erasure import Erasure
from mnemic.state.errors import InvalidInputError
from mnemic.state.identity import Identity

MemoryIds = Annotated[list[UUID] | None, typer.Argument(metavar="ID", help="Of memories, or of messages of theirs.")]
Everything = Annotated[bool, typer.Option("--everything", help="All that the agent has of this person.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Erase nothing; show what goes, and what stays and why.")]
Yes = Annotated[bool, typer.Option("--yes", help="Do it without a question.")]


async def erase(
    agent: Agent,
    user: User,
    memory_ids: MemoryIds = None,
    everything: Everything = False,
    session: Session = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Erase memories of a person for good, with what says the same; one that was broken off goes on.

    The exit code is 1 where one of the ids is none of theirs, or something is left.
    """
    asked = list(dict.fromkeys(memory_ids or ()))
    if everything == bool(asked):
        raise InvalidInputError("name the memories to erase, or say --everything")
    who = identity(agent, user, session=session)
    if dry_run:
        await _foretell(who, asked, as_json=as_json)
        return
    what = "everything this agent has of this person" if everything else _memories(len(asked))
    _ask(f"Erase {what} for good?", yes=yes, as_json=as_json)
    done = await _erased(who, asked)
    if done.goes_on_from:
        say(f"this went on with an erasure that was begun at {done.goes_on_from:%Y-%m-%d %H:%M} UTC")
    _show(done.erased, as_json=as_json, messages=done.messages, left=done.left)
    missing = _missing(asked, done.erased)
    if not done.is_complete:
        say(f"{done.left} are left, for more is written all the time: the same command goes on")
    if missing or not done.is_complete:
        raise typer.Exit(EXIT_FOUND_WRONG)


async def _erased(who: Identity, asked: Sequence[UUID]) -> Erasure:
    with progress() as bar:
        task = bar.add_task("erasing", total=None)

        def advance(done: int, left: int) -> None:
            bar.update(task, completed=done, total=done + left)

        async with Mnemic.open() as memory:
            if asked:
                return await memory.erase(who, *asked, progress=advance)
            return await memory.erase_person(who, progress=advance)


async def _foretell(who: Identity, asked: Sequence[UUID], *, as_json: bool) -> None:
    async with Mnemic.open() as memory:
        told = await (memory.erase(who, *asked, dry_run=True) if asked else memory.erase_person(who, dry_run=True))
    if as_json:
        emit({"going": told.going, "staying": told.staying})
    else:
        _list(told)
    if _missing(asked, [one.id for one in told.going]):
        raise typer.Exit(EXIT_FOUND_WRONG)


def _missing(asked: Sequence[UUID], found: Sequence[UUID]) -> bool:
    """Names the ids that are none of the person's; whether there are any."""
    missing = sorted(set(asked) - set(found))
    if missing:
        say(f"no memory or message of this person, or erased already: {' '.join(map(str, missing))}")
    return bool(missing)


def _list(told: Erasure) -> None:
    messages = [one for one in told.going if one.kind == "message"]
    for one in told.going:
        show(plain(f"goes: {one.kind} {one.id} {one.content if one.content is not None else 'of ' + one.scope_key}"))
    for one in told.staying:
        show(plain(f"stays, {one.stays}: {one.kind} {one.id} {one.content or 'of ' + one.scope_key}"))
    total = len(told.going) - len(messages)
    show(plain(f"would go: {_memories(total)}, {len(messages)} messages; would stay: {len(told.staying)}"))


async def purge(agent: Agent, actor: Actor = ADMINISTRATOR, yes: Yes = False, as_json: AsJson = False) -> None:
    """Erase what is due by its age, as the administrators' role.

    Due are words of messages MNEMIC_FORGET_AFTER_DAYS after they were formed, and memories that expired longer ago than
    MNEMIC_RETENTION_PURGE_AFTER_DAYS, if that is set.
    """
    _ask("Erase words of messages and memories that are due for good?", yes=yes, as_json=as_json)
    async with Administration.open(actor=actor) as administration:
        forgotten = await administration.forget_messages(agent)
        erased = await administration.purge(agent) if administration.purges else []
        if not administration.purges:
            say("no memory is purged: MNEMIC_RETENTION_PURGE_AFTER_DAYS is not set")
    if as_json:
        emit({"erased": erased, "messages": forgotten})
    else:
        _show(erased, as_json=False)
        show(plain(f"messages that lost their words: {forgotten}"))


def _ask(question: str, *, yes: bool, as_json: bool) -> None:
    why_not = withheld(question, yes=yes, as_json=as_json)
    if why_not is not None:
        if as_json:
            emit({"erased": []})
        say(f"nothing was erased: {why_not}")
        raise typer.Exit(EXIT_FOUND_WRONG)


def _show(erased: Sequence[UUID], *, as_json: bool, **more: int) -> None:
    if as_json:
        emit({"erased": erased, **more})
    else:
        messages = f", {more['messages']} messages" if more.get("messages") else ""
        show(*(plain(memory_id) for memory_id in erased), plain(f"erased: {_memories(len(erased))}{messages}"))


def _memories(count: int) -> str:
    return "1 memory" if count == 1 else f"{count} memories"
