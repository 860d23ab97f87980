"""Asks a model, whatever form its answer takes: typed failures with nothing of the content in them, and the price."""

import zlib
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.runnables import Runnable
from pydantic import ValidationError

from mnemic.models.failures import failure_kind, refuses_request
from mnemic.prompts import repair
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

Bound = Runnable[Any, Any]


class Flaw(NamedTuple):
    """Why an answer cannot be used."""

    #: For errors and logs: nothing of the answer is in it.
    kind: str
    #: What the model is told; goes back to that model only.
    advice: str


class Aftermath(NamedTuple):
    """What the error of a failed request says besides its kind."""

    #: What became of the work.
    left: str
    #: What else makes a provider refuse every request.
    check: str


BROKEN = Flaw(kind="broken JSON", advice=repair.BROKEN)
EMPTY = Flaw(kind="an empty answer", advice=repair.EMPTY)
REFUSED = Flaw(kind="a refusal", advice=repair.REFUSED)
CUT = Flaw(kind="cut off at the output limit", advice=repair.CUT)
FILTERED = Flaw(kind="stopped by the content filter", advice=repair.FILTERED)
UNREASONABLE = Flaw(kind="far too long, or one thing repeated", advice=repair.UNREASONABLE)


async def ask(
    bound: Bound, messages: Sequence[BaseMessage], spent: Usage, aftermath: Aftermath
) -> tuple[AIMessage | Flaw, Usage]:
    """The answer, or what its client found wrong with it, and `spent` with this call added.

    Raises:
        ModelError: no answer came over the wire; the message names the kind of failure.
        ModelOutputError: the provider refused the request itself.
    """
    answer, input_tokens, output_tokens = await _ask(bound, messages, spent, aftermath)
    return answer, replace(
        spent,
        calls=spent.calls + 1,
        input_tokens=spent.input_tokens + _plausible(input_tokens),
        output_tokens=spent.output_tokens + _plausible(output_tokens),
    )


def _plausible(tokens: int) -> int:
    return tokens if 0 <= tokens <= MAX_TOKENS else 0


async def _ask(
    bound: Bound, messages: Sequence[BaseMessage], spent: Usage, aftermath: Aftermath
) -> tuple[AIMessage | Flaw, int, int]:
    """The answer, or what was wrong with it, with the tokens in and out."""
    import openai  # only ever asked for once a model is in use

    try:
        answer: AIMessage = await bound.ainvoke(list(messages))
    except openai.LengthFinishReasonError as error:
        usage = error.completion.usage
        return CUT, usage.prompt_tokens if usage else 0, usage.completion_tokens if usage else 0
    except openai.ContentFilterFinishReasonError:
        return FILTERED, 0, 0
    except (ValidationError, RecursionError):
        return BROKEN, 0, 0  # a tool call whose arguments are no object, or nested without end
    except Exception as error:  # noqa: BLE001 - every provider has errors of its own, and no code of ours runs in there
        is_refused, problem = refuses_request(error), failure_kind(error)
    else:
        tokens = answer.usage_metadata
        return answer, tokens["input_tokens"] if tokens else 0, tokens["output_tokens"] if tokens else 0
    # Raised out here so that the provider's error, which may quote what was sent, is not chained to it.
    if is_refused:
        raise ModelOutputError(
            f"{spent.model} refused this request for {spent.step}: {problem}; {aftermath.left}. {aftermath.check} "
            "if every request is refused",
            spent=spent,
        )
    raise ModelError(f"{spent.model} could not be used for {spent.step}: {problem}; {aftermath.left}", spent=spent)


def stopped(answer: AIMessage) -> Flaw | None:
    """What kept the model from answering in full, if anything did."""
    reason = answer.response_metadata.get("finish_reason") or answer.response_metadata.get("stop_reason")
    blocks = answer.content if isinstance(answer.content, list) else []
    if answer.additional_kwargs.get("refusal") or any(
        isinstance(block, dict) and block.get("type") == "refusal" for block in blocks
    ):
        return REFUSED
    if reason in ("length", "max_tokens"):
        return CUT
    return FILTERED if reason == "content_filter" else None


def is_unreasonable(answer: bytes) -> bool:
    """Whether this is far too long, or one thing repeated."""
    if len(answer) > MAX_ANSWER_BYTES:
        return True
    return len(answer) >= DEGENERATE_FROM_BYTES and len(zlib.compress(answer, 1)) * DEGENERATE_RATIO < len(answer)
