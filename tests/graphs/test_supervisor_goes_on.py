"""A message that cannot be stored, or that a provider refuses, ends neither its thread nor the thread's memory."""

import json
import logging
from typing import Any

import psycopg
import pytest
from langchain_core.messages import AIMessage, HumanMessage, RemoveMessage
from langgraph.checkpoint.memory import InMemorySaver

from mnemic import Mnemic
from mnemic.prompts.supervise import WORDLESS
from mnemic.state.errors import InvalidInputError, ModelOutputError
from tests.support.agents import ANA, VISIBLE, keep, requests, says, thread, turn
from tests.support.loopback import LoopbackModel, Request, calling
from tests.support.scripted import memory as memory

CANARY = "Kaliningrad"
PICTURE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
LOOK: list[Any] = [{"type": "text", "text": "Look."}, PICTURE]
UNSTORABLE: list[dict[str, Any]] = [
    {"name": ""},
    {"name": " Ana"},
    {"name": "Ana\tB"},
    {"id": "x" * 1001},
    {"additional_kwargs": {"user": {"id": "ana"}}},
    {"additional_kwargs": {"user": 5}},
]


def users(superuser: psycopg.Connection) -> list[str]:
    """What users said that is stored."""
    rows = superuser.execute("select content from mnemic.messages where role = 'user' order by place")
    return [content for (content,) in rows]


def sent(model: LoopbackModel) -> list[Any]:
    """What the model was last sent of the user's words."""
    return [message["content"] for message in requests(model)[-1]["messages"] if message["role"] == "user"]


def refuses_pictures(request: Request) -> Any:
    return 400 if "image_url" in json.dumps(request["messages"]) else VISIBLE


async def test_a_message_that_could_not_be_stored_is_refused_before_it_is_answered(
    memory: Mnemic, model: LoopbackModel, superuser: psycopg.Connection, caplog: pytest.LogCaptureFixture
) -> None:
    says(model, VISIBLE)
    graph = memory.graphs.supervisor(memory.checkpointer(ANA))
    for bad in UNSTORABLE:
        with pytest.raises(InvalidInputError, match="is not answered: ") as refused:
            await graph.ainvoke({"messages": [HumanMessage(CANARY, **bad)]}, thread(), context=ANA)
        assert CANARY not in str(refused.value)
    assert requests(model) == []
    for text in ("My name is Marit.", "I live in Oslo."):
        assert (await turn(graph, text))["messages"][-1].text == VISIBLE
    assert users(superuser) == ["My name is Marit.", "I live in Oslo."]
    warnings = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert f"are left out: {len(UNSTORABLE)}, such as message 1: " in warnings[0]
    assert CANARY not in caplog.text


async def test_a_part_that_nobody_can_read_is_refused_before_it_is_saved(memory: Mnemic, model: LoopbackModel) -> None:
    says(model, VISIBLE)
    graph = memory.graphs.supervisor(memory.checkpointer(ANA))
    await turn(graph, "Hello.")
    parts: list[Any] = [{"type": "text", "text": {"value": CANARY}}, {"type": "text", "text": 5}, 7, None]
    for part in parts:
        message: Any = {"role": "user", "content": [{"type": "text", "text": CANARY}, part]}
        with pytest.raises(InvalidInputError, match="a list of parts with text") as refused:
            await graph.ainvoke({"messages": [message]}, thread(), context=ANA)
        assert CANARY not in str(refused.value)
    await turn(graph, "Are you there?")
    assert sent(model) == ["Hello.", "Are you there?"]


async def test_a_picture_that_the_model_refuses_costs_its_own_turn_alone(memory: Mnemic, model: LoopbackModel) -> None:
    says(model, refuses_pictures)
    graph = memory.graphs.supervisor(memory.checkpointer(ANA))
    with pytest.raises(ModelOutputError, match="refused this request"):
        await graph.ainvoke({"messages": [HumanMessage(list(LOOK))]}, thread(), context=ANA)
    done = await turn(graph, "Never mind.")
    assert done["messages"][-1].text == VISIBLE
    assert sent(model) == [f"Look.\n{WORDLESS}", "Never mind."]
    assert done["messages"][0].content == LOOK  # the thread keeps it


async def test_a_picture_is_shown_in_every_request_of_its_own_turn(memory: Mnemic, model: LoopbackModel) -> None:
    says(model, calling(("memory_query", {"query": "bees"})), VISIBLE)
    graph = memory.graphs.supervisor(InMemorySaver())
    await graph.ainvoke({"messages": [HumanMessage(list(LOOK))]}, thread(), context=ANA)
    assert [PICTURE in request["messages"][1]["content"] for request in requests(model)] == [True, True]


async def test_an_earlier_message_without_words_is_not_sent_empty(memory: Mnemic, model: LoopbackModel) -> None:
    says(model, VISIBLE)
    graph = memory.graphs.supervisor(InMemorySaver())
    wordless: list[Any] = ["", " ", [], [PICTURE]]
    for content in wordless:
        await graph.ainvoke({"messages": [HumanMessage(content)]}, thread(), context=ANA)
    await turn(graph, "Hello.")
    assert sent(model) == [*[WORDLESS] * len(wordless), "Hello."]


async def test_a_display_name_is_sent_as_providers_take_it(memory: Mnemic, model: LoopbackModel) -> None:
    says(model, VISIBLE)
    said = HumanMessage("Hello.", name="Zoë <de> Vries/" + "x" * 100)
    await memory.graphs.supervisor().ainvoke({"messages": [said]}, context=ANA)
    assert requests(model)[-1]["messages"][-1]["name"] == f"Zoë_de_Vries_{'x' * 51}"


async def test_a_thread_is_cured_of_what_its_model_refuses(memory: Mnemic, model: LoopbackModel) -> None:
    says(model, lambda request: 400 if CANARY in str(request["messages"]) else VISIBLE)
    graph = memory.graphs.supervisor(memory.checkpointer(ANA))
    for text in (CANARY, "Hello?"):
        with pytest.raises(ModelOutputError):
            await turn(graph, text)
    refused = (await graph.aget_state(thread())).values["messages"][0]
    await graph.aupdate_state(memory.thread(ANA), {"messages": [RemoveMessage(refused.id)]}, as_node="observe")
    done = await turn(graph, "Hello again.")
    assert [item.text for item in done["messages"]] == ["Hello?", "Hello again.", VISIBLE]


async def test_half_a_character_beside_a_call_to_mend_is_no_error(memory: Mnemic, model: LoopbackModel) -> None:
    await keep(memory)
    says(model, calling(("memory_query", {"query": "half \ud83d"}), text=f"{CANARY} \ud83d"), VISIBLE)
    done = await turn(memory.graphs.supervisor(memory.checkpointer(ANA)))
    assert [item.text for item in done["messages"] if isinstance(item, AIMessage)] == [f"{CANARY} ?", VISIBLE]
