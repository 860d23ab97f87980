"""Runs a step and notes what it cost."""

import logging

from mnemic.models.run_step import run_step
from mnemic.models.step import In, Out, Step
from mnemic.nodes.resources import Resources
from mnemic.state.errors import ConcurrentChangeError, DatabaseUnavailableError, ModelError
from mnemic.state.identity import Identity
from mnemic.state.records import Usage
from mnemic.storage import usage

_LOG = logging.getLogger("mnemic")


async def perform(resources: Resources, identity: Identity, step: Step[In, Out], step_input: In) -> Out:
    """The step's answer. No connection is held while the model works; its tokens are recorded afterwards.

    A paid answer is not lost for the record of its price: where that cannot be written, a warning says so.

    Raises:
        ModelError: the model failed; nothing was written but what it had cost.
    """
    try:
        result = await run_step(step, step_input, resources.models)
    except ModelError as error:
        await _record(resources, identity, error.spent)
        raise
    await _record(resources, identity, result.usage)
    return result.output


async def _record(resources: Resources, identity: Identity, spent: Usage | None) -> None:
    if spent is None or not spent.calls:
        return
    try:
        await resources.database.write(identity, lambda scoped: usage.record(scoped, spent))
    except (DatabaseUnavailableError, ConcurrentChangeError) as error:
        _LOG.warning("the tokens of step %s are missing from its agent's usage: %s", spent.step, error)
