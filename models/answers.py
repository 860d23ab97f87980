"""Send one request to a model: raise typed failures without content, and count tokens and price."""

import asyncio
import json
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any, Generic, NamedTuple, TypeVar, cast

from langchain_core.messages import AIMessage, BaseMessage, InvalidToolCall
from langchain_core.messages.tool import invalid_tool_call
from langchain_core.runnables import Runnable
from pydantic import ValidationError

from mnemic.models.chat import Call
from mnemic.models.failures import failure_of, retry_policy, stated
from mnemic.prompts.repair import BROKEN, CUT, FILTERED, REFUSED, ValidationIssue
from mnemic.state.errors import ModelError, ModelOutputError
from mnemic.state.graphs import StepUsage
from mnemic.state.kinds import Usage
from mnemic.state.model_settings import ModelPrice

#: The longest right answer, 25 facts with everything, has about 10 KiB.
MAX_ANSWER_BYTES = 64 * 1024
#: A model caught in a loop repeats itself: JSON of real sentences shrinks 3 to 6 times, 200 decisions without a
#: sentence 18 times, a loop 37 times and more.
DEGENERATE_RATIO = 30
DEGENERATE_FROM_BYTES = 2000
#: No call has more tokens; beyond it, and below 0, a server counts something else.
MAX_TOKENS = 100_000_000
_MILLION = 1_000_000
#: Replaces an answer that the client does not hand out: it had tool calls, and none of them can be read.
_LOST = AIMessage("", invalid_tool_calls=[invalid_tool_call()])
Bound = Runnable[Any, Any]
Answer = TypeVar("Answer")


class StepResult(NamedTuple, Generic[Answer]):
    """Answer of a step, of one turn or of a chat model, with its usage."""

    output: Answer
    usage: Usage


async def ask(  # noqa: PLR0913 - one request with its limits and its errors
    call: Call,
    bound: Bound,
    messages: Sequence[BaseMessage],
    spent: Usage,
    *,
    left: str,
    check: str,
    begun: Callable[[], bool] = lambda: False,
) -> tuple[AIMessage, ValidationIssue | None, Usage]:
    """Return the answer, its flaw if it is not complete, and `spent` with this call added.

    A temporary failure is tried again, up to three requests in all, until the deadline.

    Args:
        call: the tier's model and its limits.
        bound: the same model, bound to the output schema or the tools.
        messages: the request.
        spent: usage of the work before this call.
        left: the state of the work if the request fails, for the error message.
        check: advice for the error message if the provider refuses every request.
        begun: returns whether a part of the answer has been shown; then no second request follows.

    Raises:
        ModelError: if no answer arrived; the message names the kind of failure and the remedy.
        ModelOutputError: if the provider refused the request itself.
    """
    import openai  # imported only when a model is in use

    try:
        with call.noted():
            async with asyncio.timeout(call.deadline):
                answer: AIMessage = await retry_policy(call.endpoint, begun)(bound.ainvoke, list(messages))
    except openai.LengthFinishReasonError as error:
        usage = error.completion.usage
        tokens = (usage.prompt_tokens, usage.completion_tokens, 0) if usage else None
        return _LOST, CUT, _counted(spent, tokens)
    except openai.ContentFilterFinishReasonError:
        return _LOST, FILTERED, _counted(spent, None)
    except ValidationError as error:
        return *_calls_of(error), _counted(spent, None)
    except RecursionError:  # arguments of a call that are nested without end
        return _LOST, BROKEN, _counted(spent, None)
    except Exception as error:  # noqa: BLE001 - every provider has errors of its own, and no code of ours runs in there
        failure = failure_of(error, call.endpoint)
    else:
        return answer, _stopped(answer), _counted(spent, _tokens(answer))
    # Raised outside the handler: the provider's error may quote the request and must not be chained.
    if failure.is_refused:
        raise ModelOutputError(
            f"{spent.model} refused this request for {spent.step}: {stated(failure)}; {left}. {check} "
            "if every request is refused",
            spent=spent,
        )
    raise ModelError(f"{spent.model} could not be used for {spent.step}: {stated(failure)}; {left}", spent=spent)


def is_unreasonable(answer: bytes) -> bool:
    """Return whether an answer is far too long, or repeats itself."""
    if len(answer) > MAX_ANSWER_BYTES:
        return True
    return len(answer) >= DEGENERATE_FROM_BYTES and len(zlib.compress(answer, 1)) * DEGENERATE_RATIO < len(answer)


def _calls_of(error: ValidationError) -> tuple[AIMessage, ValidationIssue | None]:
    """Return the calls that langchain-core refused because their arguments are a text, a list or already an object."""
    calls: list[InvalidToolCall] = []
    for problem in error.errors(include_url=False):
        if problem["loc"][-1:] == ("args",):
            arguments = problem["input"]
            text = arguments if isinstance(arguments, str) else json.dumps(arguments)
            calls.append(invalid_tool_call(args=text))
    if not calls:
        return _LOST, BROKEN
    return AIMessage("", invalid_tool_calls=calls), None


def _tokens(answer: AIMessage) -> tuple[int, int, int] | None:
    """Return input, output and cached input tokens; None if the provider reported none."""
    reported = answer.usage_metadata
    if not reported:
        return None
    cached = reported.get("input_token_details", {}).get("cache_read") or 0
    return reported["input_tokens"], reported["output_tokens"], cached


def _counted(spent: Usage, tokens: tuple[int, int, int] | None) -> Usage:
    if tokens is None or not all(0 <= number <= MAX_TOKENS for number in tokens):
        return replace(spent, calls=spent.calls + 1, unreported_calls=spent.unreported_calls + 1)
    input_tokens, output_tokens, cached = tokens
    return replace(
        spent,
        calls=spent.calls + 1,
        input_tokens=spent.input_tokens + input_tokens,
        cached_tokens=spent.cached_tokens + cached,
        output_tokens=spent.output_tokens + output_tokens,
    )


def _stopped(answer: AIMessage) -> ValidationIssue | None:
    if answer.additional_kwargs.get("refusal") or _has_refusal_block(answer):
        return REFUSED
    reason = answer.response_metadata.get("finish_reason") or answer.response_metadata.get("stop_reason")
    if reason in ("length", "max_tokens"):
        return CUT
    if reason == "content_filter":
        return FILTERED
    return None


def _has_refusal_block(answer: AIMessage) -> bool:
    if not isinstance(answer.content, list):
        return False
    return any(isinstance(block, dict) and block.get("type") == "refusal" for block in answer.content)


def cost_of(usage: Usage, prices: Mapping[str, ModelPrice]) -> float | None:
    """Return US dollars, or None without a price of the model, or if not all tokens were reported."""
    price = prices.get(usage.model)
    if price is None or usage.unreported_calls:
        return None
    cached = min(usage.cached_tokens, usage.input_tokens)
    cached_price = price.input if price.cached is None else price.cached
    fresh = usage.input_tokens - cached
    return (fresh * price.input + cached * cached_price + usage.output_tokens * price.output) / _MILLION


def spent_on(usage: Usage, prices: Mapping[str, ModelPrice]) -> list[StepUsage]:
    """Return a step's calls as the result of a run lists them; nothing without a call."""
    if not usage.calls:
        return []
    return [cast(StepUsage, {**asdict(usage), "cost": cost_of(usage, prices)})]


def total_cost(costs: Iterable[float | None]) -> float | None:
    """Return the sum, or None if a cost is missing."""
    total = 0.0
    for cost in costs:
        if cost is None:
            return None
        total += cost
    return total
