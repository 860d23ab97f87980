"""Tools offered to a model, and its calls of them, read so that each can be executed or refused, and sent back."""

import asyncio
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import count
from typing import TYPE_CHECKING, Any, Final

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from pydantic_core import from_json

from mnemic.models.answers import FILTERED, REFUSED, Aftermath, Bound, Flaw, ask, is_unreasonable, stopped
from mnemic.models.chat import ChatModels
from mnemic.models.steps import In, StepResult, ToolStep, prompt_of
from mnemic.policy.text.shape import clean_text, clip_text
from mnemic.state.errors import ConfigurationError
from mnemic.state.kinds import Usage
from mnemic.state.refinement import MAX_CALLS, ToolCall, Turn

if TYPE_CHECKING:  # 30 ms that the offline rules never need; a test holds it
    from langchain_core.language_models import BaseChatModel
    from langchain_core.tools import BaseTool

#: What providers take in a request as the name of a function, and as the number of a call.
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_ID = re.compile(r"[A-Za-z0-9_.:-]{1,64}")
#: Stands for a name that could not be sent back; no tool is called so.
NO_NAME = "unreadable"
#: What else makes a provider refuse every request in which tools are offered.
TAKES_NO_TOOLS: Final = (
    "A model that takes no tools looks the same: check MNEMIC_AGENT_MODEL, or the agent's own agent_model,"
)
#: What is said beside the calls helps only the model itself, and is sent back with every later turn.
MAX_TEXT_CHARS: Final = 2000
#: Of a longer text no more is cleaned.
_READ_CHARS: Final = 4 * MAX_TEXT_CHARS
_AFTERMATH: Final = Aftermath(left="this turn changed nothing", check=TAKES_NO_TOOLS)


async def run_turn(
    step: ToolStep[In], step_input: In, turns: Sequence[Turn], tools: Sequence["BaseTool"], models: ChatModels
) -> StepResult[Turn]:
    """The next turn of a step that calls tools, with the model of its tier, or by its rule where there is none.

    The tools are shown to the model, not called. What `tool_turn` says of answers and failures holds here.

    Args:
        turns: the earlier ones, with the answers to their calls.

    Raises:
        ModelError: no answer came over the wire; the message names the kind of failure.
        ModelOutputError: the provider refused the request itself.
        ConfigurationError: the tier's model cannot be made, or takes no tools.
    """
    model, spent = await models.for_call(step.tier, step.name)
    if model is None:
        # 20 ms for 350 memories, which an event loop must not stand still for
        return StepResult(output=await asyncio.to_thread(step.offline, step_input), usage=spent)
    return await tool_turn(model, prompt_of(step, step_input), turns, tools, spent=spent)


async def tool_turn(
    model: "BaseChatModel",
    messages: Sequence[BaseMessage],
    turns: Sequence[Turn],
    tools: Sequence["BaseTool"],
    *,
    spent: Usage,
) -> StepResult[Turn]:
    """The model's next turn after these, and `spent` with its call added.

    At most 16 calls, those that can be read first. A call whose arguments are no JSON object, or far too long, has
    None instead, and so has each call of an answer that was cut off. An answer that is refused, filtered or empty is a
    turn without calls.

    Raises:
        ModelError: no answer came over the wire; the message names the kind of failure.
        ModelOutputError: the provider refused the request itself.
        ConfigurationError: the model takes no tools.
    """
    answer, spent = await ask(offering(model, tools), [*messages, *_sent_back(turns)], spent, _AFTERMATH)
    taken = {call.id for turn in turns for call in turn.calls}
    return StepResult(Turn(text=_text(answer), calls=tuple(readable_calls(answer, taken))), spent)


def offering(model: "BaseChatModel", tools: Sequence["BaseTool"]) -> Bound:
    """The model with these tools to call.

    Raises:
        ConfigurationError: it takes none.
    """
    try:
        return model.bind_tools(tools)
    except NotImplementedError:
        raise ConfigurationError(
            f"{type(model).__name__} takes no tools: choose another MNEMIC_AGENT_MODEL, or agent_model of the agent"
        ) from None


def readable_calls(answer: AIMessage | Flaw, taken: set[str]) -> list[ToolCall]:
    """The calls of an answer, at most 16: each with a name and a number that can be sent back.

    Arguments that cannot be read are None, and so are all of an answer that was cut off.

    Args:
        answer: a model's.
        taken: the numbers of earlier calls; those of these are added.
    """
    return list(_numbered(_read(answer)[:MAX_CALLS], taken))


def _read(answer: AIMessage | Flaw) -> list[ToolCall]:
    """The calls, still as the provider numbered them."""
    flaw = answer if isinstance(answer, Flaw) else stopped(answer)
    if flaw in (REFUSED, FILTERED):
        return []
    if isinstance(answer, Flaw):  # there were calls, and not one can be told from the others
        return [_call(None, None, None)]
    readable = [
        _call(call["name"], call["id"], None if flaw else _arguments(call["args"])) for call in answer.tool_calls
    ]
    return readable + [_call(call["name"], call["id"], None) for call in answer.invalid_tool_calls]


def _call(name: str | None, call_id: str | None, arguments: dict[str, Any] | None) -> ToolCall:
    readable = name if name and _NAME.fullmatch(name) else NO_NAME
    return ToolCall(id=call_id or "", name=readable, arguments=arguments)


def _arguments(parsed: dict[str, Any]) -> dict[str, Any] | None:
    """The arguments where they can be sent back: no NaN, no half characters, not nested without end, not too long."""
    try:
        text = json.dumps(parsed)
        read: dict[str, Any] = from_json(text, allow_inf_nan=False)
    except (TypeError, ValueError, RecursionError):  # a TypeError: what a provider's package makes of its own types
        return None
    return None if is_unreasonable(text.encode()) else read


def _numbered(calls: Iterable[ToolCall], taken: set[str]) -> Iterator[ToolCall]:
    """The calls, each with a number that no other call of the batch has."""
    for call in calls:
        free = (f"call_{number}" for number in count(1))
        fits = _ID.fullmatch(call.id) and call.id not in taken
        call_id = call.id if fits else next(number for number in free if number not in taken)
        taken.add(call_id)
        yield call._replace(id=call_id)


def _sent_back(turns: Iterable[Turn]) -> Iterator[BaseMessage]:
    """What was called so far and answered. Arguments that could not be read are left out."""
    for turn in turns:
        if turn.calls:
            yield AIMessage(
                turn.text,
                tool_calls=[
                    {"name": call.name, "args": dict(call.arguments or {}), "id": call.id, "type": "tool_call"}
                    for call in turn.calls
                ],
            )
        for call in turn.calls:
            yield ToolMessage(call.answer, tool_call_id=call.id, name=call.name)


def _text(answer: AIMessage | Flaw) -> str:
    if isinstance(answer, Flaw) or stopped(answer) in (REFUSED, FILTERED):
        return ""
    return clip_text(clean_text(str(answer.text)[:_READ_CHARS]), MAX_TEXT_CHARS)
