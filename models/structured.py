"""Structured output that survives what models and their clients do wrong: one repair, then a typed failure."""

import inspect
import json
import zlib
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.runnables import Runnable, RunnableSequence
from pydantic import ValidationError
from pydantic_core import ErrorDetails

from mnemic.models.failures import failure_kind, refuses_request
from mnemic.models.step import Out
from mnemic.prompts import repair
from mnemic.state.errors import ConfigurationError, ModelError, ModelOutputError
from mnemic.state.records import Usage

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel  # 30 ms that the offline rules never need

#: The longest right answer, 25 facts with everything, has about 10 KiB.
MAX_ANSWER_BYTES = 64 * 1024
#: A model caught in a loop repeats itself: JSON of real sentences shrinks 3 to 6 times, 200 decisions without a
#: sentence 18 times, a loop 37 times and more.
DEGENERATE_RATIO = 30
DEGENERATE_FROM_BYTES = 2000
#: No call has more tokens; beyond it, and below 0, a server counts something else.
MAX_TOKENS = 100_000_000
#: Schema problems named in the repair; more of them say nothing new.
MAX_NAMED_PROBLEMS = 5

Bound = Runnable[Any, Any]


class _Flaw(NamedTuple):
    """Why an answer cannot be used."""

    #: For errors and logs: nothing of the answer is in it.
    kind: str
    #: What the model is told; goes back to that model only.
    advice: str


_BROKEN = _Flaw(kind="broken JSON", advice=repair.BROKEN)
_EMPTY = _Flaw(kind="an empty answer", advice=repair.EMPTY)
_REFUSED = _Flaw(kind="a refusal", advice=repair.REFUSED)
_CUT = _Flaw(kind="cut off at the output limit", advice=repair.CUT)
_FILTERED = _Flaw(kind="stopped by the content filter", advice=repair.FILTERED)
_UNREASONABLE = _Flaw(kind="far too long, or one thing repeated", advice=repair.UNREASONABLE)


async def structured(
    model: "BaseChatModel",
    output: type[Out],
    messages: Sequence[BaseMessage],
    *,
    schema: dict[str, Any] | None = None,
    method: Literal["json_schema", "function_calling"],
    spent: Usage,
) -> tuple[Out, Usage]:
    """The model's answer as `output`, and `spent` with the tokens of its one or two calls added.

    Args:
        schema: what the model is held to, where that is narrower than what `output` takes.

    Raises:
        ModelError: no answer came over the wire; the message names the kind of failure.
        ModelOutputError: the answer stayed unusable after one repair, or the provider refused the request itself.
        ConfigurationError: the model's provider has no structured output.
    """
    bound = _bind(model, schema or output.model_json_schema(), method)
    result, spent = await _attempt(bound, messages, output, spent)
    if isinstance(result, _Flaw):
        again = [*messages, HumanMessage(repair.repair(result.advice))]
        result, spent = await _attempt(bound, again, output, spent)
    if isinstance(result, _Flaw):
        problem = f"{spent.model} gave no usable answer for {spent.step}, twice: {result.kind}"
        raise ModelOutputError(problem, spent=spent)
    return result, spent


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
    bound: Bound, messages: Sequence[BaseMessage], output: type[Out], spent: Usage
) -> tuple[Out | _Flaw, Usage]:
    answer, input_tokens, output_tokens = await _ask(bound, messages, spent)
    spent = replace(
        spent,
        calls=spent.calls + 1,
        input_tokens=spent.input_tokens + _plausible(input_tokens),
        output_tokens=spent.output_tokens + _plausible(output_tokens),
    )
    return (answer if isinstance(answer, _Flaw) else _read(answer, output)), spent


def _plausible(tokens: int) -> int:
    return tokens if 0 <= tokens <= MAX_TOKENS else 0


async def _ask(bound: Bound, messages: Sequence[BaseMessage], spent: Usage) -> tuple[AIMessage | _Flaw, int, int]:
    """The answer, or what was wrong with it, with the tokens in and out."""
    import openai  # only ever asked for once a model is in use

    try:
        answer: AIMessage = await bound.ainvoke(list(messages))
    except openai.LengthFinishReasonError as error:
        usage = error.completion.usage
        return _CUT, usage.prompt_tokens if usage else 0, usage.completion_tokens if usage else 0
    except openai.ContentFilterFinishReasonError:
        return _FILTERED, 0, 0
    except (ValidationError, RecursionError):
        return _BROKEN, 0, 0  # a tool call whose arguments are no object, or nested without end
    except Exception as error:  # noqa: BLE001 - every provider has errors of its own, and no code of ours runs in there
        is_refused, problem = refuses_request(error), failure_kind(error)
    else:
        tokens = answer.usage_metadata
        return answer, tokens["input_tokens"] if tokens else 0, tokens["output_tokens"] if tokens else 0
    # Raised out here so that the provider's error, which may quote what was sent, is not chained to it.
    if is_refused:
        raise ModelOutputError(
            f"{spent.model} refused this request for {spent.step}: {problem}; the messages stay pending. A wrong model "
            "or way of structured output looks the same: check MNEMIC_STRUCTURED_OUTPUT if every request is refused",
            spent=spent,
        )
    raise ModelError(
        f"{spent.model} could not be used for {spent.step}: {problem}; the messages stay pending", spent=spent
    )


def _read(answer: AIMessage, output: type[Out]) -> Out | _Flaw:
    if flaw := _stopped(answer):
        return flaw
    text = _answer_text(answer)
    if not text.strip():
        return _EMPTY
    if _is_unreasonable(text.encode(errors="replace")):
        return _UNREASONABLE
    try:
        return output.model_validate_json(text)
    except ValidationError as error:
        return _violation(error)


def _stopped(answer: AIMessage) -> _Flaw | None:
    """What kept the model from answering in full, if anything did."""
    reason = answer.response_metadata.get("finish_reason") or answer.response_metadata.get("stop_reason")
    blocks = answer.content if isinstance(answer.content, list) else []
    if answer.additional_kwargs.get("refusal") or any(
        isinstance(block, dict) and block.get("type") == "refusal" for block in blocks
    ):
        return _REFUSED
    if reason in ("length", "max_tokens"):
        return _CUT
    return _FILTERED if reason == "content_filter" else None


def _answer_text(answer: AIMessage) -> str:
    if answer.tool_calls:
        return json.dumps(answer.tool_calls[0]["args"])
    if answer.invalid_tool_calls:
        return answer.invalid_tool_calls[0]["args"] or ""
    return str(answer.text)


def _is_unreasonable(answer: bytes) -> bool:
    if len(answer) > MAX_ANSWER_BYTES:
        return True
    return len(answer) >= DEGENERATE_FROM_BYTES and len(zlib.compress(answer, 1)) * DEGENERATE_RATIO < len(answer)


def _violation(error: ValidationError) -> _Flaw:
    problems = error.errors(include_url=False, include_context=False, include_input=False)
    if any(problem["type"] == "json_invalid" for problem in problems):
        return _BROKEN
    named = [f"{_place(problem)}: {problem['msg']}" for problem in problems[:MAX_NAMED_PROBLEMS]]
    return _Flaw(kind="it broke the schema", advice=repair.broke_schema(named))


def _place(problem: ErrorDetails) -> str:
    """Where the schema was broken; the name of a field that it has not is the answer's own and stays out."""
    known = problem["loc"][:-1] if problem["type"] == "extra_forbidden" else problem["loc"]
    return ".".join(map(str, known)) or "the answer"
