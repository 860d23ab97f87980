"""Leases: one run at a time on a session or a scope key, and the pause after a failure, by the database's clock.

A lease only saves model calls. A run whose lease has expired fails its version check on save.
"""

from typing import Literal

from mnemic.state.graphs import Lease, Waits
from mnemic.state.settings import Settings
from mnemic.storage.transaction import ScopedTransaction, load_statements

_SQL = load_statements("leases")

#: `unusable`: the answer could not be used; the work pauses, and the attempt counts. `unavailable`: a service is down;
#: the work pauses. `interrupted`: nothing failed; the next run may begin at once.
Failure = Literal["unusable", "unavailable", "interrupted"]


async def claim(tx: ScopedTransaction, lease: Lease, settings: Settings, *, forced: bool) -> int | None:
    """Claim the work.

    Returns:
        The number of failed attempts; None if another run holds the work, or if it pauses and the claim is not forced.
    """
    values = {**lease._asdict(), "seconds": settings.lease_seconds, "forced": forced}
    claimed = await tx.tuples(_SQL["claim"], values)
    return int(claimed[0][0]) if claimed else None


async def renew(tx: ScopedTransaction, lease: Lease, settings: Settings) -> bool:
    """Hold the work for as long again; return False if the lease has expired or another run has it."""
    return bool(await tx.tuples(_SQL["renew"], {**lease._asdict(), "seconds": settings.lease_seconds}))


async def blocked_by(tx: ScopedTransaction, lease: Lease) -> Waits:
    """Return the reason for which a claim was refused."""
    rows = await tx.tuples(_SQL["blocked_by"], lease._asdict())
    if (True,) in rows:
        return "backoff"
    return "leased"


async def reset_attempts(tx: ScopedTransaction, lease: Lease) -> None:
    """Reset the number of attempts of a held lease, for other messages than those that failed."""
    await tx.execute(_SQL["reset_attempts"], lease._asdict())


async def finish(tx: ScopedTransaction, lease: Lease) -> None:
    """End a lease whose work is done; do nothing if another run has it."""
    await tx.execute(_SQL["finish"], lease._asdict())


async def release(tx: ScopedTransaction, lease: Lease, settings: Settings, failure: Failure) -> None:
    """End a lease whose work is not done, with the pause that belongs to the failure."""
    values = {
        **lease._asdict(),
        "attempts": int(failure == "unusable"),
        "failures": int(failure != "interrupted"),
        "first_wait": settings.retry_seconds,
        "longest_wait": settings.max_retry_seconds,
    }
    await tx.execute(_SQL["release"], values)
