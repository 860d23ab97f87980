"""What a host's own graph gains by the memory nodes."""

from typing import Annotated

from langgraph.channels import UntrackedValue
from typing_extensions import TypedDict


class MemoryState(TypedDict, total=False):
    """Channels of the memory nodes, for a host's state to inherit: `class Turn(MessagesState, MemoryState)`.

    The context is untracked: it flows from node to node, no checkpoint holds it, and after an interrupt it is gone
    until a recall runs again.
    """

    #: What memory says to this turn, for the prompt; empty where it has nothing to say.
    memory_context: Annotated[str, UntrackedValue]
    #: Up to where changes of the memory were announced in the context; None: the recall went without memory.
    memory_revision: int | None
    #: Why this turn's recall searched; None: it did not.
    memory_searched: str | None
