"""How a session that breaks off is left to be resumed, wherever its run fails or is cancelled."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from contextvars import ContextVar

from langgraph.runtime import Runtime

from mnemic.operations.refinement.session import RefinementSession, refinement_session
from mnemic.operations.run.graph import RefinementNode
from mnemic.operations.run.resources import Provider
from mnemic.state.errors import MnemicError
from mnemic.state.identity import Identity
from mnemic.state.refinement import RefinementState
from mnemic.storage import refinements
from mnemic.storage.database import Scoped


def with_session(provide: Provider, node: RefinementNode) -> RefinementNode:
    """The node, leaving the session to be resumed where it fails or is cancelled."""

    async def run(state: RefinementState, runtime: Runtime[Identity]) -> RefinementState:
        async with release_on_error(await refinement_session(provide, state, runtime)):
            return await node(state, runtime)

    return run


@asynccontextmanager
async def release_on_error(session: RefinementSession) -> AsyncIterator[None]:
    """Lets others resume the session where the block fails or is cancelled; a killed run's is free after its lease."""
    try:
        yield
    except (MnemicError, asyncio.CancelledError):
        await asyncio.shield(_release(session))
        raise


async def _release(session: RefinementSession) -> None:
    async def act(scoped: Scoped) -> None:
        await refinements.release(scoped, session.claim)

    with suppress(MnemicError):  # the failure itself is what the caller must see
        await session.write(act)


#: What a call's run takes up: a cancellation between two nodes reaches neither, nor `release_on_error`.
_taken: ContextVar[list[RefinementSession] | None] = ContextVar("taken", default=None)


def note_session(session: RefinementSession) -> None:
    """Tells a surrounding `release_on_cancel` what its run holds, or will where the transaction is committed."""
    taken = _taken.get()
    if taken is not None:
        taken.append(session)


@asynccontextmanager
async def release_on_cancel() -> AsyncIterator[None]:
    """Leaves the session of a run within it to be resumed where that is cancelled, at any point of it."""
    taken: list[RefinementSession] = []
    token = _taken.set(taken)
    try:
        yield
    except asyncio.CancelledError:
        await asyncio.shield(asyncio.gather(*map(_release, taken)))
        raise
    finally:
        _taken.reset(token)
