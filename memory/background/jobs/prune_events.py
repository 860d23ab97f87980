"""Deletes events that are older than `events_days`."""

from datetime import UTC, datetime, timedelta
from functools import partial

from mnemic.memory.background.work import MAX_TARGETS, Job, Work
from mnemic.state.background import Target
from mnemic.state.identity import Identity
from mnemic.storage import background, events

#: Maximum number of events that one transaction deletes.
_BATCH_SIZE = 5000


async def find_due(work: Work, now: datetime) -> list[Target]:
    """Return the agents that have events older than `events_days`."""
    before = _oldest(work, now)
    return await background.due_targets(work.resources.database, "due_event_prunes", MAX_TARGETS, before=before)


async def run(work: Work, target: Target) -> None:
    """Delete the agent's old events, a bounded number in each transaction."""
    prune = partial(events.prune_events, before=_oldest(work, datetime.now(UTC)), limit=_BATCH_SIZE)
    identity = Identity(agent_id=target.agent_id)
    while await work.resources.database.write(identity, prune) == _BATCH_SIZE:
        continue


def _oldest(work: Work, now: datetime) -> datetime:
    return now - timedelta(days=work.resources.settings.events_days)


JOB = Job(name="prune_events", run=run, find_due=find_due, interval_minutes=60)
