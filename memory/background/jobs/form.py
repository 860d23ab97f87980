"""Forms the sessions that have turned cold, as the identity with which they were observed last."""

from datetime import datetime

from mnemic.memory.background.work import MAX_TARGETS, Job, Work
from mnemic.memory.messages.turn import run_formation
from mnemic.memory.runtime.identity import session_of
from mnemic.state.background import Target
from mnemic.state.identity import Identity, split_scope_key
from mnemic.storage import background
from mnemic.storage.background import ObservedSession


async def find_due(work: Work, now: datetime) -> list[Target]:
    """Return the sessions that have turned cold or have enough messages pending."""
    resources = work.resources
    return await background.due_targets(
        resources.database,
        "due_sessions",
        MAX_TARGETS,
        now=now,
        cold_minutes=resources.settings.session_cold_minutes,
        messages=resources.settings.formation_messages,
    )


async def session_of_target(work: Work, target: Target) -> ObservedSession | None:
    """Return the session as it was observed last, or None if there is no such session."""
    session_id = split_scope_key(target.scope_key)[1]
    reader = Identity(agent_id=target.agent_id, session_id=session_id)
    async with work.resources.database.transaction(reader) as tx:
        return await background.read_session(tx, session_id, work.resources.settings)


async def run(work: Work, target: Target) -> bool:
    """Form the due messages of the session; return whether they wait for another run or after a failure."""
    session = await session_of_target(work, target)
    if session is None:
        return False
    resources, identity = work.resources, session.identity
    is_due, is_empty = True, False
    while is_due and not is_empty:
        formed = await run_formation(resources, identity, {})
        if formed["waits"]:
            return True
        is_due, is_empty = formed["reason"] is not None, formed["pending"] == 0
    # messages that are not due yet, or came meanwhile, keep the session in the sweep
    if session.is_cold or is_empty:
        async with resources.database.transaction(identity) as tx:
            await background.rest_session(tx, session_of(identity), session.last_activity_at)
    return False


# formation itself sets messages aside that it cannot form
JOB = Job(name="form", run=run, find_due=find_due, gives_up=False, calls_models=True)
