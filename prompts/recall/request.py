"""The place of the memory context in a request: providers cache its beginning, so changing text comes late."""

from collections.abc import Sequence

from langchain_core.messages import BaseMessage, HumanMessage, SystemMessage

from mnemic.state.graphs import MemoryContext


def with_memory(messages: Sequence[BaseMessage], context: MemoryContext) -> list[BaseMessage]:
    """Return the messages of a request with the memory context; the given messages stay unchanged.

    The part that rarely changes follows the system message, which is added if there is none. The part of the turn
    precedes the user's message that the recall was for, through all model calls of the turn; without a message of a
    user, it follows the other part. A content that is a list gets the text as one more part.

    Args:
        messages: The whole request, with the host's system message first.
        context: Context of the turn's recall: `memory_context` of a graph, or `context` of a recall's result.
    """
    conversation = list(messages)
    place = _place_of_turn(conversation, context.message_id)
    system_text = context.standing
    if place is None:
        system_text = _paragraphs(system_text, context.turn)
    elif context.turn:
        conversation[place] = _prepend(conversation[place], context.turn)
    if not system_text:
        return conversation
    if not conversation or not isinstance(conversation[0], SystemMessage):
        return [SystemMessage(system_text), *conversation]
    return [_append(conversation[0], system_text), *conversation[1:]]


def _place_of_turn(messages: Sequence[BaseMessage], message_id: str | None) -> int | None:
    """Return the place of the message with this id, or of the last one of a user; None without a user's message.

    A message may have no id, and a summary may have replaced it.
    """
    last: int | None = None
    with_id: int | None = None
    for place, message in enumerate(messages):
        if not isinstance(message, HumanMessage):
            continue
        last = place
        if message_id is not None and message.id == message_id:
            with_id = place
    if with_id is not None:
        return with_id
    return last


def _prepend(message: BaseMessage, text: str) -> BaseMessage:
    content = message.content
    if isinstance(content, str):
        return message.model_copy(update={"content": _paragraphs(text, content)})
    return message.model_copy(update={"content": [{"type": "text", "text": text}, *content]})


def _append(message: BaseMessage, text: str) -> BaseMessage:
    content = message.content
    if isinstance(content, str):
        return message.model_copy(update={"content": _paragraphs(content, text)})
    return message.model_copy(update={"content": [*content, {"type": "text", "text": text}]})


def _paragraphs(*texts: str) -> str:
    return "\n\n".join(text for text in texts if text)
