"""Forms the messages that a formation has set aside. Only a command wakes it."""

from mnemic.memory.background.jobs.form import session_of_target
from mnemic.memory.background.work import Job, Work
from mnemic.memory.messages.turn import form_pending
from mnemic.state.background import Target


async def run(work: Work, target: Target) -> None:
    """Form the messages that were set aside in the session."""
    session = await session_of_target(work, target)
    if session is not None:
        await form_pending(work.resources, session.identity, {"retry": True})


# the daily token budget does not hold back a command
JOB = Job(name="retry", run=run, gives_up=False)
