"""`mnemic chat`: the supervisor in the terminal, and what becomes of the memory meanwhile."""

import shlex
from datetime import UTC, datetime
from typing import Annotated
from uuid import uuid4

import typer

from mnemic.models.chat import OFFLINE_LABEL
from mnemic.service.cli.options import Agent, Groups, User, identity
from mnemic.service.cli.talk import Talk
from mnemic.service.cli.terminal import say
from mnemic.service.memory import Mnemic
from mnemic.state.identity import Identity
from mnemic.state.settings import OFFLINE

ChatSession = Annotated[str | None, typer.Option("--session", help="Go on with this conversation; default: a new one.")]


async def chat(agent: Agent, user: User, group: Groups = None, session: ChatSession = None) -> None:
    """Talk with an agent that remembers. /quit, or the end of input, ends it; Ctrl-C stops an answer.

    What you say is formed after each turn, and what becomes of the memory is shown as it happens.
    """
    named = f"chat-{datetime.now(UTC):%Y%m%d-%H%M%S}-{uuid4().hex[:4]}" if session is None else session
    who = identity(agent, user, group, named)
    async with Mnemic.open() as memory:
        answers = (await memory.agent_settings(who)).model_for("agent")
        say(f"{memory.describe()}; answers: {OFFLINE_LABEL if answers == OFFLINE else answers}")
        if session is None:
            say(f"to go on with this conversation later: {_command(who)}")
        async with Talk.begin(memory, who) as talk:
            await talk.hold()


def _command(who: Identity) -> str:
    groups = [word for group in who.group_ids for word in ("--group", group)]
    words = ["--agent", who.agent_id, "--user", str(who.user_id), *groups, "--session", str(who.session_id)]
    return shlex.join(["mnemic", "chat", *words])
