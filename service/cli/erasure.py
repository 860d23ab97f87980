"""`mnemic erase` and `mnemic purge`: what is gone for good."""

from collections.abc import Sequence
from typing import Annotated
from uuid import UUID

import typer

from mnemic.service.administration import Administration
from mnemic.service.cli.consent import withheld
from mnemic.service.cli.options import ADMINISTRATOR, Actor, Agent, AsJson, Session, User, identity
from mnemic.service.cli.output import emit, plain, say, show
from mnemic.service.cli.running import EXIT_FOUND_WRONG
from mnemic.service.memory import Mnemic
from mnemic.state.errors import InvalidInputError

MemoryIds = Annotated[list[UUID] | None, typer.Argument(metavar="ID", help="As `mnemic memories` prints them.")]
Everything = Annotated[bool, typer.Option("--everything", help="All that the agent has of this person.")]
Yes = Annotated[bool, typer.Option("--yes", help="Do it without a question.")]


async def erase(
    agent: Agent,
    user: User,
    memory_ids: MemoryIds = None,
    everything: Everything = False,
    session: Session = None,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Erase memories of a person for good; the exit code is 1 where one of the ids is none of theirs."""
    asked = list(dict.fromkeys(memory_ids or ()))
    if everything == bool(asked):
        raise InvalidInputError("name the memories to erase, or say --everything")
    who = identity(agent, user, session=session)
    what = "everything this agent has of this person" if everything else _memories(len(asked))
    _ask(f"Erase {what} for good?", yes=yes, as_json=as_json)
    async with Mnemic.open() as memory:
        erased = await memory.erase_person(who) if everything else await memory.erase(who, *asked)
    _show(erased, as_json=as_json)
    if missing := [] if everything else sorted(set(asked) - set(erased)):
        say(f"no memory of this person, or erased already: {' '.join(map(str, missing))}")
        raise typer.Exit(EXIT_FOUND_WRONG)


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


def _show(erased: Sequence[UUID], *, as_json: bool) -> None:
    if as_json:
        emit({"erased": erased})
    else:
        show(*(plain(memory_id) for memory_id in erased), plain(f"erased: {_memories(len(erased))}"))


def _memories(count: int) -> str:
    return "1 memory" if count == 1 else f"{count} memories"
