"""A conversation as a chat model may be sent it: every call answered, with what this turn's tools really said."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from langchain_core.messages import AIMessage, AnyMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage

from mnemic.prompts.supervise import ANSWERED, NOT_DONE


def transcript(system: str, messages: Sequence[AnyMessage], answers: Mapping[str, str]) -> list[BaseMessage]:
    """The system text, then the conversation.

    A call without an answer, as a turn leaves it that was broken off or that the user cut short by saying something
    else, is answered: providers refuse a conversation in which one is open.

    Args:
        system: instructions and memory context.
        messages: the thread's.
        answers: of this turn's tools, by the ids of their calls.
    """
    given = {one.tool_call_id: one for one in messages if isinstance(one, ToolMessage)}
    told: list[BaseMessage] = [SystemMessage(system)]
    for message in messages:
        if isinstance(message, ToolMessage):
            continue  # each stands behind its call
        told.append(_clean(message))
        told += _answers_of(message, given, answers)
    return told


def withheld(done: Sequence[ToolMessage]) -> tuple[list[ToolMessage], dict[str, str]]:
    """The answers as the thread keeps them, and what they said.

    What a tool says of the memory may be forgotten later, so a thread keeps a refusal's words alone.
    """
    said = {one.tool_call_id: str(one.text) for one in done if one.status != "error"}
    kept = [
        one.model_copy(update={"content": ANSWERED, "artifact": None}) if one.tool_call_id in said else one
        for one in done
    ]
    return kept, said


def spoken(messages: Sequence[AnyMessage]) -> list[AnyMessage]:
    """What people and the agent said; what tools and sub-agents told the agent are nobody's words."""
    return [message for message in messages if isinstance(message, HumanMessage | AIMessage)]


def last_calls(messages: Sequence[AnyMessage]) -> dict[str, dict[str, object]]:
    """The calls of the last message, by their ids."""
    last = messages[-1] if messages else None
    return {str(call["id"]): dict(call) for call in last.tool_calls} if isinstance(last, AIMessage) else {}


def _clean(message: AnyMessage) -> AnyMessage:
    """Half a character, which no request can carry, would end the thread for good."""
    content = message.content
    return message.model_copy(update={"content": _clean_part(content)}) if content else message


def _clean_part(part: Any) -> Any:
    if isinstance(part, str):
        return _whole(part)
    if isinstance(part, list):
        return [_clean_part(one) for one in part]
    if isinstance(part, dict) and isinstance(part.get("text"), str):
        return {**part, "text": _whole(part["text"])}
    return part


def _whole(text: str) -> str:
    return str.encode(text, errors="replace").decode()  # whatever a subclass makes of it


def _answers_of(
    message: AnyMessage, given: Mapping[str, ToolMessage], answers: Mapping[str, str]
) -> Iterator[ToolMessage]:
    for call in message.tool_calls if isinstance(message, AIMessage) else ():
        call_id = str(call["id"])
        answer = given.get(call_id) or ToolMessage(NOT_DONE, tool_call_id=call_id, name=call["name"], status="error")
        yield answer.model_copy(update={"content": answers[call_id]}) if call_id in answers else answer
