"""One turn of a model that calls tools, read so that whatever it answers can be executed, or refused, and sent back."""

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage

from mnemic.models.answers import FILTERED, REFUSED, Aftermath, Flaw, ask, stopped
from mnemic.models.tool_calls import TAKES_NO_TOOLS, offering, readable_calls
from mnemic.policy.text.hygiene import clean_text, clip_text
from mnemic.state.records import Usage
from mnemic.state.refinement import Turn

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel  # 30 ms that the offline rules never need
    from langchain_core.tools import BaseTool

#: What is said beside the calls helps only the model itself, and is sent back with every later turn.
MAX_TEXT_CHARS = 2000
#: Of a longer text no more is cleaned.
_READ_CHARS = 4 * MAX_TEXT_CHARS

_AFTERMATH = Aftermath(left="this turn changed nothing", check=TAKES_NO_TOOLS)


async def tool_turn(
    model: "BaseChatModel",
    messages: Sequence[BaseMessage],
    turns: Sequence[Turn],
    tools: Sequence["BaseTool"],
    *,
    spent: Usage,
) -> tuple[Turn, Usage]:
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
    return Turn(text=_text(answer), calls=tuple(readable_calls(answer, taken))), spent


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
