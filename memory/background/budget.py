"""The daily token budget of a tenant, as background jobs hold it."""

from mnemic.memory.background.work import Work
from mnemic.memory.runtime.budget import require_tokens


async def require_budget(work: Work, agent_id: str) -> None:
    """Refuse a job that calls models if the tenant of its agent has used the tokens of the day.

    Raises:
        BudgetSpentError: if the tokens are used up.
        DatabaseUnavailableError: if the database cannot be reached.
    """
    await require_tokens(work.resources, agent_id)
