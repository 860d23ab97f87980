"""`mnemic recall` and `mnemic context`: memories come out."""

from typing import Annotated

import typer

from mnemic.policy.names import display_name
from mnemic.service.cli.options import Agent, AsJson, Groups, Session, User, identity
from mnemic.service.cli.output import columns, day, emit, plain, say, show, show_text
from mnemic.service.memory import Mnemic

Question = Annotated[str, typer.Argument(help="What is looked for, in plain words.")]
OptionalQuestion = Annotated[str, typer.Argument(help="The message that is about to be answered.")]


async def recall(
    question: Question,
    agent: Agent,
    user: User,
    group: Groups = None,
    session: Session = None,
    as_json: AsJson = False,
) -> None:
    """Search the memories and kept messages of a person."""
    async with Mnemic.open() as memory:
        found = await memory.search(identity(agent, user, group, session), question)
    if as_json:
        emit(found)
        return
    if not found:
        say("nothing found")
        return
    table = columns("date", "score", "kind", "")
    for item in found:
        said = f"{display_name(item.subject)}: {item.content}" if item.kind == "message" else item.content
        table.add_row(day(item.dated), f"{item.score:.2f}", item.kind, plain(said))
    show(table)


async def context(
    agent: Agent,
    user: User,
    question: OptionalQuestion = "",
    group: Groups = None,
    session: Session = None,
    as_json: AsJson = False,
) -> None:
    """Print what an agent would get into its prompt for this turn."""
    async with Mnemic.open() as memory:
        recalled = await memory.context(identity(agent, user, group, session), question)
    if as_json:
        emit(recalled)
        return
    if recalled["context"]:
        show_text(recalled["context"])
    say(f"{recalled['tokens']} tokens; searched: {recalled['searched'] or 'no'}")
    if recalled["degraded"]:
        say(f"degraded: {recalled['degraded']}; see the warning")
