"""The tools offered to a model, and its calls of them, read so that each can be executed or refused, and sent back."""

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import count
from typing import TYPE_CHECKING, Any, Final

from langchain_core.messages import AIMessage
from pydantic_core import from_json

from mnemic.models.answers import FILTERED, REFUSED, Bound, Flaw, is_unreasonable, stopped
from mnemic.state.errors import ConfigurationError
from mnemic.state.refinement import MAX_CALLS, ToolCall

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel  # 30 ms that the offline rules never need
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
    calls = [_call(made["name"], made["id"], None if flaw else _arguments(made["args"])) for made in answer.tool_calls]
    return calls + [_call(made["name"], made["id"], None) for made in answer.invalid_tool_calls]


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
        call_id = call.id if fits else next(one for one in free if one not in taken)
        taken.add(call_id)
        yield call._replace(id=call_id)
