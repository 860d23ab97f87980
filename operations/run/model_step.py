"""Runs a step and notes what it cost."""

import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING

from langchain_core.messages import AIMessage, BaseMessage

from mnemic.models.answers import Answer, StepResult
from mnemic.models.chat import ChatModels
from mnemic.models.structured import Record, run_step
from mnemic.models.tool_calls import run_answer, run_turn
from mnemic.operations.run.resources import Resources
from mnemic.prompts.loader import In, Step
from mnemic.prompts.refine import RefineInput
from mnemic.prompts.repair import Flaw
from mnemic.state.errors import ConcurrentChangeError, DatabaseUnavailableError, ModelError
from mnemic.state.identity import Identity
from mnemic.state.kinds import Usage
from mnemic.state.refinement import Turn
from mnemic.state.settings import Settings
from mnemic.storage import scopes
from mnemic.storage.transaction import ScopedTransaction

if TYPE_CHECKING:
    from langchain_core.tools import BaseTool

_LOG = logging.getLogger("mnemic")


async def run_step_metered(
    resources: Resources,
    identity: Identity,
    step: Step[In, Record],
    step_input: In,
    check: Callable[[Record], Flaw | None] | None = None,
) -> Record:
    """The step's answer. No connection is held while the model works; its tokens are recorded afterwards.

    A paid answer is not lost for the record of its price: where that cannot be written, a warning says so.

    Args:
        check: as `run_step`.

    Raises:
        ModelError: the model failed; nothing was written but what it had cost.
    """
    return (await _recorded(resources, identity, run_step(step, step_input, resources.models, check))).output


async def run_turn_metered(
    resources: Resources,
    identity: Identity,
    step_input: RefineInput,
    tools: Sequence["BaseTool"],
    models: ChatModels,
) -> tuple[Turn, int]:
    """The next turn of a refinement, and the tokens it cost; otherwise as `run_step_metered`.

    Args:
        models: the agent's own.

    Raises:
        ModelError: the model failed; nothing was written but what it had cost.
    """
    result = await _recorded(resources, identity, run_turn(step_input, tools, models))
    return result.output, result.usage.input_tokens + result.usage.output_tokens


async def agent_models(resources: Resources, identity: Identity) -> tuple[Settings, ChatModels]:
    """The settings that hold for the identity's agent, and the models they name."""
    async with resources.database.scoped(identity) as scoped:
        settings = resources.settings.overridden(await scopes.agent_settings(scoped))
    return settings, resources.models.with_settings(settings)


async def run_answer_metered(
    resources: Resources,
    identity: Identity,
    models: ChatModels,
    tools: Sequence["BaseTool"],
    messages: Sequence[BaseMessage],
    subagent: str | None = None,
) -> AIMessage:
    """The agent's next message in a conversation; otherwise as `run_step_metered`.

    Args:
        models: the agent's own.
        subagent: as `run_answer`.

    Raises:
        ModelError: the model failed; nothing was written but what it had cost.
    """
    return (await _recorded(resources, identity, run_answer(messages, tools, models, subagent))).output


async def _recorded(
    resources: Resources, identity: Identity, running: Awaitable[StepResult[Answer]]
) -> StepResult[Answer]:
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
        await scopes.enter_agent(scoped)  # its first turn may come before its first message is stored
        await scopes.record_usage(scoped, spent)

    try:
        await resources.database.write(identity, act)
    except (DatabaseUnavailableError, ConcurrentChangeError) as error:
        _LOG.warning("the tokens of step %s are missing from its agent's usage: %s", spent.step, error)
