"""Steps with structured output: it survives what models and clients do wrong, by one repair, or is a typed failure."""

import asyncio
import inspect
import json
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.runnables import RunnableSequence
from pydantic import ValidationError
from pydantic_core import ErrorDetails

from mnemic.models.answers import (
    BROKEN,
    EMPTY,
    UNREASONABLE,
    Aftermath,
    Bound,
    Flaw,
    ask,
    is_unreasonable,
    stopped,
)
from mnemic.models.chat import ChatModels
from mnemic.models.steps import In, Out, Step, StepResult, prompt_of
from mnemic.prompts import repair
from mnemic.state.errors import ConfigurationError, ModelOutputError
from mnemic.state.kinds import Usage

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel  # 30 ms that the offline rules never need; a test holds it

#: Schema problems named in the repair; more of them say nothing new.
MAX_NAMED_PROBLEMS = 5

_AFTERMATH = Aftermath(
    left="the messages stay pending",
    check="A wrong model or way of structured output looks the same: check MNEMIC_STRUCTURED_OUTPUT",
)


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
    model, spent = await models.for_call(step.tier, step.name)
    if model is None:
        # a tenth of a second for a full batch, which an event loop must not stand still for
        return StepResult(output=await asyncio.to_thread(step.offline, step_input), usage=spent)
    return await structured(
        model,
        step.output,
        prompt_of(step, step_input),
        schema=step.schema(step_input) if step.schema else None,
        method=models.method,
        spent=spent,
        check=check,
    )


async def structured(
    model: "BaseChatModel",
    output: type[Out],
    messages: Sequence[BaseMessage],
    *,
    schema: dict[str, Any] | None = None,
    method: Literal["json_schema", "function_calling"],
    spent: Usage,
    check: Callable[[Out], Flaw | None] | None = None,
) -> StepResult[Out]:
    """The model's answer as `output`, and `spent` with the tokens of its one or two calls added.

    Args:
        schema: what the model is held to, where that is narrower than what `output` takes.
        check: finds what no schema tells of an answer; its flaw is repaired and raised like any other.

    Raises:
        ModelError: no answer came over the wire; the message names the kind of failure.
        ModelOutputError: the answer stayed unusable after one repair, or the provider refused the request itself.
        ConfigurationError: the model's provider has no structured output.
    """
    bound = _bind(model, schema or output.model_json_schema(), method)
    result, spent = await _attempt(bound, messages, output, spent, check)
    if isinstance(result, Flaw):
        again = [*messages, HumanMessage(repair.repair(result.advice))]
        result, spent = await _attempt(bound, again, output, spent, check)
    if isinstance(result, Flaw):
        problem = f"{spent.model} gave no usable answer for {spent.step}, twice: {result.kind}"
        raise ModelOutputError(problem, spent=spent)
    return StepResult(output=result, usage=spent)


def _bind(model: "BaseChatModel", schema: dict[str, Any], method: str) -> Bound:
    """The model told what to answer, without its provider's parser.

    Those parsers differ in what they let pass (half a JSON object, an empty one), quote the answer in their errors and
    lose the usage. A schema as a dict keeps the OpenAI client from parsing too.
    """
    takes_strict = "strict" in inspect.signature(model.with_structured_output).parameters
    options: dict[str, Any] = {"strict": True} if takes_strict and method == "json_schema" else {}
    try:
        chain = model.with_structured_output(schema, method=method, **options)
    except (NotImplementedError, ValueError) as error:
        raise ConfigurationError(
            f"{type(model).__name__} has no structured output by {method}; try MNEMIC_STRUCTURED_OUTPUT"
        ) from error
    if not isinstance(chain, RunnableSequence):
        raise ConfigurationError(f"{type(model).__name__} has no structured output that can be read")
    return chain.first


async def _attempt(
    bound: Bound,
    messages: Sequence[BaseMessage],
    output: type[Out],
    spent: Usage,
    check: Callable[[Out], Flaw | None] | None,
) -> tuple[Out | Flaw, Usage]:
    answer, spent = await ask(bound, messages, spent, _AFTERMATH)
    result = answer if isinstance(answer, Flaw) else _read(answer, output)
    if isinstance(result, Flaw) or check is None:
        return result, spent
    return check(result) or result, spent


def _read(answer: AIMessage, output: type[Out]) -> Out | Flaw:
    if flaw := stopped(answer):
        return flaw
    text = _answer_text(answer)
    if not text.strip():
        return EMPTY
    if is_unreasonable(text.encode(errors="replace")):
        return UNREASONABLE
    try:
        return output.model_validate_json(text)
    except ValidationError as error:
        return _violation(error)


def _answer_text(answer: AIMessage) -> str:
    if answer.tool_calls:
        return json.dumps(answer.tool_calls[0]["args"])
    if answer.invalid_tool_calls:
        return answer.invalid_tool_calls[0]["args"] or ""
    return str(answer.text)


def _violation(error: ValidationError) -> Flaw:
    problems = error.errors(include_url=False, include_context=False, include_input=False)
    if any(problem["type"] == "json_invalid" for problem in problems):
        return BROKEN
    named = [f"{_place(problem)}: {problem['msg']}" for problem in problems[:MAX_NAMED_PROBLEMS]]
    return Flaw(kind="it broke the schema", advice=repair.broke_schema(named))


def _place(problem: ErrorDetails) -> str:
    """Where the schema was broken; the name of a field that it has not is the answer's own and stays out."""
    known = problem["loc"][:-1] if problem["type"] == "extra_forbidden" else problem["loc"]
    return ".".join(map(str, known)) or "the answer"
