"""Refinements as the service's own role stores them, without an agent and a graph around."""

from collections.abc import Awaitable, Callable
from uuid import uuid4

from mnemic.state.identity import Identity
from mnemic.state.settings import Settings
from mnemic.storage import leases, refinements
from mnemic.storage.database import Database
from mnemic.storage.refinements import Claim
from mnemic.storage.transaction import ScopedTransaction

Act = Callable[[ScopedTransaction], Awaitable[object]]


def new(key: str = "user:ana") -> Claim:
    """One that nobody has begun."""
    return Claim(id=uuid4(), scope_key=key, holder=uuid4())


async def begun(db: Database, who: Identity, key: str = "user:ana", *, seconds: int = 60) -> Claim:
    """One that runs, held for so long."""
    claim = new(key)
    async with db.scoped(who, only=key) as scoped:
        await scoped.begin_operation("refinement")
        await take_up(scoped, claim, seconds=seconds)
        await refinements.begin(scoped, claim, await refinements.ledger(scoped), target=10)
    return claim


async def take_up(scoped: ScopedTransaction, claim: Claim, *, seconds: int = 60) -> bool:
    """Takes the lease of its scope key, where nobody holds it."""
    return await leases.claim(scoped, claim.lease, Settings(lease_seconds=seconds), forced=True) is not None


async def taken_over(db: Database, who: Identity, claim: Claim) -> Claim:
    """The same session as another run resumes it; who had it cannot take it back."""
    resumed = claim._replace(holder=uuid4())
    async with db.scoped(who, only=claim.scope_key) as scoped:
        assert await take_up(scoped, resumed)
        assert not await take_up(scoped, claim)
    return resumed


async def within(db: Database, who: Identity, claim: Claim, *acts: Act, reason: str = "update") -> None:
    """One operation of it."""
    async with db.scoped(who, only=claim.scope_key) as scoped:
        await refinements.begin_act(scoped, claim, reason)
        for act in acts:
            await act(scoped)


async def ended(db: Database, who: Identity, claim: Claim) -> None:
    """It is over."""
    async with db.scoped(who, only=claim.scope_key) as scoped:
        await refinements.begin_act(scoped, claim, "refinement")
        await refinements.finish(scoped, claim, "completed", await refinements.ledger(scoped), {}, None)


def in_a_session(
    key: str, act: Act, *, before: Callable[[ScopedTransaction, Claim], Awaitable[object]] | None = None
) -> Act:
    """The act inside one that begins and ends in the same transaction, after what is to be done with it before."""

    async def acts(scoped: ScopedTransaction) -> None:
        claim = new(key)
        await take_up(scoped, claim)
        await refinements.begin(scoped, claim, [], target=1)
        await refinements.begin_act(scoped, claim, "update")
        if before:
            await before(scoped, claim)
        await act(scoped)
        await refinements.finish(scoped, claim, "completed", [], {}, None)

    return acts
