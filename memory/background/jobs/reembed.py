"""Goes on with moves to another embedder that a command has begun."""

from datetime import datetime

from mnemic.memory.background.reembedding import move_agent, name_of_target
from mnemic.memory.background.work import MAX_TARGETS, Job, Work
from mnemic.state.background import Target
from mnemic.storage import background


async def find_due(work: Work, now: datetime) -> list[Target]:
    """Return the agents that move to the embedder of this process."""
    resources = work.resources
    return await background.due_targets(
        resources.database, "due_reembeddings", MAX_TARGETS, now=now, model=resources.embedder.name
    )


async def run(work: Work, target: Target) -> None:
    """Embed the remaining entries of an agent, and switch it if no other process embeds some."""
    await move_agent(work.resources, target.agent_id, await name_of_target(work.resources))


JOB = Job(name="reembed", run=run, find_due=find_due)
