"""The supervisor with a scripted model: turns of it, what its model was sent, and what its thread keeps."""

from typing import Any

import pytest
from langchain_core.messages import HumanMessage

from mnemic import Identity, Mnemic
from mnemic.graphs.supervisor import SupervisorGraph
from mnemic.models.chat import ChatModels
from tests.support.loopback import LoopbackModel, Request, calling, offering
from tests.support.worlds import identity

ANA = identity("ana", session="friday")
#: In every memory, and in nothing that anybody says.
CANARY = "Zinnober"
BEES = f"Ana keeps bees called {CANARY} on the quay."
QUESTION = "Do you remember where my bees are?"
SAID = "Quittengelb."
#: What the supervisor's own model is offered and no sub-agent is.
DELEGATE = offering("planner")


def says(model: LoopbackModel, *answers: Any) -> None:
    """What the supervisor's model answers, in turn."""
    model.answer(DELEGATE, *answers)


def not_streaming(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every model answers whole, as one does that cannot stream."""
    usual = ChatModels.get

    def whole(*given: Any, **named: Any) -> Any:
        made = usual(*given, **named)
        return made and made.model_copy(update={"disable_streaming": True})

    monkeypatch.setattr(ChatModels, "get", whole)


def forgetting(*ids: object) -> dict[str, Any]:
    """An answer that has these memories forgotten."""
    return calling(*(("forget", {"id": str(item)}) for item in ids))


async def keep(memory: Mnemic, content: str = BEES, *, importance: int = 3, **given: Any) -> str:
    """A memory of Ana's from another session; its id."""
    elsewhere = ANA.model_copy(update={"session_id": "monday"})
    kept = await memory.remember(elsewhere, content, category="interests", importance=importance, **given)
    return str(kept.id)


def thread(session: str = "friday") -> Any:
    return {"configurable": {"thread_id": session}}


async def turn(graph: SupervisorGraph, text: str = QUESTION, who: Identity = ANA, **given: Any) -> Any:
    """What a turn leaves."""
    return await graph.ainvoke({"messages": [HumanMessage(text)]}, thread(who.session_id or "t"), context=who, **given)


def requests(model: LoopbackModel) -> list[Request]:
    """What the supervisor's model was sent."""
    return [request for request in model.chat_requests if DELEGATE(request)]


def system_of(request: Request) -> str:
    (system,) = [message["content"] for message in request["messages"] if message["role"] == "system"]
    return str(system)


def answers_of(request: Request) -> list[str]:
    """What the model reads of tools."""
    return [str(message["content"]) for message in request["messages"] if message["role"] == "tool"]
