"""Forms the sessions that have turned cold, as the identity with which they were observed last."""

from datetime import datetime

from mnemic.memory.background.work import MAX_TARGETS, Job, Work
from mnemic.operations.run.identity import session_of
from mnemic.operations.turn import form_pending
from mnemic.state.background import Target
from mnemic.state.identity import Identity, split_scope_key
from mnemic.storage import background


async def find_due(work: Work, now: datetime) -> list[Target]:
    """Return the sessions that have turned cold or have enough messages pending."""
    resources = work.resources
    return await background.due_sessions(resources.database, resources.settings, now, MAX_TARGETS)


async def session_of_target(work: Work, target: Target) -> tuple[Identity, datetime] | None:
    """Return the identity with which the session was observed last, and when; None if there is no such session."""
    session_id = split_scope_key(target.scope_key)[1]
    reader = Identity(agent_id=target.agent_id, session_id=session_id)
    async with work.resources.database.scoped(reader) as tx:
        return await background.session_identity(tx, session_id)


async def run(work: Work, target: Target) -> bool:
    """Form what the session has pending and due; return whether that waits for another run or after a failure."""
    found = await session_of_target(work, target)
    if found is None:
        return False
    resources, (identity, last_activity_at) = work.resources, found
    runs = await form_pending(resources, work.graphs.formation, identity, force=False, retry=False)
    if any(run["waits"] for run in runs):
        return True
    async with resources.database.scoped(identity) as tx:
        await background.rest_session(tx, session_of(identity), last_activity_at)
    return False


# what cannot be formed is set aside by the formation itself
JOB = Job(name="form", run=run, find_due=find_due, gives_up=False, asks_models=True)
