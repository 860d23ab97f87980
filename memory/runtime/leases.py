"""Leases of runs: their holders, and their release if a run fails."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from uuid import UUID, uuid4

from langgraph.runtime import Runtime

from mnemic.memory.runtime.identity import session_of
from mnemic.memory.runtime.resources import Resources
from mnemic.state.errors import ConcurrentChangeError, InvalidInputError, MnemicError, ModelOutputError
from mnemic.state.graphs import Lease
from mnemic.state.identity import Identity, scope_key
from mnemic.state.kinds import LeasedWork
from mnemic.storage import leases
from mnemic.storage.leases import Failure


@asynccontextmanager
async def release_lease_on_error(resources: Resources, identity: Identity, lease: Lease) -> AsyncIterator[None]:
    """Release the lease if the block fails or is cancelled. The lease of a killed run expires."""
    try:
        yield
    except (Exception, asyncio.CancelledError, KeyboardInterrupt, SystemExit) as error:
        # shielded: some hosts cancel again while a cancelled task ends
        await asyncio.shield(release_lease(resources, identity, lease, _failure_of(error)))
        raise


def _failure_of(error: BaseException) -> Failure:
    """Return whether the same work will fail again, may succeed at once, or may succeed later."""
    if isinstance(error, ConcurrentChangeError) or not isinstance(error, Exception):
        return "interrupted"
    if isinstance(error, ModelOutputError | InvalidInputError) or not isinstance(error, MnemicError):
        return "unusable"  # an unexpected error, too, comes from this run's input
    return "unavailable"


async def release_lease(resources: Resources, identity: Identity, lease: Lease, failure: Failure) -> None:
    """End the lease with the pause after this failure; without the database it expires by itself."""
    with suppress(MnemicError):  # the caller must see the first failure
        await resources.database.write(identity, lambda tx: leases.release(tx, lease, resources.settings, failure))


def formation_lease(identity: Identity, holder: UUID, *, retry: bool = False) -> Lease:
    """Return the lease on a session: on its pending messages, or on its quarantined ones for a retry."""
    work: LeasedWork = "retry" if retry else "formation"
    return Lease(work, scope_key("session", session_of(identity)), holder)


def holder_of(runtime: Runtime[Identity]) -> UUID:
    """Return the holder of a lease: the run's id if the host gave a UUID, or a new id."""
    info = runtime.execution_info
    if info and info.run_id:
        with suppress(ValueError):
            return UUID(info.run_id)
    return uuid4()
