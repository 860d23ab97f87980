"""A conversation as models are shown it, numbered for a step or whole for a chat model; and who speaks in it."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from langchain_core.messages import AIMessage, AnyMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage

from mnemic.memory.runtime.message_parts import attached_text, is_written, read_part
from mnemic.memory.text.shape import whole_characters
from mnemic.prompts.messages.supervise import ANSWERED, ATTACHED, NOT_ANSWERED, WORDLESS
from mnemic.state.identity import Identity, display_name, scope_key
from mnemic.state.records import Message

#: What providers take in no name, and how long one may be: a display name would end the thread for good.
_NOT_IN_NAMES = re.compile(r"[\s<|\\/>]+")
_MAX_NAME_CHARS = 64


def own_words(sources: Iterable[Message]) -> list[Message]:
    """Return the messages with text that a user typed; only sharing depends on whether that text was pasted."""
    return [message for message in sources if message.typed_text]


def speakers(messages: Iterable[Message]) -> list[str]:
    """The users who spoke, in order of appearance."""
    return list(dict.fromkeys(message.user_id for message in messages if message.user_id))


def submitted_by(messages: Iterable[Message]) -> list[str]:
    """Who brought words of somebody else, in order of appearance."""
    others = (message.submitted_by for message in messages if message.user_id not in (None, message.submitted_by))
    return [*dict.fromkeys(other for other in others if other)]


def group_names(identity: Identity, names: Mapping[str, str]) -> tuple[str, ...]:
    """Display names of the groups the run belongs to, in their order."""
    return tuple(names.get(scope_key("group", group)) or display_name(group) for group in identity.group_ids)


def transcript(system: str, messages: Sequence[AnyMessage], answers: Mapping[str, str]) -> list[BaseMessage]:
    """The system text, then the conversation.

    A call without an answer, as a turn leaves it that was broken off or that the user cut short by saying something
    else, is answered: providers refuse a conversation in which one is open. What was no text, such as a picture, is
    sent in its own turn alone: a model that does not take it would refuse every later turn as well.

    Args:
        system: instructions and memory context.
        messages: the thread's.
        answers: of this turn's tools, by the ids of their calls.
    """
    given = {message.tool_call_id: message for message in messages if isinstance(message, ToolMessage)}
    conversation: list[BaseMessage] = [SystemMessage(system)]
    turn = max((place for place, message in enumerate(messages) if isinstance(message, HumanMessage)), default=0)
    for place, message in enumerate(messages):
        if isinstance(message, ToolMessage):
            continue  # each stands behind its call
        conversation.append(_clean(message if place >= turn else _in_words(message)))
        for call in message.tool_calls if isinstance(message, AIMessage) else ():
            call_id = str(call["id"])
            unknown = ToolMessage(NOT_ANSWERED, tool_call_id=call_id, name=call["name"], status="error")
            answer = given.get(call_id, unknown)
            shown = {"content": answers.get(call_id, answer.content)}
            conversation.append(answer.model_copy(update=shown))
    return conversation


def without_contents(answers: Sequence[ToolMessage]) -> tuple[list[ToolMessage], dict[str, str]]:
    """The answers as the thread keeps them, and their contents by the ids of the calls.

    What a tool says of the memory may be forgotten later, so a thread keeps a refusal's words alone.
    """
    contents = {answer.tool_call_id: str(answer.text) for answer in answers if answer.status != "error"}
    blank = {"content": ANSWERED, "artifact": None}
    kept = [answer.model_copy(update=blank) if answer.tool_call_id in contents else answer for answer in answers]
    return kept, contents


def spoken(messages: Sequence[AnyMessage]) -> list[AnyMessage]:
    """What people and the agent said; what tools and sub-agents told the agent are nobody's words."""
    return [message for message in messages if isinstance(message, HumanMessage | AIMessage)]


def _in_words(message: AnyMessage) -> AnyMessage:
    """Return a user's message as plain text, in which attached text is marked as such; other messages as they are."""
    if not isinstance(message, HumanMessage) or (isinstance(message.content, str) and message.content.strip()):
        return message
    parts = message.content if isinstance(message.content, list) else []
    words = "\n".join(_part_in_words(part) for part in parts)
    return message.model_copy(update={"content": words or WORDLESS})


def _part_in_words(part: str | dict[str, Any]) -> str:
    if isinstance(part, str):
        return part if part.strip() else WORDLESS
    try:
        read = read_part(part)
    except ValueError:  # it was refused when it came, and stays in the thread
        return WORDLESS
    text = attached_text(read)
    if not text.strip():
        return WORDLESS
    return text if is_written(read, "user") else f"{ATTACHED}\n{text}"


def _clean(message: AnyMessage) -> AnyMessage:
    """Half a character, which no request can carry, would end the thread for good."""
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
