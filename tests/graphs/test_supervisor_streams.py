"""What a host sees that streams the supervisor: its own words as they come, names of steps, nothing of the memory."""

from typing import Any

import pytest
from langchain_core.messages import AIMessage, AIMessageChunk, HumanMessage

from mnemic import Mnemic
from mnemic.models import tool_calls
from mnemic.operations.run.resources import Resources
from mnemic.service.memory import Mnemic as Service
from tests.support.fixtures import memory as memory
from tests.support.loopback import LoopbackModel, calling
from tests.support.scripted import FACTS, fact, facts, scripted_resources
from tests.support.server import Clone
from tests.support.supervised import ANA, BEES, CANARY, keep, not_streaming, requests, says

ASKED = "Do you remember where my bees are?"
WORDS = "They are on the quay."


async def streamed(memory: Mnemic, mode: Any, text: str = ASKED, **given: Any) -> list[Any]:
    stream = memory.graphs.supervisor().astream(
        {"messages": [HumanMessage(text)]}, context=ANA, stream_mode=mode, **given
    )
    return [part async for part in stream]


def delegating(model: LoopbackModel) -> None:
    """A turn with a search of its own, a sub-agent's, and words beside them."""
    asks = calling(("memory_query", {"query": "bees"}), ("researcher", {"task": "What of the bees?"}))
    says(model, asks, WORDS)
    of_researcher = calling(("memory_query", {"query": "bees"}))
    model.answer(lambda request: "as its researcher" in str(request), of_researcher, f"They are called {CANARY}.")
    model.answer(FACTS, facts(fact(BEES)))


@pytest.mark.parametrize("subgraphs", [pytest.param(False, marks=pytest.mark.thorough), True])
async def test_its_own_words_come_piece_by_piece_and_no_others(
    memory: Mnemic, resources: Resources, model: LoopbackModel, subgraphs: bool
) -> None:
    await memory.configure_agent(ANA, formation_mode="per_turn", formation_min_messages=1)
    await keep(memory)
    delegating(model)
    parts = await streamed(memory, "messages", subgraphs=subgraphs)
    await resources.background.finish()

    messages = [part[1][0] if subgraphs else part[0] for part in parts]
    pieces = [item.text for item in messages if isinstance(item, AIMessageChunk) and item.text]
    assert "".join(pieces) == WORDS
    assert len(pieces) == len(WORDS.split())
    assert CANARY not in str(parts)
    assert sum(request.get("stream", False) for request in model.chat_requests) == len(requests(model)) == 2


async def test_the_words_of_a_model_that_does_not_stream_come_whole_and_once(
    memory: Mnemic, model: LoopbackModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    not_streaming(monkeypatch)
    says(model, calling(("memory_query", {"query": "bees"}), text="I look."), WORDS)
    messages = [part[0] for part in await streamed(memory, "messages")]
    assert [item.text for item in messages if isinstance(item, AIMessage)] == ["I look.", WORDS]
    assert not any(isinstance(item, AIMessageChunk) for item in messages)


async def test_progress_is_names(memory: Mnemic, model: LoopbackModel) -> None:
    await keep(memory)
    delegating(model)
    unknown: tuple[str, dict[str, Any]] = (CANARY, {})  # what a model calls a tool is not repeated
    says(model, calling(("memory_query", {"query": "bees"}), ("researcher", {"task": "Bees?"}), unknown), WORDS)
    assert await streamed(memory, "custom") == [
        {"step": "recall"},
        {"step": "answer"},
        {"step": "tools", "tools": ["memory_query", "researcher"]},
        {"step": "answer"},
        {"step": "observe"},
    ]


async def test_the_words_of_the_offline_model_come_too(clean_db: Clone, model: LoopbackModel) -> None:
    async with scripted_resources(clean_db, model, agent_model="offline") as resources:
        memory = Service(resources)
        await keep(memory, "Ana keeps bees on the quay.")
        pieces = [part[0].text for part in await streamed(memory, "messages")]
    assert "".join(pieces).endswith("Ana keeps bees on the quay.")


HALF = '{"content": "Ana sells her boat'


async def test_a_call_that_broke_off_while_it_was_streamed_is_not_done(memory: Mnemic, model: LoopbackModel) -> None:
    says(model, calling(("remember", f'{HALF}", "category": "interests", "importance": 3, "priv')), WORDS)
    await streamed(memory, "messages", "I sell my boat.")
    assert await memory.memories(ANA) == []


@pytest.mark.thorough
async def test_control_langchain_would_have_completed_it(
    memory: Mnemic, model: LoopbackModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tool_calls, "_is_json", lambda text: True)
    says(model, calling(("remember", f'{HALF}", "category": "interests", "importance": 3, "priv')), WORDS)
    await streamed(memory, "messages", "I sell my boat.")
    assert [item.content for item in await memory.memories(ANA)] == ["Ana sells her boat"]
