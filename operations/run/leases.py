"""Leases of runs: whose they are, and how one is given back where its run fails."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from uuid import UUID, uuid4

from langgraph.runtime import Runtime

from mnemic.operations.run.identity import session_of
from mnemic.operations.run.resources import Resources
from mnemic.state.errors import ConcurrentChangeError, InvalidInputError, MnemicError, ModelOutputError
from mnemic.state.graphs import Lease
from mnemic.state.identity import Identity, scope_key
from mnemic.storage import leases
from mnemic.storage.leases import Failure


@asynccontextmanager
async def release_lease_on_error(resources: Resources, identity: Identity, lease: Lease) -> AsyncIterator[None]:
    """Give the lease back if the block fails or is cancelled. A killed run's lease expires."""
    try:
        yield
    except (Exception, asyncio.CancelledError, KeyboardInterrupt, SystemExit) as error:
        # shielded: some hosts cancel again what still runs in a cancelled task
        await asyncio.shield(give_back(resources, identity, lease, _failure_of(error)))
        raise


def _failure_of(error: BaseException) -> Failure:
    """Return whether the same work will fail again, may succeed at once, or later."""
    if isinstance(error, ConcurrentChangeError) or not isinstance(error, Exception):
        return "interrupted"
    if isinstance(error, ModelOutputError | InvalidInputError) or not isinstance(error, MnemicError):
        return "unusable"  # an unexpected error, too, comes from what this run has read
    return "unavailable"


async def give_back(resources: Resources, identity: Identity, lease: Lease, failure: Failure) -> None:
    """Ends the lease with the wait the failure asks for; where the database is away, it expires by itself."""
    with suppress(MnemicError):  # the failure itself is what the caller must see
        await resources.database.write(
            identity, lambda scoped: leases.give_back(scoped, lease, resources.settings, failure)
        )


def formation_lease(identity: Identity, holder: UUID, *, retry: bool = False) -> Lease:
    """The lease on a session: on what is fresh there, or on what was set aside."""
    return Lease("retry" if retry else "formation", scope_key("session", session_of(identity)), holder)


def holder_of(runtime: Runtime[Identity]) -> UUID:
    """Who takes a lease: the run by its own id, where the host gave one that is a UUID."""
    info = runtime.execution_info
    with suppress(ValueError):
        return UUID(info.run_id if info and info.run_id else "")
    return uuid4()
