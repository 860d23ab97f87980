"""Leases: one run at a time on a session or a scope key, and the wait after a failure, by the database's clock.

A lease saves model calls and nothing else: who outlives his lease finds at his save that others were faster.
"""

from typing import Literal

from mnemic.state.graphs import Lease, Waits
from mnemic.state.settings import Settings
from mnemic.storage.transaction import ScopedTransaction, load_statements

_SQL = load_statements("leases")

#: `unusable`: the answer, or what was made of it; waits, and counts as a try. `unavailable`: somebody is away; waits.
#: `interrupted`: nobody's failure; the next run may begin at once.
Failure = Literal["unusable", "unavailable", "interrupted"]


async def claim(tx: ScopedTransaction, lease: Lease, settings: Settings, *, forced: bool) -> int | None:
    """Takes the work up.

    Returns:
        How many runs on it brought nothing usable so far; None where somebody holds it, or it waits and nobody insists.
    """
    values = {**lease._asdict(), "seconds": settings.lease_seconds, "forced": forced}
    claimed = await tx.tuples(_SQL["claim"], values)
    return int(claimed[0][0]) if claimed else None


async def renew(tx: ScopedTransaction, lease: Lease, settings: Settings) -> bool:
    """Holds the work for as long again; False where the lease has passed to somebody else, or has expired."""
    return bool(await tx.tuples(_SQL["renew"], {**lease._asdict(), "seconds": settings.lease_seconds}))


async def blocked_by(tx: ScopedTransaction, lease: Lease) -> Waits:
    """Why a claim was refused."""
    return "backoff" if (True,) in await tx.tuples(_SQL["blocked_by"], lease._asdict()) else "leased"


async def reset_attempts(tx: ScopedTransaction, lease: Lease) -> None:
    """Counts the tries of a held lease anew, for other messages than those that failed."""
    await tx.execute(_SQL["reset_attempts"], lease._asdict())


async def finish(tx: ScopedTransaction, lease: Lease) -> None:
    """Ends a lease whose work is done; nothing happens where it has passed to somebody else."""
    await tx.execute(_SQL["finish"], lease._asdict())


async def release(tx: ScopedTransaction, lease: Lease, settings: Settings, failure: Failure) -> None:
    """Ends a lease whose work was not done, with the wait that the failure asks for."""
    values = {
        **lease._asdict(),
        "attempts": 1 if failure == "unusable" else 0,
        "failures": 0 if failure == "interrupted" else 1,
        "first_wait": settings.retry_seconds,
        "longest_wait": settings.max_retry_seconds,
    }
    await tx.execute(_SQL["release"], values)
