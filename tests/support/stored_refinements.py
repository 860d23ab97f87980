"""Refinements as the service's own role stores them, without an agent and a graph around."""

from collections.abc import Awaitable, Callable
from uuid import uuid4

from mnemic.state.identity import Identity
from mnemic.storage import refinements
from mnemic.storage.database import Database, Scoped
from mnemic.storage.refinements import Claim

Act = Callable[[Scoped], Awaitable[object]]


def new(key: str = "user:ana") -> Claim:
    """One that nobody has begun."""
    return Claim(id=uuid4(), scope_key=key, holder=uuid4())


async def begun(db: Database, who: Identity, key: str = "user:ana", *, seconds: int = 60) -> Claim:
    """One that runs, held for so long."""
    claim = new(key)
    async with db.scoped(who, only=key) as scoped:
        await scoped.begin_operation("refinement")
        await refinements.begin(scoped, claim, await refinements.ledger(scoped), target=10, seconds=seconds)
    return claim


async def taken_over(db: Database, who: Identity, claim: Claim) -> Claim:
    """The same session as another run resumes it; who had it cannot take it back."""
    resumed = claim._replace(holder=uuid4())
    async with db.scoped(who, only=claim.scope_key) as scoped:
        assert await refinements.take_over(scoped, resumed, seconds=60)
        assert not await refinements.take_over(scoped, claim, seconds=60)
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


def in_a_session(key: str, act: Act) -> Act:
    """The act inside one that begins and ends in the same transaction, for tests that are about something else."""

    async def acts(scoped: Scoped) -> None:
        claim = new(key)
        await refinements.begin(scoped, claim, [], target=1, seconds=60)
        await refinements.begin_act(scoped, claim, "update")
        await act(scoped)
        await refinements.finish(scoped, claim, "completed", [], {}, None)

    return acts
