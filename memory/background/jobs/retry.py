"""Forms the messages that a formation has set aside. Only a command wakes it."""

from mnemic.memory.background.jobs.form import session_of_target
from mnemic.memory.background.work import Job, Work
from mnemic.memory.messages.turn import form_pending
from mnemic.state.background import Target


async def run(work: Work, target: Target) -> None:
    """Form what was set aside in the session."""
    found = await session_of_target(work, target)
    if found is not None:
        await form_pending(work.resources, work.graphs.formation, found.identity, force=False, retry=True)


# a command is not held by the daily token budget, so `asks_models` is off
JOB = Job(name="retry", run=run, gives_up=False)
