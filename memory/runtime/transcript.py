"""The conversation that a chat model is sent, and the people in it."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from langchain_core.messages import (
    AIMessage,
    AnyMessage,
    BaseMessage,
    HumanMessage,
    SystemMessage,
    ToolCall,
    ToolMessage,
)

from mnemic.memory.runtime.message_parts import attached_text, is_written, read_part
from mnemic.memory.text.shape import whole_characters
from mnemic.prompts.messages.supervise import ANSWERED, ATTACHED, NOT_ANSWERED, WORDLESS
from mnemic.state.identity import Identity, display_name, scope_key
from mnemic.state.records import Message

#: Characters that providers refuse in a name: one display name with them would end the thread for good.
_NOT_IN_NAMES: Final = re.compile(r"[\s<|\\/>]+")
_MAX_NAME_CHARS: Final = 64


def typed_messages(messages: Iterable[Message]) -> list[Message]:
    """Return the messages with text that a user typed; only sharing depends on whether that text was pasted."""
    return [message for message in messages if message.typed_text]


def speakers(messages: Iterable[Message]) -> list[str]:
    """Return the users who spoke, in order of appearance."""
    users: dict[str, None] = {}
    for message in messages:
        if message.user_id:
            users[message.user_id] = None
    return list(users)


def submitters(messages: Iterable[Message]) -> list[str]:
    """Return the actors that submitted messages of another user, in order of appearance."""
    actors: dict[str, None] = {}
    for message in messages:
        if message.submitted_by and message.user_id not in (None, message.submitted_by):
            actors[message.submitted_by] = None
    return list(actors)


def group_names(identity: Identity, names: Mapping[str, str]) -> tuple[str, ...]:
    """Return the display names of the run's groups, in their order."""
    groups: list[str] = []
    for group in identity.group_ids:
        groups.append(names.get(scope_key("group", group)) or display_name(group))
    return tuple(groups)


def dialogue(messages: Sequence[AnyMessage]) -> list[AnyMessage]:
    """Return the messages of users and of the agent, without those of tools and sub-agents."""
    return [message for message in messages if isinstance(message, HumanMessage | AIMessage)]


def transcript(system: str, messages: Sequence[AnyMessage], answers: Mapping[str, str]) -> list[BaseMessage]:
    """Return the system text, then the conversation.

    A call without a result gets one: a turn that broke off, or that the user cut short, leaves such a call behind, and
    providers refuse a conversation with it. A part without text, such as a picture, is sent only in its own turn: a
    model that does not accept it would refuse every later turn, too.

    Args:
        system: Instructions and memory context.
        messages: Messages of the thread.
        answers: Results of this turn's tools, by the ids of their calls.
    """
    results: dict[str, ToolMessage] = {}
    turn = 0  # place of the last message of a user
    for place, message in enumerate(messages):
        if isinstance(message, ToolMessage):
            results[message.tool_call_id] = message
        elif isinstance(message, HumanMessage):
            turn = place
    conversation: list[BaseMessage] = [SystemMessage(system)]
    for place, message in enumerate(messages):
        if isinstance(message, ToolMessage):
            continue  # it follows its call
        conversation.append(_clean(message if place >= turn else _as_text(message)))
        if isinstance(message, AIMessage):
            for call in message.tool_calls:
                conversation.append(_result(call, results, answers))
    return conversation


def _result(call: ToolCall, results: Mapping[str, ToolMessage], answers: Mapping[str, str]) -> ToolMessage:
    call_id = str(call["id"])
    result = results.get(call_id)
    if result is None:
        result = ToolMessage(NOT_ANSWERED, tool_call_id=call_id, name=call["name"], status="error")
    return result.model_copy(update={"content": answers.get(call_id, result.content)})


def split_contents(results: Sequence[ToolMessage]) -> tuple[list[ToolMessage], dict[str, str]]:
    """Return the results as the thread stores them, and their contents by the ids of the calls.

    The memory that a tool returns may be forgotten later, so the thread stores the text of a refusal only.
    """
    contents: dict[str, str] = {}
    blanked: list[ToolMessage] = []
    for result in results:
        if result.status == "error":
            blanked.append(result)
            continue
        contents[result.tool_call_id] = str(result.text)
        blanked.append(result.model_copy(update={"content": ANSWERED, "artifact": None}))
    return blanked, contents


def _as_text(message: AnyMessage) -> AnyMessage:
    """Return a user's message as plain text, in which attached text is marked as such; other messages as they are."""
    if not isinstance(message, HumanMessage):
        return message
    content: Any = message.content
    if isinstance(content, str) and content.strip():
        return message
    text = ""
    if isinstance(content, list):  # content is None in a message that was refused and stays in the thread
        text = "\n".join(_part_as_text(part) for part in content)
    return message.model_copy(update={"content": text or WORDLESS})


def _part_as_text(part: str | dict[str, Any]) -> str:
    if isinstance(part, str):
        return part if part.strip() else WORDLESS
    try:
        fields = read_part(part)
    except ValueError:  # it was refused when it came, and stays in the thread
        return WORDLESS
    text = attached_text(fields)
    if not text.strip():
        return WORDLESS
    if is_written(fields, "user"):
        return text
    return f"{ATTACHED}\n{text}"


def _clean(message: AnyMessage) -> AnyMessage:
    """Return the message without half characters, which no request can carry, and with a name that providers accept."""
    name = _NOT_IN_NAMES.sub("_", whole_characters(message.name or ""))[:_MAX_NAME_CHARS] or None
    return message.model_copy(update={"content": _clean_part(message.content), "name": name})


def _clean_part(part: Any) -> Any:
    if isinstance(part, str):
        return whole_characters(part)
    if isinstance(part, list):
        return [_clean_part(item) for item in part]
    if isinstance(part, dict) and isinstance(part.get("text"), str):
        return {**part, "text": whole_characters(part["text"])}
    return part
