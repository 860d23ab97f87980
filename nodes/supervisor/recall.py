"""The supervisor's first node: what memory says to the turn that begins."""

from langchain_core.messages import HumanMessage
from langgraph.runtime import Runtime

from mnemic.nodes.supervisor.progress import tell
from mnemic.operations.messages.normalize import require_storable
from mnemic.operations.messages.turn import Asked, TurnMemory, recall_turn
from mnemic.operations.run.identity import supervising
from mnemic.operations.run.node_types import SupervisorNode
from mnemic.state.errors import InvalidInputError
from mnemic.state.identity import Identity
from mnemic.state.supervisor import SupervisorState


def recall(memory: TurnMemory) -> SupervisorNode:
    """Leaves the context in a channel that no checkpoint holds; what an earlier turn left in the others goes."""

    async def recall(state: SupervisorState, runtime: Runtime[Identity]) -> SupervisorState:
        tell(runtime, "recall")
        messages = state["messages"]
        if not messages or not isinstance(messages[-1], HumanMessage) or messages[-1].content is None:
            raise InvalidInputError("messages: a turn begins with a message of the user")
        identity = supervising(runtime)
        # before it is answered as if it were remembered, too; no earlier one, for what was refused stays in the thread
        require_storable(messages[-1], identity)
        recalled = await recall_turn(memory, identity, messages, Asked())
        fresh: SupervisorState = {"tool_answers": {}, "questions": {}, "declined": []}
        return {**fresh, **recalled}

    return recall
