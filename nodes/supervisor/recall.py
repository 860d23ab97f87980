"""The supervisor's first node: what memory says to the turn that begins."""

from langchain_core.messages import HumanMessage
from langgraph.runtime import Runtime

from mnemic.operations.messages.normalize import require_storable
from mnemic.operations.recall.turn import RecallGraph, recall_turn
from mnemic.operations.run.graph import SupervisorNode, stream_progress
from mnemic.operations.run.identity import supervisor_identity
from mnemic.state.errors import InvalidInputError
from mnemic.state.identity import Identity
from mnemic.state.supervisor import SupervisorState


def recall(recalls: RecallGraph) -> SupervisorNode:
    """Leaves the context in a channel that no checkpoint holds; what an earlier turn left in the others goes."""

    async def run(state: SupervisorState, runtime: Runtime[Identity]) -> SupervisorState:
        stream_progress(runtime, "recall")
        messages = state["messages"]
        if not messages or not isinstance(messages[-1], HumanMessage) or messages[-1].content is None:
            raise InvalidInputError("messages: a turn begins with a message of the user")
        identity = supervisor_identity(runtime)
        # before it is answered as if it were remembered, too; no earlier one, for what was refused stays in the thread
        require_storable(messages[-1], identity)
        recalled = await recall_turn(recalls, identity, messages)
        fresh: SupervisorState = {"tool_answers": {}, "questions": {}, "declined": []}
        return {**fresh, **recalled}

    return run
