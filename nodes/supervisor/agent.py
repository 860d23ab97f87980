"""The supervisor's chat model: its next message, and what of that the user is asked about before it is done."""

from collections.abc import Mapping, Sequence
from itertools import takewhile
from typing import Final

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from langchain_core.tools import BaseTool
from langgraph.runtime import Runtime
from pydantic import ValidationError

from mnemic.nodes.supervisor.progress import tell
from mnemic.operations.explicit.forget import forgettable
from mnemic.operations.messages.transcript import transcript
from mnemic.operations.messages.turn import Asked, TurnMemory, recall_turn
from mnemic.operations.run.identity import supervising
from mnemic.operations.run.model_step import agent_models, perform_answer
from mnemic.operations.run.node_types import SupervisorNode
from mnemic.operations.run.resources import Provider, Resources
from mnemic.prompts.explicit import ForgetArguments
from mnemic.prompts.supervise import system_prompt
from mnemic.state.host import MemoryState
from mnemic.state.identity import Identity
from mnemic.state.records import Memory
from mnemic.state.supervisor import Question, SupervisorState

FORGET = "forget"
#: Answers of one turn that may call tools; the next one has to do without, so that every turn ends.
MOST_CALLING: Final = 12
#: From here on the user is asked; and so they are about a core memory, which every prompt shows.
_IMPORTANT = 4


def answer(provide: Provider, memory: TurnMemory, tools: Sequence[BaseTool]) -> SupervisorNode:
    """The agent's next message. After an interrupt, which loses the context, memory is asked again."""

    async def answer(state: SupervisorState, runtime: Runtime[Identity]) -> SupervisorState:
        tell(runtime, "answer")
        resources, identity = await provide(), supervising(runtime)
        recalled = await _recalled(memory, state, identity)
        settings, models = await agent_models(resources, identity)
        system = system_prompt(settings.persona, recalled["memory_context"])
        said = transcript(system, state["messages"], state.get("tool_answers", {}))
        offered = tools if _calling(state["messages"]) < MOST_CALLING else ()
        message = await perform_answer(resources, identity, models, offered, said)
        told: SupervisorState = {
            "messages": [message],
            "questions": await _questions(resources, identity, message),
        }
        return {**told, **recalled}

    return answer


def _calling(messages: Sequence[AnyMessage]) -> int:
    """How many answers of this turn have called tools."""
    turn = takewhile(lambda message: not isinstance(message, HumanMessage), reversed(messages))
    return sum(isinstance(message, AIMessage) and bool(message.tool_calls) for message in turn)


async def _recalled(memory: TurnMemory, state: SupervisorState, identity: Identity) -> MemoryState:
    if "memory_context" not in state:
        return await recall_turn(memory, identity, state["messages"], Asked())
    return {"memory_context": state["memory_context"], "memory_revision": state.get("memory_revision")}


async def _questions(resources: Resources, identity: Identity, message: AIMessage) -> dict[str, Question]:
    """What the user is asked about, by the ids of the calls."""
    wanted = {str(call["id"]): call["args"] for call in message.tool_calls if call["name"] == FORGET}
    ids = {call_id: parsed.id for call_id, given in wanted.items() if (parsed := _parsed(given))}
    if not ids:
        return {}
    important = {one.id: one for one in await forgettable(resources, identity, ids.values()) if _is_important(one)}
    return {call_id: _question(important[of]) for call_id, of in ids.items() if of in important}


def _parsed(given: Mapping[str, object]) -> ForgetArguments | None:
    """The call as the tool reads it; None where the tool refuses it."""
    try:
        return ForgetArguments.model_validate(given)
    except ValidationError:
        return None


def _question(memory: Memory) -> Question:
    return {"id": str(memory.id), "kind": memory.kind, "importance": memory.importance}


def _is_important(memory: Memory) -> bool:
    return memory.kind == "core" or memory.importance >= _IMPORTANT
