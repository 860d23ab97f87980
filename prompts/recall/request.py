"""Where memory stands in a request to a chat model: its beginning is cached, so that what moves stands late."""

from collections.abc import Sequence
from typing import Any

from langchain_core.messages import BaseMessage, HumanMessage, SystemMessage

from mnemic.state.graphs import MemoryContext


def with_memory(messages: Sequence[BaseMessage], context: MemoryContext) -> list[BaseMessage]:
    """The messages of a request with what memory says to it; what is given stays as it is.

    What changes seldom comes behind the system message, which is added where there is none. What belongs to the turn
    comes in front of the message of the user that it was recalled for, through all model calls of the turn; where no
    user has said anything, behind the rest. A content that is a list keeps its parts, and has the text as one more.

    Args:
        messages: the whole request, the host's own system message first.
        context: that of the turn's recall, as a graph's `memory_context` or in what `Mnemic.recall` returns.
    """
    conversation, behind = [*messages], [context.standing]
    places = [place for place, message in enumerate(conversation) if isinstance(message, HumanMessage)]
    wanted = context.message_id
    own = [place for place in places if wanted is not None and conversation[place].id == wanted]
    if not places:
        behind.append(context.turn)
    elif context.turn:  # by its place where messages have no ids, or a summary has taken that of this one
        place = (own or places)[-1]
        conversation[place] = _joined(conversation[place], context.turn, in_front=True)
    text = "\n\n".join(filter(None, behind))
    if not text:
        return conversation
    if not conversation or not isinstance(conversation[0], SystemMessage):
        return [SystemMessage(text), *conversation]
    return [_joined(conversation[0], text, in_front=False), *conversation[1:]]


def _joined(message: BaseMessage, text: str, *, in_front: bool) -> BaseMessage:
    own: Any = message.content
    if isinstance(own, str):
        parts = filter(None, [text, own] if in_front else [own, text])
        return message.model_copy(update={"content": "\n\n".join(parts)})
    part = {"type": "text", "text": text}
    return message.model_copy(update={"content": [part, *own] if in_front else [*own, part]})
