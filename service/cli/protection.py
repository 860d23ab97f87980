"""`mnemic protect` and `mnemic unprotect`: what no agent changes, merges or takes away."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Annotated
from uuid import UUID

import typer

from mnemic.service.cli.options import ADMINISTRATOR, Actor, Agent, AsJson
from mnemic.service.cli.output import emit, plain, say, show
from mnemic.service.cli.running import EXIT_FOUND_WRONG
from mnemic.service.governance.administration import Administration
from mnemic.state.errors import UnknownMemoryError

MemoryIds = Annotated[list[UUID], typer.Argument(metavar="ID", help="As `mnemic memories` or `as-of` prints them.")]


async def protect(memory_ids: MemoryIds, agent: Agent, actor: Actor = ADMINISTRATOR, as_json: AsJson = False) -> None:
    """Protect memories, as administrator: no agent changes, merges or forgets them; exit code 1 on an unknown id."""
    async with Administration.open(actor=actor) as administration:
        changed, missing = await _each(administration.protect, agent, memory_ids)
    _tell("protected", changed, missing, as_json=as_json)


async def unprotect(memory_ids: MemoryIds, agent: Agent, actor: Actor = ADMINISTRATOR, as_json: AsJson = False) -> None:
    """Lift the protection of memories, as administrator; the exit code is 1 where one of the ids is unknown."""
    async with Administration.open(actor=actor) as administration:
        changed, missing = await _each(administration.unprotect, agent, memory_ids)
    _tell("unprotected", changed, missing, as_json=as_json)


async def _each(
    act: Callable[[str, UUID], Awaitable[bool]], agent: str, memory_ids: Sequence[UUID]
) -> tuple[list[UUID], list[UUID]]:
    """Which were changed, each an operation of its own, and which do not live."""
    changed, missing = [], []
    for memory_id in dict.fromkeys(memory_ids):
        try:
            changed += [memory_id] if await act(agent, memory_id) else []
        except UnknownMemoryError:
            missing.append(memory_id)
    return changed, missing


def _tell(done: str, changed: Sequence[UUID], missing: Sequence[UUID], *, as_json: bool) -> None:
    if as_json:
        emit({done: changed})
    else:
        memories = "1 memory" if len(changed) == 1 else f"{len(changed)} memories"
        show(*(plain(memory_id) for memory_id in changed), plain(f"{done}: {memories}"))
    if missing:
        say(f"no living memory of this agent: {' '.join(map(str, missing))}")
        raise typer.Exit(EXIT_FOUND_WRONG)
