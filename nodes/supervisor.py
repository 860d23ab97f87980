"""Nodes of the supervisor: recall, answer, request consent, run the calls, and observe."""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from itertools import takewhile
from typing import Final

from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.tools import BaseTool
from langgraph.prebuilt import ToolNode
from langgraph.runtime import Runtime
from langgraph.types import interrupt
from pydantic import ValidationError

from mnemic.memory.explicit.correct import correctable
from mnemic.memory.explicit.forget import forgettable
from mnemic.memory.messages.incoming import require_storable
from mnemic.memory.messages.turn import begin_turn, form_later, observe_turn, recall_turn, store_turn
from mnemic.memory.runtime.agent_settings import agent_settings
from mnemic.memory.runtime.graph import AnyGraph
from mnemic.memory.runtime.identity import identity_of
from mnemic.memory.runtime.resources import Resources
from mnemic.memory.runtime.transcript import spoken, transcript, without_contents
from mnemic.memory.runtime.usage import track_usage
from mnemic.memory.text.shape import clean_text
from mnemic.models.tool_calls import run_answer
from mnemic.prompts.explicit.tools import CorrectArguments, ForgetArguments
from mnemic.prompts.messages.supervise import DECLINED, system_prompt
from mnemic.prompts.recall.request import with_memory
from mnemic.state.errors import InvalidInputError
from mnemic.state.identity import SUPERVISOR, Identity
from mnemic.state.records import Memory
from mnemic.state.supervisor import Consent, Question, SupervisorState

#: Tools that may need the user's consent: their arguments, and a function that returns the memories concerned.
_ASKING: Final[dict[str, tuple[type[ForgetArguments], Callable[..., Awaitable[list[Memory]]]]]] = {
    "forget": (ForgetArguments, forgettable),
    "correct": (CorrectArguments, correctable),
}
#: Maximum number of answers with tool calls in one turn; the next answer has no tools, so that every turn ends.
MAX_CALLING: Final = 12
#: Importance from which consent is needed. A core memory, which every prompt shows, always needs it.
_IMPORTANT = 4


async def recall(
    state: SupervisorState, resources: Resources, runtime: Runtime[Identity], recalls: AnyGraph
) -> SupervisorState:
    """Recall for the user's message, and store it meanwhile; reset the channels of an earlier turn.

    The context goes into a channel that no checkpoint holds.
    """
    runtime.stream_writer({"step": "recall"})
    messages = state["messages"]
    if not messages or not isinstance(messages[-1], HumanMessage) or messages[-1].content is None:
        raise InvalidInputError("messages: a turn begins with a message of the user")
    identity = _identity(runtime)
    # check the last message before it is answered; earlier refused ones stay in the thread
    require_storable(messages[-1], identity)
    fresh: SupervisorState = {"tool_answers": {}, "questions": {}, "declined": []}
    storing = store_turn(resources, identity, spoken(messages))
    return {**fresh, **await begin_turn(recall_turn(recalls, identity, messages), storing)}


async def answer(
    state: SupervisorState,
    resources: Resources,
    runtime: Runtime[Identity],
    recalls: AnyGraph,
    tools: Sequence[BaseTool],
) -> SupervisorState:
    """Return the agent's next message. After an interrupt, which loses the context, recall runs again."""
    runtime.stream_writer({"step": "answer"})
    identity = _identity(runtime)
    if "memory_context" not in state:
        state = {**state, **await recall_turn(recalls, identity, state["messages"])}
    settings = await agent_settings(resources, identity)
    said = transcript(system_prompt(settings.persona), state["messages"], state.get("tool_answers", {}))
    conversation = with_memory(said, state["memory_context"])
    turn = takewhile(lambda item: not isinstance(item, HumanMessage), reversed(state["messages"]))
    calling = sum(isinstance(item, AIMessage) and bool(item.tool_calls) for item in turn)
    offered = tools if calling < MAX_CALLING else ()
    running = run_answer(conversation, offered, resources.models.with_settings(settings))
    message = (await track_usage(resources, identity, running)).output
    return {
        "messages": [message],
        "questions": await _questions(resources, identity, message),
        "memory_context": state["memory_context"],
        "memory_revision": state.get("memory_revision"),
    }


async def confirm(state: SupervisorState, runtime: Runtime[Identity]) -> SupervisorState:
    """Interrupt the turn for consent. No call has run yet, so none runs twice.

    A reply that is no `Consent` leaves the question open.
    """
    questions = state["questions"]
    memories = {(question["id"], question.get("content")): question for question in questions.values()}
    action = "correct" if all("content" in question for question in memories.values()) else "forget"
    consent = interrupt({"action": action, "memories": list(memories.values())}, response_schema=Consent)
    runtime.stream_writer({"step": "confirm"})
    return {"declined": [] if consent.approved else list(questions)}


async def use_tools(state: SupervisorState, runtime: Runtime[Identity], node: ToolNode) -> SupervisorState:
    """Run the calls in parallel, except declined ones; their results are for this turn only."""
    *earlier, last = state["messages"]
    calls = {str(call["id"]): call for call in last.tool_calls} if isinstance(last, AIMessage) else {}
    declined = [call_id for call_id in state.get("declined", ()) if call_id in calls]
    wanted = [call for call_id, call in calls.items() if call_id not in declined]
    # names only: the arguments of calls are not streamed
    names = [name for call in wanted if (name := call["name"]) in node.tools_by_name]
    runtime.stream_writer({"step": "tools", "tools": names})
    names_of = {call_id: calls[call_id]["name"] for call_id in declined}
    refused = [ToolMessage(DECLINED, tool_call_id=key, name=name, status="error") for key, name in names_of.items()]
    asking = AIMessage("", tool_calls=wanted)
    answered = await node.ainvoke({**state, "messages": [*earlier, asking]})
    kept, contents = without_contents(answered["messages"])
    return {"messages": [*refused, *kept], "tool_answers": {**state.get("tool_answers", {}), **contents}}


async def observe(
    state: SupervisorState, resources: Resources, runtime: Runtime[Identity], formation: AnyGraph
) -> SupervisorState:
    """Store the turn and start due formations, without waiting for a model."""
    runtime.stream_writer({"step": "observe"})
    identity = _identity(runtime)
    await observe_turn(resources, identity, spoken(state["messages"]), revision=state.get("memory_revision"))
    form_later(resources, formation, identity)
    return {}


def _identity(runtime: Runtime[Identity]) -> Identity:
    """Return the identity of a turn, in the supervisor's role."""
    return identity_of(runtime, in_turn=True).model_copy(update={"role": SUPERVISOR})


async def _questions(resources: Resources, identity: Identity, message: AIMessage) -> dict[str, Question]:
    """Return the questions of consent to the user, by the ids of the calls."""
    questions: dict[str, Question] = {}
    for name, (arguments, reachable) in _ASKING.items():
        wanted: dict[str, ForgetArguments] = {}
        for call in message.tool_calls:
            if call["name"] == name:
                with suppress(ValidationError):  # the tool will refuse it
                    wanted[str(call["id"])] = arguments.model_validate(call["args"])
        ids = [given.id for given in wanted.values()]
        memories = {memory.id: memory for memory in await reachable(resources, identity, ids)} if ids else {}
        for call_id, given in wanted.items():
            memory = memories.get(given.id)
            if memory and (memory.kind == "core" or memory.importance >= _IMPORTANT):
                questions[call_id] = _question(memory, given)
    return questions


def _question(memory: Memory, given: ForgetArguments) -> Question:
    question: Question = {"id": str(memory.id), "kind": memory.kind, "importance": memory.importance}
    return {**question, "content": clean_text(given.content)} if isinstance(given, CorrectArguments) else question
