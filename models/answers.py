"""Asks a model, whatever form its answer takes: typed failures with nothing of the content in them, and the price."""

import asyncio
import json
import zlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Generic, NamedTuple, TypeVar

from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.messages.tool import invalid_tool_call
from langchain_core.runnables import Runnable
from pydantic import ValidationError

from mnemic.models.chat import Call
from mnemic.models.failures import failure_of, stated, tries
from mnemic.prompts.repair import BROKEN, CUT, FILTERED, REFUSED, Flaw
from mnemic.state.errors import ModelError, ModelOutputError
from mnemic.state.kinds import Usage

#: The longest right answer, 25 facts with everything, has about 10 KiB.
MAX_ANSWER_BYTES = 64 * 1024
#: A model caught in a loop repeats itself: JSON of real sentences shrinks 3 to 6 times, 200 decisions without a
#: sentence 18 times, a loop 37 times and more.
DEGENERATE_RATIO = 30
DEGENERATE_FROM_BYTES = 2000
#: No call has more tokens; beyond it, and below 0, a server counts something else.
MAX_TOKENS = 100_000_000
#: Stands for what a client keeps to itself: there were calls, and not one can be told from the others.
_LOST = AIMessage("", invalid_tool_calls=[invalid_tool_call()])
Bound = Runnable[Any, Any]
Answer = TypeVar("Answer")


class StepResult(NamedTuple, Generic[Answer]):
    """What a step, a turn of one or a chat model answered, and what it cost."""

    output: Answer
    usage: Usage


async def ask(
    call: Call,
    bound: Bound,
    messages: Sequence[BaseMessage],
    spent: Usage,
    *,
    left: str,
    check: str,
    begun: Callable[[], bool] = lambda: False,
) -> tuple[AIMessage, Flaw | None, Usage]:
    """The answer, what kept the model from giving it in full, if anything did, and `spent` with this call added.

    What passes by itself is asked for again, up to three times in all, until the deadline.

    Args:
        call: whom is asked.
        bound: its model, told what to answer.
        messages: the request.
        spent: what the work has cost so far.
        left: what becomes of the work where the request fails, for its error.
        check: what else makes a provider refuse every request.
        begun: whether a part of the answer has been shown, so that no second one may follow.

    Raises:
        ModelError: no answer came over the wire; the message names the kind of failure and what to do.
        ModelOutputError: the provider refused the request itself.
    """
    import openai  # only ever asked for once a model is in use

    try:
        with call.noted():
            async with asyncio.timeout(call.deadline):
                answer: AIMessage = await tries(call.endpoint, begun)(bound.ainvoke, list(messages))
    except openai.LengthFinishReasonError as error:
        usage = error.completion.usage
        return _LOST, CUT, _counted(spent, (usage.prompt_tokens, usage.completion_tokens, 0) if usage else None)
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
    # Raised out here so that the provider's error, which may quote what was sent, is not chained to it.
    if failure.is_refused:
        raise ModelOutputError(
            f"{spent.model} refused this request for {spent.step}: {stated(failure)}; {left}. {check} "
            "if every request is refused",
            spent=spent,
        )
    raise ModelError(f"{spent.model} could not be used for {spent.step}: {stated(failure)}; {left}", spent=spent)


def is_unreasonable(answer: bytes) -> bool:
    """Whether this is far too long, or one thing repeated."""
    if len(answer) > MAX_ANSWER_BYTES:
        return True
    return len(answer) >= DEGENERATE_FROM_BYTES and len(zlib.compress(answer, 1)) * DEGENERATE_RATIO < len(answer)


def _calls_of(error: ValidationError) -> tuple[AIMessage, Flaw | None]:
    """Return the calls that langchain-core refused because their arguments are a text, a list or already an object."""
    refused = [row["input"] for row in error.errors(include_url=False) if row["loc"][-1:] == ("args",)]
    texts = [given if isinstance(given, str) else json.dumps(given) for given in refused]
    calls = [invalid_tool_call(args=text) for text in texts]
    return (AIMessage("", invalid_tool_calls=calls), None) if calls else (_LOST, BROKEN)


def _tokens(answer: AIMessage) -> tuple[int, int, int] | None:
    """In, out, and of those in what the provider had in its cache; None where nobody told."""
    told = answer.usage_metadata
    if not told:
        return None
    return told["input_tokens"], told["output_tokens"], told.get("input_token_details", {}).get("cache_read") or 0


def _counted(spent: Usage, tokens: tuple[int, int, int] | None) -> Usage:
    is_told = tokens is not None and all(0 <= number <= MAX_TOKENS for number in tokens)
    input_tokens, output_tokens, cached = tokens if tokens and is_told else (0, 0, 0)
    return replace(
        spent,
        calls=spent.calls + 1,
        untold=spent.untold + (not is_told),
        input_tokens=spent.input_tokens + input_tokens,
        cached_tokens=spent.cached_tokens + cached,
        output_tokens=spent.output_tokens + output_tokens,
    )


def _stopped(answer: AIMessage) -> Flaw | None:
    reason = answer.response_metadata.get("finish_reason") or answer.response_metadata.get("stop_reason")
    blocks = answer.content if isinstance(answer.content, list) else []
    if answer.additional_kwargs.get("refusal") or any(
        isinstance(block, dict) and block.get("type") == "refusal" for block in blocks
    ):
        return REFUSED
    if reason in ("length", "max_tokens"):
        return CUT
    return FILTERED if reason == "content_filter" else None
