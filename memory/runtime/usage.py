"""Usage of models by an agent: recorded after each answer, and summed by day."""

import logging
from collections.abc import Awaitable
from dataclasses import replace
from datetime import date
from functools import partial

from mnemic.memory.runtime.identity import log_ids
from mnemic.memory.runtime.resources import Resources
from mnemic.models.answers import Answer, StepResult, cost_of
from mnemic.state.errors import ConcurrentChangeError, DatabaseUnavailableError, ModelError
from mnemic.state.identity import Identity
from mnemic.state.kinds import DailyUsage, Usage
from mnemic.storage import scopes

_LOG = logging.getLogger("mnemic")


async def track_usage(
    resources: Resources, identity: Identity, running: Awaitable[StepResult[Answer]]
) -> StepResult[Answer]:
    """Return the answer of a model, and record its usage. No connection is held while the model works.

    If the usage cannot be recorded, a warning is logged and the answer is returned.

    Args:
        resources: Resources of the process.
        identity: Identity of the run.
        running: `run_step`, `run_turn` or `run_answer`, not yet awaited.

    Raises:
        ModelError: if the model failed; its usage is recorded.
    """
    try:
        result = await running
    except ModelError as error:
        await _record(resources, identity, error.spent)
        raise
    await _record(resources, identity, result.usage)
    return result


async def _record(resources: Resources, identity: Identity, spent: Usage | None) -> None:
    if spent is None or not spent.calls:
        return

    try:
        await resources.database.write_agent_row(identity.agent_id, partial(scopes.record_usage, usage=spent))
    except (DatabaseUnavailableError, ConcurrentChangeError) as error:
        text = "Could not record the tokens of step %s of agent %s: %s"
        _LOG.warning(text, spent.step, identity.agent_id, error, extra=log_ids(identity))


async def daily_usage(
    resources: Resources, identity: Identity, since: date | None, before: date | None
) -> list[DailyUsage]:
    """Return the agent's usage by day, step and model, the last day first, with its cost by the current prices."""
    async with resources.database.transaction(identity) as tx:
        days = await scopes.daily_usage(tx, since, before)
    prices = resources.settings.model_prices
    return [replace(usage, cost=cost_of(usage, prices)) for usage in days]
