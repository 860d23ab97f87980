"""Acts of a refinement, for tests that are about something else."""

from collections.abc import Awaitable, Callable
from uuid import uuid4

from mnemic.storage import refinements
from mnemic.storage.database import Scoped
from mnemic.storage.refinements import Session

Act = Callable[[Scoped], Awaitable[object]]


def in_a_session(key: str, act: Act) -> Act:
    """The act inside a session that begins and ends in the same operation."""

    async def acts(scoped: Scoped) -> None:
        session = Session(id=uuid4(), scope_key=key, holder=uuid4())
        await refinements.begin(scoped, session, [], target=1, seconds=60)
        await scoped.execute("select set_config('mnemic.refinement_id', %(id)s, true)", {"id": str(session.id)})
        await act(scoped)
        await refinements.finish(scoped, session, "completed", [], {}, None)

    return acts
