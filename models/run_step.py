"""The one place where it is decided which model does a step, a turn of one or an answer, and where none does."""

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Generic, NamedTuple

from langchain_core.messages import BaseMessage, HumanMessage, SystemMessage

from mnemic.models.answers import Flaw
from mnemic.models.chat import HIDDEN, ChatModels
from mnemic.models.converse import Spoken, converse
from mnemic.models.step import In, Out, Step, ToolStep
from mnemic.models.structured import structured
from mnemic.models.tool_calls import tool_turn
from mnemic.state.records import Usage
from mnemic.state.refinement import Turn

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel
    from langchain_core.tools import BaseTool

    from mnemic.models.offline.chat import OfflineChat


class StepResult(NamedTuple, Generic[Out]):
    """What a step answered and what it cost."""

    output: Out
    usage: Usage


class TurnResult(NamedTuple):
    """What a model did in its turn and what that cost."""

    turn: Turn
    usage: Usage


async def run_step(
    step: Step[In, Out], step_input: In, models: ChatModels, check: Callable[[Out], Flaw | None] | None = None
) -> StepResult[Out]:
    """Does a step with the model of its tier, or by its rule where there is none.

    A configured model that fails is never replaced by the rule.

    Args:
        check: as `structured`; a rule is not checked, for asking it again changes nothing.

    Raises:
        ModelError: no usable answer came over the wire; the message names the kind of failure.
        ModelOutputError: the answer stayed unusable after one repair, or the provider refused the request itself.
        ConfigurationError: the tier's model cannot be made.
    """
    model, spent = await _of_tier(step, models)
    if model is None:
        # a fifth of a second for a full batch, which an event loop must not stand still for
        return StepResult(output=await asyncio.to_thread(step.offline, step_input), usage=spent)
    output, usage = await structured(
        model,
        step.output,
        _prompt(step, step_input),
        schema=step.schema(step_input) if step.schema else None,
        method=models.method,
        spent=spent,
        check=check,
    )
    return StepResult(output=output, usage=usage)


async def run_turn(
    step: ToolStep[In], step_input: In, turns: Sequence[Turn], tools: Sequence["BaseTool"], models: ChatModels
) -> TurnResult:
    """The next turn of a step that calls tools, with the model of its tier, or by its rule where there is none.

    The tools are shown to the model, not called. What `tool_turn` says of answers and failures holds here.

    Args:
        turns: the earlier ones, with the answers to their calls.

    Raises:
        ModelError: no answer came over the wire; the message names the kind of failure.
        ModelOutputError: the provider refused the request itself.
        ConfigurationError: the tier's model cannot be made, or takes no tools.
    """
    model, spent = await _of_tier(step, models)
    if model is None:
        # a second for 350 memories, which an event loop must not stand still for
        return TurnResult(turn=await asyncio.to_thread(step.offline, step_input), usage=spent)
    turn, usage = await tool_turn(model, _prompt(step, step_input), turns, tools, spent=spent)
    return TurnResult(turn=turn, usage=usage)


async def run_answer(
    messages: Sequence[BaseMessage], tools: Sequence["BaseTool"], models: ChatModels, subagent: str | None = None
) -> Spoken:
    """The agent's next message in a conversation, by its model, or by the offline rules where there is none.

    What `converse` says of answers and failures holds here.

    Args:
        messages: the conversation.
        tools: what the model may call.
        models: the agent's own.
        subagent: as whom it speaks, under whose name its tokens are recorded and whose words no host shows; None: as
            the agent.

    Raises:
        ModelError: no answer came over the wire; the message names the kind of failure.
        ModelOutputError: the provider refused the request, or there is nothing to show or do in the answer.
        ConfigurationError: the model cannot be made, or takes no tools.
    """
    spent = Usage(step=subagent or "converse", model=models.name("agent"))
    model = await asyncio.to_thread(models.get, "agent", shown=subagent is None)
    if model is None:
        rules = (await asyncio.to_thread(_offline_chat))(**(HIDDEN if subagent else {})).bind_tools(tools)
        return Spoken(message=await rules.ainvoke(list(messages)), usage=spent)
    return await converse(model, messages, tools, spent=spent)


def _offline_chat() -> "type[OfflineChat]":
    from mnemic.models.offline.chat import OfflineChat  # 30 ms that few processes need

    return OfflineChat


async def _of_tier(step: Step[Any, Any] | ToolStep[Any], models: ChatModels) -> "tuple[BaseChatModel | None, Usage]":
    """The model of the step's tier, and the account of what it will have cost."""
    return await asyncio.to_thread(models.get, step.tier), Usage(step=step.name, model=models.name(step.tier))


def _prompt(step: Step[In, Any] | ToolStep[In], step_input: In) -> list[BaseMessage]:
    system, user = step.prompt.render(**step.variables(step_input))
    return [SystemMessage(system), HumanMessage(user)]
