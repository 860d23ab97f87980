"""Channels of conversations: those of the memory nodes in a host's graph, those of the supervisor, and threads."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, NotRequired

from langchain_core.messages import AnyMessage
from langgraph.channels import UntrackedValue
from langgraph.graph.message import add_messages
from pydantic import BaseModel, ConfigDict
from typing_extensions import TypedDict

from mnemic.state.errors import InvalidInputError
from mnemic.state.graphs import MemoryContext


class MemoryState(TypedDict):
    """Channels of the memory nodes, for a host's state to inherit: `class Turn(MessagesState, MemoryState)`.

    The recall node writes them, so the graph's input has none of them: `StateGraph(Turn, input_schema=MessagesState)`.
    The context is untracked: it flows from node to node, and no checkpoint holds it. After an interrupt it is missing
    until a recall runs again.
    """

    #: Memory context of this turn; `with_memory` puts it into the request.
    memory_context: Annotated[MemoryContext, UntrackedValue]
    #: Revision up to which the context announces changes; None for a recall that went without memory. A recall in
    #: another role than the identity's leaves it out.
    memory_revision: NotRequired[int | None]
    #: Reason of the search of this turn's recall; None without a search.
    memory_searched: str | None


def add_readable_messages(messages: Any, update: Any) -> Any:
    """Add messages as LangGraph's `add_messages` does, whose errors would quote the conversation.

    Raises:
        InvalidInputError: if a new message cannot be used, or one to remove does not exist.
    """
    # errors of langchain-core for an object that is no message, and of the methods of such an object
    with suppress(ValueError, TypeError, LookupError, AttributeError, RuntimeError):
        items = update if isinstance(update, list) else [update]
        if all(_is_readable(item) for item in items):
            return add_messages(messages, update)
    raise InvalidInputError(
        "messages are LangChain messages or mappings with role and content, which is text or a list of parts with text;"
        " a message to remove has to exist"
    )


def _is_readable(item: Any) -> bool:
    """Return whether the content of a message is text, or a list of parts that providers can read.

    Pydantic makes a list of any iterable, and an endless one would end the process. A part that no provider can read
    would end the thread, because it is sent with every later turn.
    """
    if isinstance(item, Mapping):
        content = item.get("content")
    elif isinstance(item, tuple | list):
        content = item[-1] if item else None
    else:
        content = getattr(item, "content", None)
    if isinstance(content, list):
        return all(_is_part(part) for part in content)
    return isinstance(content, str | None)


def _is_part(part: Any) -> bool:
    return isinstance(part, str) or (isinstance(part, dict) and isinstance(part.get("text"), str | None))


class SupervisorInput(TypedDict, total=False):
    """The conversation: input and output of the supervisor."""

    messages: Annotated[list[AnyMessage], add_readable_messages]


class Question(TypedDict):
    """A question of consent about a memory: its id and figures, since no checkpoint holds the text of a memory.

    A question about a correction has the new content, which the call in the thread has, too.
    """

    id: str
    kind: str
    importance: int
    content: NotRequired[str]


class SupervisorState(SupervisorInput, total=False):
    """Channels of the supervisor; no checkpoint holds the text of a memory."""

    #: Channels of `MemoryState`, which a node's update may leave out.
    memory_context: Annotated[MemoryContext, UntrackedValue]
    memory_revision: int | None
    memory_searched: str | None
    #: Results of this turn's tools, by the ids of the calls; the messages of the thread have no contents of them.
    tool_answers: Annotated[Mapping[str, str], UntrackedValue]
    #: Questions of consent to the calls of the last answer, by the ids of the calls.
    questions: dict[str, Question]
    #: Calls of the last answer that the user declined. Tracked, so that a process that is killed does not run them.
    declined: list[str]


class Consent(BaseModel):
    """Answer of the user to a question of consent."""

    model_config = ConfigDict(extra="forbid", strict=True)

    approved: bool


@dataclass(frozen=True, kw_only=True)
class ThreadStatus:
    """State of a thread, without its messages.

    Attributes:
        id: id of the thread.
        checkpoint_id: the latest checkpoint.
        step: -1 for the input of a thread that has just begun.
        source: origin of the checkpoint: `input`, `loop`, `update`, `fork`.
        next: the nodes that come next; empty for a thread that waits for its user.
        created_at: time of its first checkpoint.
        updated_at: time of its latest checkpoint.
    """

    id: str
    checkpoint_id: str
    step: int | None
    source: str | None
    next: list[str]
    created_at: datetime
    updated_at: datetime
