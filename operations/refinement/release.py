"""How a session that breaks off is left to be resumed, wherever its run fails or is cancelled."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from contextvars import ContextVar
from typing import Any

from langgraph.runtime import Runtime

from mnemic.operations.refinement.session import Refining, refining_of
from mnemic.operations.run.node_types import RefinementNode
from mnemic.operations.run.resources import Provider
from mnemic.state.errors import MnemicError
from mnemic.state.graphs import RefinementState
from mnemic.state.identity import Identity
from mnemic.storage import refinements
from mnemic.storage.database import Scoped


def held(provide: Provider, node: RefinementNode) -> RefinementNode:
    """The node, leaving the session to be resumed where it fails or is cancelled."""

    async def run(state: RefinementState, runtime: Runtime[Identity]) -> RefinementState:
        async with let_go(await refining_of(provide, state, runtime)):
            return await node(state, runtime)

    return run


@asynccontextmanager
async def let_go(refining: Refining) -> AsyncIterator[None]:
    """Lets others resume the session where the block fails or is cancelled; a killed run's is free after its lease."""
    try:
        yield
    except (MnemicError, asyncio.CancelledError):
        await asyncio.shield(_release(refining))
        raise


async def _release(refining: Refining) -> None:
    async def act(scoped: Scoped) -> Any:
        await refinements.release(scoped, refining.claim)

    with suppress(MnemicError):  # the failure itself is what the caller must see
        await refining.write(act)


#: What a call's run takes up: a cancellation between two nodes reaches neither, nor `let_go`.
_taken: ContextVar[list[Refining] | None] = ContextVar("taken", default=None)


def note_taken(refining: Refining) -> None:
    """Tells a surrounding `letting_go` what its run holds, or will where the transaction is committed."""
    taken = _taken.get()
    if taken is not None:
        taken.append(refining)


@asynccontextmanager
async def letting_go() -> AsyncIterator[None]:
    """Leaves the session of a run within it to be resumed where that is cancelled, at any point of it."""
    taken: list[Refining] = []
    token = _taken.set(taken)
    try:
        yield
    except asyncio.CancelledError:
        await asyncio.shield(asyncio.gather(*map(_release, taken)))
        raise
    finally:
        _taken.reset(token)
