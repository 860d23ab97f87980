"""A tenant's daily token budget: it stops background work with models, and no call of a host."""

import logging

from mnemic.memory.runtime.resources import Resources
from mnemic.state.errors import BudgetSpentError
from mnemic.storage.events import tenant_tokens

_LOG = logging.getLogger("mnemic")


async def require_tokens(resources: Resources, agent_id: str) -> None:
    """Refuse background work if the agent's tenant has used the tokens of the day. The log has one warning a day.

    Work that has begun is finished, so that a tenant may use more, by one run of each job that is under way.

    Raises:
        BudgetSpentError: The tokens are used up.
        DatabaseUnavailableError: The database cannot be reached.
    """
    limit = resources.settings.tenant_daily_tokens
    if limit is None:
        return
    used = await tenant_tokens(resources.database, agent_id=agent_id)
    if used.tokens < limit:
        return
    if resources.budget_warnings.get(used.tenant_id) != used.next_day.date():
        resources.budget_warnings[used.tenant_id] = used.next_day.date()
        text = "Tenant %s has used %d of %d tokens today: background work with models waits until %s."
        _LOG.warning(
            text, used.tenant_id, used.tokens, limit, used.next_day.isoformat(), extra={"tenant_id": used.tenant_id}
        )
    raise BudgetSpentError(used.next_day)
