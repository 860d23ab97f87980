"""The one place where a model is called for a step."""

import asyncio
from typing import Generic, NamedTuple

from langchain_core.messages import HumanMessage, SystemMessage

from mnemic.models.chat import ChatModels
from mnemic.models.step import In, Out, Step
from mnemic.models.structured import structured
from mnemic.state.records import Usage


class StepResult(NamedTuple, Generic[Out]):
    """What a step answered and what it cost."""

    output: Out
    usage: Usage


async def run_step(step: Step[In, Out], step_input: In, models: ChatModels) -> StepResult[Out]:
    """Does a step with the model of its tier, or by its rule where there is none.

    A configured model that fails is never replaced by the rule.

    Raises:
        ModelError: no usable answer came over the wire; the message names the kind of failure.
        ModelOutputError: the answer stayed unusable after one repair, or the provider refused the request itself.
        ConfigurationError: the tier's model cannot be made.
    """
    spent = Usage(step=step.name, model=models.name(step.tier))
    model = await asyncio.to_thread(models.get, step.tier)
    if model is None:
        return StepResult(output=step.offline(step_input), usage=spent)
    system, user = step.prompt.render(**step.variables(step_input))
    output, usage = await structured(
        model,
        step.output,
        [SystemMessage(system), HumanMessage(user)],
        schema=step.schema(step_input) if step.schema else None,
        method=models.method,
        spent=spent,
    )
    return StepResult(output=output, usage=usage)
