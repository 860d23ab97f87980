"""The supervisor's turn: recall and store, answer, request consent, run the calls of an answer, observe."""

from collections.abc import Mapping, Sequence
from itertools import takewhile
from typing import Any, Final

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolCall, ToolMessage
from langchain_core.tools import BaseTool
from langgraph.prebuilt import ToolNode

from mnemic.memory.messages.incoming import require_storable
from mnemic.memory.messages.turn import begin_turn, form_later, observe_turn, recall_turn, store_turn
from mnemic.memory.runtime.agent_settings import agent_settings
from mnemic.memory.runtime.resources import Resources
from mnemic.memory.runtime.transcript import dialogue, split_contents, transcript
from mnemic.memory.runtime.usage import track_usage
from mnemic.models.tool_calls import OfflineHints, run_answer
from mnemic.prompts.messages.supervise import DECLINED, system_prompt
from mnemic.prompts.recall.request import with_memory
from mnemic.state.errors import InvalidInputError
from mnemic.state.identity import Identity, display_name
from mnemic.state.supervisor import Question, SupervisorState

#: Maximum number of answers with tool calls in one turn; the next answer has no tools, so that every turn ends.
MAX_CALLING: Final = 12


async def recall_for_turn(resources: Resources, identity: Identity, messages: Sequence[AnyMessage]) -> SupervisorState:
    """Recall for the user's message, and store it at the same time; reset the channels of an earlier turn.

    Raises:
        InvalidInputError: if the last message is not a user's, or cannot be stored. Earlier messages that were refused
            stay in the thread.
    """
    if not messages or not isinstance(messages[-1], HumanMessage) or messages[-1].content is None:
        raise InvalidInputError("messages: the last message must be of the role user, with content")
    require_storable(messages[-1], identity)
    storing = store_turn(resources, identity, dialogue(messages))
    recalled = await begin_turn(recall_turn(resources, identity, messages), storing)
    fresh: SupervisorState = {"tool_answers": {}, "questions": {}, "declined": []}
    return {**fresh, **recalled}


async def answer(
    resources: Resources,
    identity: Identity,
    tools: Sequence[BaseTool],
    state: SupervisorState,
) -> tuple[AIMessage, SupervisorState]:
    """Return the agent's next message, and the update of the memory channels.

    An interrupt loses the context; recall runs again after it.
    """
    messages = state["messages"]
    if "memory_context" not in state:
        state = {**state, **await recall_turn(resources, identity, messages)}
    settings = await agent_settings(resources, identity)
    conversation = transcript(system_prompt(settings.persona), messages, state.get("tool_answers", {}))
    request = with_memory(conversation, state["memory_context"])
    offered = tools if _count_calling(messages) < MAX_CALLING else ()
    hints = OfflineHints(display_name(identity.user_id or "user"), state.get("memory_searched"))
    running = run_answer(request, offered, resources.models.with_settings(settings), hints=hints)
    message = (await track_usage(resources, identity, running)).output
    memory: SupervisorState = {
        "memory_context": state["memory_context"],
        "memory_revision": state.get("memory_revision"),
    }
    return message, memory


def _count_calling(messages: Sequence[AnyMessage]) -> int:
    """Return the number of answers with tool calls since the last message of the user."""
    turn = takewhile(lambda message: not isinstance(message, HumanMessage), reversed(messages))
    return sum(isinstance(message, AIMessage) and bool(message.tool_calls) for message in turn)


def consent_request(questions: Mapping[str, Question]) -> dict[str, Any]:
    """Return the payload of the interrupt: the action, and each memory once."""
    distinct = {(question["id"], question.get("content")): question for question in questions.values()}
    action = "correct"
    for question in distinct.values():
        if "content" not in question:
            action = "forget"
    return {"action": action, "memories": list(distinct.values())}


def split_calls(state: SupervisorState) -> tuple[list[ToolCall], list[ToolCall]]:
    """Return the calls of the last answer: those to run, and those that the user declined.

    Of several calls with one id only the last one counts: the user is asked one question per id.
    """
    last = state["messages"][-1]
    calls: dict[str, ToolCall] = {}
    if isinstance(last, AIMessage):
        for call in last.tool_calls:
            calls[str(call["id"])] = call
    wanted: list[ToolCall] = []
    declined: list[ToolCall] = []
    for call_id, call in calls.items():
        if call_id in state.get("declined", ()):
            declined.append(call)
        else:
            wanted.append(call)
    return wanted, declined


async def run_calls(
    node: ToolNode, state: SupervisorState, wanted: list[ToolCall], declined: list[ToolCall]
) -> SupervisorState:
    """Run the wanted calls in parallel, and refuse the declined ones.

    The contents of the results are for this turn only.
    """
    earlier = state["messages"][:-1]
    answered = await node.ainvoke({**state, "messages": [*earlier, AIMessage("", tool_calls=wanted)]})
    results, contents = split_contents(answered["messages"])
    refused = [_refusal(call) for call in declined]
    return {"messages": [*refused, *results], "tool_answers": {**state.get("tool_answers", {}), **contents}}


def _refusal(call: ToolCall) -> ToolMessage:
    return ToolMessage(DECLINED, tool_call_id=str(call["id"]), name=call["name"], status="error")


async def observe(resources: Resources, identity: Identity, state: SupervisorState) -> None:
    """Store the turn and start due formations, without waiting for a model."""
    messages = dialogue(state["messages"])
    await observe_turn(resources, identity, messages, revision=state.get("memory_revision"))
    form_later(resources, identity)
