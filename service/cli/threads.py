"""`mnemic threads`: the conversations of a person with an agent, so that one can be found again."""

import shlex
from collections.abc import Sequence
from datetime import UTC

from rich.text import Text

from mnemic.service.cli.options import Agent, AsJson, User, identity
from mnemic.service.cli.terminal import columns, emit, plain, say, show
from mnemic.service.memory import Mnemic
from mnemic.state.threads import ThreadStanding


async def threads(agent: Agent, user: User, as_json: AsJson = False) -> None:
    """List the conversations of a person with an agent, the one that moved last first; nothing of what was said."""
    async with Mnemic.open() as memory:
        found = await memory.threads(identity(agent, user))
    if as_json:
        emit(found)
    elif found:
        _list(found)
        go_on = ["mnemic", "chat", "--agent", agent, "--user", user, "--session", found[0].thread_id]
        say(f"to go on with the latest: {shlex.join(go_on)}")
    else:
        say("no conversations")


def _list(found: Sequence[ThreadStanding]) -> None:
    table = columns("last moved (UTC)", "conversation", "began", "steps", "next")
    for one in found:
        moved, began = (
            moment.astimezone(UTC).strftime("%Y-%m-%d %H:%M") for moment in (one.updated_at, one.created_at)
        )
        steps = "?" if one.step is None else str(one.step + 1)  # the first one is -1
        table.add_row(moved, plain(one.thread_id), began, steps, Text(", ".join(one.next)))
    show(table)
