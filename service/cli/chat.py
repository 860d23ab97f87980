"""`mnemic chat` and `mnemic threads`: the supervisor in the terminal, and earlier conversations with it."""

import shlex
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Annotated
from uuid import uuid4

import typer
from rich.text import Text

from mnemic.models.chat import OFFLINE_LABEL
from mnemic.service.cli.chat_session import ChatSession
from mnemic.service.cli.options import Agent, AsJson, Groups, User, identity
from mnemic.service.cli.terminal import columns, plain, report, say, show
from mnemic.service.memory import Mnemic
from mnemic.state.settings import OFFLINE
from mnemic.state.supervisor import ThreadStatus

Conversation = Annotated[
    str | None, typer.Option("--session", help="Go on with this conversation; default: a new one.")
]


async def chat(agent: Agent, user: User, group: Groups = None, session: Conversation = None) -> None:
    """Talk with an agent that remembers. /quit, or the end of input, ends it; Ctrl-C stops an answer.

    What you say is formed after each turn, and what becomes of the memory is shown as it happens.
    """
    new = f"chat-{datetime.now(UTC):%Y%m%d-%H%M%S}-{uuid4().hex[:4]}"
    who = identity(agent, user, group, new if session is None else session)
    async with Mnemic.open() as memory:
        model = (await memory.agent_settings(who)).model_for("agent")
        say(f"{memory.describe()}; answers: {OFFLINE_LABEL if model == OFFLINE else model}")
        if session is None:
            say(f"to go on with this conversation later: {_command(agent, user, new, who.group_ids)}")
        async with ChatSession.open(memory, who) as chat_session:
            await chat_session.run()


def _command(agent: str, user: str, session: str, groups: Sequence[str] = ()) -> str:
    words = ["--agent", agent, "--user", user, *(word for group in groups for word in ("--group", group))]
    return shlex.join(["mnemic", "chat", *words, "--session", session])


async def threads(agent: Agent, user: User, as_json: AsJson = False) -> None:
    """List the conversations of a person with an agent, the one that moved last first; nothing of what was said."""
    who = identity(agent, user)
    async with Mnemic.open() as memory:
        found = await memory.threads(who)
    report(found, _list_threads, as_json=as_json, nothing="no conversations")
    if found and not as_json:
        say(f"to go on with the latest: {_command(agent, user, found[0].thread_id)}")


def _list_threads(found: Sequence[ThreadStatus]) -> None:
    table = columns("last moved (UTC)", "conversation", "began", "steps", "next")
    for thread in found:
        times = (thread.updated_at, thread.created_at)
        moved, began = (time.astimezone(UTC).strftime("%Y-%m-%d %H:%M") for time in times)
        steps = "?" if thread.step is None else str(thread.step + 1)  # the first one is -1
        table.add_row(moved, plain(thread.thread_id), began, steps, Text(", ".join(thread.next)))
    show(table)
