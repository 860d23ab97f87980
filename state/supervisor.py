"""Conversations: what a host's own graph gains by the memory nodes, the supervisor's channels, and threads."""

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


class MemoryState(TypedDict, total=False):
    """Channels of the memory nodes, for a host's state to inherit: `class Turn(MessagesState, MemoryState)`.

    The context is untracked: it flows from node to node, no checkpoint holds it, and after an interrupt it is gone
    until a recall runs again.
    """

    #: What memory says to this turn; `with_memory` puts it into the request.
    memory_context: Annotated[MemoryContext, UntrackedValue]
    #: Up to where changes of the memory were announced in the context; None: the recall went without memory.
    memory_revision: int | None
    #: Why this turn's recall searched; None: it did not.
    memory_searched: str | None


def joined(known: Any, new: Any) -> Any:
    """LangGraph's `add_messages`; its errors would quote what was said.

    Raises:
        InvalidInputError: there is no message among the new ones that can be used, or one to be removed is not there.
    """
    # what langchain-core raises of what is no message, and what the given objects' own methods raise
    with suppress(ValueError, TypeError, LookupError, AttributeError, RuntimeError):
        if all(map(_may_be_read, new if isinstance(new, list) else [new])):
            return add_messages(known, new)
    raise InvalidInputError(
        "messages are LangChain messages or mappings with role and content, which is text or a list of parts with text;"
        " what is removed has to be there"
    )


def _may_be_read(item: Any) -> bool:
    """Pydantic makes a list of any iterable, and one that never ends would end the process.

    Parts that no provider can read would end the thread, for what is in it is sent with every later turn.
    """
    content = item.get("content") if isinstance(item, Mapping) else getattr(item, "content", None)
    if isinstance(item, tuple | list):
        content = item[-1] if item else None
    return all(map(_is_part, content)) if isinstance(content, list) else isinstance(content, str | None)


def _is_part(part: Any) -> bool:
    return isinstance(part, str) or (isinstance(part, dict) and isinstance(part.get("text"), str | None))


class SupervisorInput(TypedDict, total=False):
    """What is said; also the supervisor's output."""

    messages: Annotated[list[AnyMessage], joined]


class Question(TypedDict):
    """A memory that the user is asked about: its id and figures, for no checkpoint holds what it says.

    Where it is to be corrected, what it is to say, which the call in the thread says too.
    """

    id: str
    kind: str
    importance: int
    content: NotRequired[str]


class SupervisorState(SupervisorInput, MemoryState, total=False):
    """The supervisor's channels; no checkpoint holds what memory says."""

    #: What tools answered in this turn, by the ids of the calls; the conversation itself says only that they did.
    tool_answers: Annotated[Mapping[str, str], UntrackedValue]
    #: Memories that the last answer wants forgotten or corrected and the user is asked about, by the ids of the calls.
    questions: dict[str, Question]
    #: Calls of the last answer that the user does not want done. Tracked: a process that is killed must not do them.
    declined: list[str]


class Consent(BaseModel):
    """What the user answers."""

    model_config = ConfigDict(extra="forbid", strict=True)

    approved: bool


@dataclass(frozen=True, kw_only=True)
class ThreadStatus:
    """Where a thread stands; nothing of what was said in it."""

    thread_id: str
    #: The latest one.
    checkpoint_id: str
    #: -1 for the input of a thread that has just begun.
    step: int | None
    #: What made the checkpoint: `input`, `loop`, `update`, `fork`.
    source: str | None
    #: The nodes that come next; none where the thread waits for its user.
    next: list[str]
    created_at: datetime
    updated_at: datetime
