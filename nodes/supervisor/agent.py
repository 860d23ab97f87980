"""The supervisor's chat model: its next message, and what of that the user is asked about before it is done."""

from collections.abc import Mapping, Sequence
from itertools import takewhile
from typing import Final

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from langchain_core.tools import BaseTool
from langgraph.runtime import Runtime
from pydantic import ValidationError

from mnemic.operations.explicit.forget import forgettable
from mnemic.operations.messages.transcript import transcript
from mnemic.operations.recall.turn import RecallGraph, recall_turn
from mnemic.operations.run.graph import SupervisorNode, stream_progress
from mnemic.operations.run.identity import supervisor_identity
from mnemic.operations.run.model_step import agent_models, run_answer_metered
from mnemic.operations.run.resources import Provider, Resources
from mnemic.prompts.supervise import system_prompt
from mnemic.prompts.tools import ForgetArguments
from mnemic.state.identity import Identity
from mnemic.state.records import Memory
from mnemic.state.supervisor import MemoryState, Question, SupervisorState

FORGET = "forget"
#: Answers of one turn that may call tools; the next one has to do without, so that every turn ends.
MOST_CALLING: Final = 12
#: From here on the user is asked; and so they are about a core memory, which every prompt shows.
_IMPORTANT = 4


def answer(provide: Provider, recalls: RecallGraph, tools: Sequence[BaseTool]) -> SupervisorNode:
    """The agent's next message. After an interrupt, which loses the context, memory is asked again."""

    async def run(state: SupervisorState, runtime: Runtime[Identity]) -> SupervisorState:
        stream_progress(runtime, "answer")
        resources, identity = await provide(), supervisor_identity(runtime)
        recalled = await _recalled(recalls, state, identity)
        settings, models = await agent_models(resources, identity)
        system = system_prompt(settings.persona, recalled["memory_context"])
        conversation = transcript(system, state["messages"], state.get("tool_answers", {}))
        offered = tools if _calling(state["messages"]) < MOST_CALLING else ()
        message = await run_answer_metered(resources, identity, models, offered, conversation)
        questions = await _questions(resources, identity, message)
        update: SupervisorState = {"messages": [message], "questions": questions}
        return {**update, **recalled}

    return run


def _calling(messages: Sequence[AnyMessage]) -> int:
    """How many answers of this turn have called tools."""
    turn = takewhile(lambda message: not isinstance(message, HumanMessage), reversed(messages))
    return sum(isinstance(message, AIMessage) and bool(message.tool_calls) for message in turn)


async def _recalled(recalls: RecallGraph, state: SupervisorState, identity: Identity) -> MemoryState:
    if "memory_context" not in state:
        return await recall_turn(recalls, identity, state["messages"])
    return {"memory_context": state["memory_context"], "memory_revision": state.get("memory_revision")}


async def _questions(resources: Resources, identity: Identity, message: AIMessage) -> dict[str, Question]:
    """What the user is asked about, by the ids of the calls."""
    wanted = {str(call["id"]): call["args"] for call in message.tool_calls if call["name"] == FORGET}
    ids = {call_id: parsed.id for call_id, given in wanted.items() if (parsed := _parsed(given))}
    if not ids:
        return {}
    memories = {memory.id: memory for memory in await forgettable(resources, identity, ids.values())}
    return {
        call_id: {"id": str(memory.id), "kind": memory.kind, "importance": memory.importance}
        for call_id, memory_id in ids.items()
        if (memory := memories.get(memory_id)) and _is_important(memory)
    }


def _parsed(given: Mapping[str, object]) -> ForgetArguments | None:
    """The call as the tool reads it; None where the tool refuses it."""
    try:
        return ForgetArguments.model_validate(given)
    except ValidationError:
        return None


def _is_important(memory: Memory) -> bool:
    return memory.kind == "core" or memory.importance >= _IMPORTANT
