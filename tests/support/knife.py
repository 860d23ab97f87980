"""Refinement sessions as the service's own role holds them, without a graph around."""

from collections.abc import Awaitable, Callable
from uuid import uuid4

from mnemic.state.identity import Identity
from mnemic.storage import refinements
from mnemic.storage.database import Database, Scoped
from mnemic.storage.refinements import Session


async def begun(db: Database, who: Identity, key: str = "user:ana") -> Session:
    """A session that runs, held for a minute."""
    session = Session(id=uuid4(), scope_key=key, holder=uuid4())
    async with db.scoped(who, only=key) as scoped:
        await scoped.begin_operation("refinement")
        await refinements.begin(scoped, session, await refinements.ledger(scoped), target=10, seconds=60)
    return session


async def within(
    db: Database, who: Identity, session: Session, *acts: Callable[[Scoped], Awaitable[object]], reason: str = "update"
) -> None:
    """One operation of the session."""
    async with db.scoped(who, only=session.scope_key) as scoped:
        await refinements.begin_knife(scoped, session, reason)
        for act in acts:
            await act(scoped)


async def ended(db: Database, who: Identity, session: Session) -> None:
    """The session is over."""
    async with db.scoped(who, only=session.scope_key) as scoped:
        await refinements.begin_knife(scoped, session, "refinement")
        await refinements.finish(scoped, session, "completed", await refinements.ledger(scoped), {}, None)
