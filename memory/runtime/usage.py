"""What models cost an agent: recorded after each answer, and added up."""

import logging
from collections.abc import Awaitable
from dataclasses import replace
from datetime import date

from mnemic.memory.runtime.resources import Resources
from mnemic.models.answers import Answer, StepResult
from mnemic.models.prices import cost_of
from mnemic.state.errors import ConcurrentChangeError, DatabaseUnavailableError, ModelError
from mnemic.state.identity import Identity
from mnemic.state.kinds import DailyUsage, Usage
from mnemic.storage import scopes
from mnemic.storage.transaction import ScopedTransaction

_LOG = logging.getLogger("mnemic")


async def track_usage(
    resources: Resources, identity: Identity, running: Awaitable[StepResult[Answer]]
) -> StepResult[Answer]:
    """What a model answers, to a step or as an agent. No connection is held meanwhile; its tokens are recorded then.

    A paid answer is not lost for the record of its price: where that cannot be written, a warning says so.

    Args:
        running: `run_step`, `run_turn` or `run_answer`, not yet awaited.

    Raises:
        ModelError: the model failed; nothing was written but what it had cost.
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

    async def act(scoped: ScopedTransaction) -> None:
        await scopes.ensure_agent(scoped)  # its first turn may come before its first message is stored
        await scopes.record_usage(scoped, spent)

    try:
        await resources.database.write(identity, act)
    except (DatabaseUnavailableError, ConcurrentChangeError) as error:
        _LOG.warning("the tokens of step %s are missing from its agent's usage: %s", spent.step, error)


async def daily_usage(
    resources: Resources, identity: Identity, since: date | None, before: date | None
) -> list[DailyUsage]:
    """What the agent has used, by day, step and model, the last day first, with what it costs by today's prices."""
    async with resources.database.transaction(identity) as scoped:
        found = await scopes.daily_usage(scoped, since, before)
    return [replace(used, cost=cost_of(used, resources.settings.model_prices)) for used in found]
