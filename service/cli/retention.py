"""`mnemic erase`, `purge`, `protect` and `unprotect`: what is gone for good, and what no agent takes away."""

from collections.abc import Iterator, Sequence
from typing import Annotated
from uuid import UUID

import typer
from rich.text import Text

from mnemic.service.cli.options import ADMINISTRATOR, Actor, Agent, AsJson, Session, User, Yes, identity
from mnemic.service.cli.terminal import counted, emit, exit_if_wrong, plain, progress, report, say, withheld
from mnemic.service.governance.administration import Administration
from mnemic.service.memory import Mnemic
from mnemic.state.errors import InvalidInputError, UnknownMemoryError
from mnemic.state.governance import Erasure
from mnemic.state.identity import Identity

ToErase = Annotated[list[UUID] | None, typer.Argument(metavar="ID", help="Of memories, or of messages of theirs.")]
ToProtect = Annotated[list[UUID], typer.Argument(metavar="ID", help="As `mnemic memories` or `as-of` prints them.")]
Everything = Annotated[bool, typer.Option("--everything", help="All that the agent has of this person.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Erase nothing; show what goes, and what stays and why.")]


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
    if not dry_run:
        what = "everything this agent has of this person" if everything else _memories(len(ids))
        _require_consent(f"Erase {what} for good?", yes=yes, as_json=as_json)
    done = await _erase(who, ids, dry_run=dry_run)
    if done.goes_on_from:
        say(f"this went on with an erasure that was begun at {done.goes_on_from:%Y-%m-%d %H:%M} UTC")
    if dry_run:
        report({"going": done.going, "staying": done.staying}, _plan(done), as_json=as_json)
    else:
        figures = {"erased": done.erased, "messages": done.messages, "left": done.left}
        report(figures, _listed("erased", done.erased, done.messages), as_json=as_json)
    # those that are none of the person's
    missing = sorted({*ids}.difference(done.erased, (item.id for item in done.going)))
    if missing:
        say(f"no memory or message of this person, or erased already: {' '.join(map(str, missing))}")
    if not done.is_complete:
        say(f"{done.left} are left, for more is written all the time: the same command goes on")
    exit_if_wrong(missing or not done.is_complete)


async def _erase(who: Identity, ids: Sequence[UUID], *, dry_run: bool) -> Erasure:
    async with Mnemic.open() as memory:
        with progress() as bar:
            task = bar.add_task("erasing", total=None)

            def advance(done: int, left: int) -> None:
                bar.update(task, completed=done, total=done + left)

            if ids:
                return await memory.erase(who, *ids, dry_run=dry_run, progress=advance)
            return await memory.erase_person(who, dry_run=dry_run, progress=advance)


def _plan(planned: Erasure) -> Iterator[Text]:
    for item in (*planned.going, *planned.staying):
        text = item.content if item.content is not None else f"of {item.scope_key}"
        yield plain(f"{f'stays, {item.stays}' if item.stays else 'goes'}: {item.kind} {item.id} {text}")
    messages = sum(item.kind == "message" for item in planned.going)
    going = f"{_memories(len(planned.going) - messages)}, {messages} messages"
    yield plain(f"would go: {going}; would stay: {len(planned.staying)}")


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
    lines = [*_listed("erased", erased), plain(f"messages that lost their words: {forgotten}")]
    report({"erased": erased, "messages": forgotten}, lines, as_json=as_json)


def _require_consent(question: str, *, yes: bool, as_json: bool) -> None:
    why_not = withheld(question, yes=yes, as_json=as_json)
    if why_not is not None and as_json:
        emit({"erased": []})
    exit_if_wrong(why_not, f"nothing was erased: {why_not}")


async def protect(memory_ids: ToProtect, agent: Agent, actor: Actor = ADMINISTRATOR, as_json: AsJson = False) -> None:
    """Protect memories, as administrator: no agent changes, merges or forgets them; exit code 1 on an unknown id."""
    await _protect(memory_ids, agent, actor, as_json=as_json, protected=True)


async def unprotect(memory_ids: ToProtect, agent: Agent, actor: Actor = ADMINISTRATOR, as_json: AsJson = False) -> None:
    """Lift the protection of memories, as administrator; the exit code is 1 where one of the ids is unknown."""
    await _protect(memory_ids, agent, actor, as_json=as_json, protected=False)


async def _protect(memory_ids: Sequence[UUID], agent: str, actor: str, *, as_json: bool, protected: bool) -> None:
    """Each is an operation of its own."""
    changed, missing = [], []
    async with Administration.open(actor=actor) as administration:
        change = administration.protect if protected else administration.unprotect
        for memory_id in dict.fromkeys(memory_ids):
            try:
                changed += [memory_id] if await change(agent, memory_id) else []
            except UnknownMemoryError:
                missing.append(memory_id)
    done = "protected" if protected else "unprotected"
    report({done: changed}, _listed(done, changed), as_json=as_json)
    exit_if_wrong(missing, f"no living memory of this agent: {' '.join(map(str, missing))}")


def _listed(done: str, ids: Sequence[UUID], messages: int = 0) -> list[Text]:
    and_messages = f", {messages} messages" if messages else ""
    return [*map(plain, ids), plain(f"{done}: {_memories(len(ids))}{and_messages}")]


def _memories(count: int) -> str:
    return counted(count, "memory", "memories")
