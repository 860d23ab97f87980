"""Draws insights about users with new facts or episodes, at most once in 24 hours for each."""

from datetime import datetime

from mnemic.memory.background.insights import draw_insights
from mnemic.memory.background.work import MAX_TARGETS, Job, Work
from mnemic.state.background import Target
from mnemic.state.model_settings import OFFLINE
from mnemic.storage import background


async def find_due(work: Work, now: datetime) -> list[Target]:
    """Return the users with due insights; none without a model."""
    settings = work.resources.settings
    if settings.model_for("fast") == OFFLINE:
        return []
    database = work.resources.database
    return await background.due_targets(database, "due_insights", MAX_TARGETS, now=now, default=settings.insights)


async def run(work: Work, target: Target) -> None:
    """Draw the insights that are due about the user."""
    await draw_insights(work.resources, target)


#: `find_due` reads all users' newest facts and episodes.
JOB = Job(name="insights", run=run, find_due=find_due, interval_minutes=15, calls_models=True)
