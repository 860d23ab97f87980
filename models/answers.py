"""Asks a model, whatever form its answer takes: typed failures with nothing of the content in them, and the price."""

import re
import zlib
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Generic, NamedTuple, TypeVar

from langchain_core import exceptions as provider
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.messages.tool import invalid_tool_call
from langchain_core.runnables import Runnable
from pydantic import ValidationError

from mnemic.policy.text.words import word_set
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
#: What an error is called, by the exceptions of langchain-core and Python or by its HTTP status: the first that fits.
_KINDS: tuple[tuple[str, tuple[type[Exception], ...], int], ...] = (
    ("rate limit", (provider.ModelRateLimitError,), 429),
    ("timeout", (provider.ModelTimeoutError, TimeoutError), 408),
    ("no connection", (provider.ModelConnectionError, OSError), 0),
    ("server error", (provider.ModelAPIError,), 0),
    ("key refused", (provider.ModelAuthenticationError,), 401),
    ("permission denied", (provider.ModelPermissionDeniedError,), 403),
    ("unknown model", (provider.ModelNotFoundError,), 404),
    ("input too long", (provider.ContextOverflowError,), 413),
    ("request refused", (provider.ModelInvalidRequestError,), 0),
    # what clients raise at an answer that is not of the protocol: a page of HTML, no choices
    ("an answer that is not of the protocol", (TypeError, ValueError, AttributeError, LookupError), 0),
)
#: A provider's error code is repeated only if it is a bare word, such as insufficient_quota.
_CODE = re.compile(r"[a-z][a-z0-9_.-]{0,63}", re.IGNORECASE)
#: What was sent is at fault, and not who sent it or when: too long for most servers is a plain 400.
_REFUSED = frozenset({400, 413, 422})
#: Codes of providers that say so under another status.
_CONTENT_CODES = word_set(
    "content_filter content_policy_violation context_length_exceeded invalid_prompt string_above_max_length"
)

Bound = Runnable[Any, Any]
Answer = TypeVar("Answer")


class StepResult(NamedTuple, Generic[Answer]):
    """What a step, a turn of one or a chat model answered, and what it cost."""

    output: Answer
    usage: Usage


async def ask(
    bound: Bound, messages: Sequence[BaseMessage], spent: Usage, *, left: str, check: str
) -> tuple[AIMessage, Flaw | None, Usage]:
    """The answer, what kept the model from giving it in full, if anything did, and `spent` with this call added.

    Args:
        left: what becomes of the work where the request fails, for its error.
        check: what else makes a provider refuse every request.

    Raises:
        ModelError: no answer came over the wire; the message names the kind of failure.
        ModelOutputError: the provider refused the request itself.
    """
    import openai  # only ever asked for once a model is in use

    try:
        answer: AIMessage = await bound.ainvoke(list(messages))
    except openai.LengthFinishReasonError as error:
        usage = error.completion.usage
        return _LOST, CUT, _counted(spent, *((usage.prompt_tokens, usage.completion_tokens) if usage else (0, 0)))
    except openai.ContentFilterFinishReasonError:
        return _LOST, FILTERED, _counted(spent, 0, 0)
    except (ValidationError, RecursionError):
        return _LOST, BROKEN, _counted(spent, 0, 0)  # a tool call whose arguments are no object, or nested without end
    except Exception as error:  # noqa: BLE001 - every provider has errors of its own, and no code of ours runs in there
        is_refused, problem = refuses_request(error), failure_kind(error)
    else:
        tokens = answer.usage_metadata
        used = (tokens["input_tokens"], tokens["output_tokens"]) if tokens else (0, 0)
        return answer, _stopped(answer), _counted(spent, *used)
    # Raised out here so that the provider's error, which may quote what was sent, is not chained to it.
    if is_refused:
        raise ModelOutputError(
            f"{spent.model} refused this request for {spent.step}: {problem}; {left}. {check} "
            "if every request is refused",
            spent=spent,
        )
    raise ModelError(f"{spent.model} could not be used for {spent.step}: {problem}; {left}", spent=spent)


def is_unreasonable(answer: bytes) -> bool:
    """Whether this is far too long, or one thing repeated."""
    if len(answer) > MAX_ANSWER_BYTES:
        return True
    return len(answer) >= DEGENERATE_FROM_BYTES and len(zlib.compress(answer, 1)) * DEGENERATE_RATIO < len(answer)


def failure_kind(error: Exception) -> str:
    """Such as `rate limit (HTTP 429, insufficient_quota)`. Never the message, which may quote what was sent."""
    status, code, name = _status(error), _code(error), type(error).__name__
    fitting = (kind for kind, known, of_status in _KINDS if isinstance(error, known) or status == of_status)
    # an error of a provider's own class, which is named where nothing better is known
    by_name = "timeout" if "Timeout" in name else "no connection" if "Connect" in name else name
    by_status = "server error" if status and status >= 500 else "request refused"
    kind = next(fitting, by_status if status else by_name)
    details = [f"HTTP {status}"] if status else []
    details += [code] if code else []
    return f"{kind} ({', '.join(details)})" if details else kind


def refuses_request(error: Exception) -> bool:
    """Whether the same request will be refused again, however long one waits; one of half as many texts may not be."""
    if isinstance(error, provider.ContextOverflowError | provider.ModelInvalidRequestError):
        return True
    return _status(error) in _REFUSED or _code(error) in _CONTENT_CODES


def _status(error: Exception) -> int | None:
    """The HTTP status, where the clients of providers keep it."""
    status = getattr(error, "status_code", None) or getattr(getattr(error, "response", None), "status_code", None)
    return status if isinstance(status, int) else None


def _code(error: Exception) -> str | None:
    code = getattr(error, "code", None)
    return code if isinstance(code, str) and _CODE.fullmatch(code) else None


def _counted(spent: Usage, *tokens: int) -> Usage:
    input_tokens, output_tokens = (number if 0 <= number <= MAX_TOKENS else 0 for number in tokens)
    return replace(
        spent,
        calls=spent.calls + 1,
        input_tokens=spent.input_tokens + input_tokens,
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
