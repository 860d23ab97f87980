"""A message that cannot be stored, or that a provider refuses, ends neither its thread nor the thread's memory."""

import json
import logging
from typing import Any

import psycopg
import pytest
from langchain_core.messages import AIMessage, HumanMessage, RemoveMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver

from mnemic import Mnemic
from mnemic.prompts.supervise import NOT_ANSWERED, WORDLESS
from mnemic.state.errors import InvalidInputError, ModelOutputError
from tests.support.fixtures import memory as memory
from tests.support.loopback import LoopbackModel, Request, calling
from tests.support.supervised import ANA, SAID, answers_of, keep, requests, says, thread, turn

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
    return 400 if "image_url" in json.dumps(request["messages"]) else SAID


async def test_a_message_that_could_not_be_stored_is_refused_before_it_is_answered(
    memory: Mnemic, model: LoopbackModel, superuser: psycopg.Connection, caplog: pytest.LogCaptureFixture
) -> None:
    says(model, SAID)
    graph = memory.graphs.supervisor(memory.checkpointer(ANA))
    for bad in UNSTORABLE:
        with pytest.raises(InvalidInputError, match="is not answered: ") as refused:
            await graph.ainvoke({"messages": [HumanMessage(CANARY, **bad)]}, thread(), context=ANA)
        assert CANARY not in str(refused.value)
    assert requests(model) == []
    for text in ("My name is Marit.", "I live in Oslo."):
        assert (await turn(graph, text))["messages"][-1].text == SAID
    assert users(superuser) == ["My name is Marit.", "I live in Oslo."]
    warnings = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert f"are left out: {len(UNSTORABLE)}, such as message 1: " in warnings[0]
    assert CANARY not in caplog.text


async def test_a_part_that_nobody_can_read_is_refused_before_it_is_saved(memory: Mnemic, model: LoopbackModel) -> None:
    says(model, SAID)
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
    assert done["messages"][-1].text == SAID
    assert sent(model) == [f"Look.\n{WORDLESS}", "Never mind."]
    assert done["messages"][0].content == LOOK  # the thread keeps it


async def test_a_picture_is_shown_in_every_request_of_its_own_turn(memory: Mnemic, model: LoopbackModel) -> None:
    says(model, calling(("memory_query", {"query": "bees"})), SAID)
    graph = memory.graphs.supervisor(InMemorySaver())
    await graph.ainvoke({"messages": [HumanMessage(list(LOOK))]}, thread(), context=ANA)
    assert [PICTURE in request["messages"][1]["content"] for request in requests(model)] == [True, True]


async def test_an_earlier_message_without_words_is_not_sent_empty(memory: Mnemic, model: LoopbackModel) -> None:
    says(model, SAID)
    graph = memory.graphs.supervisor(InMemorySaver())
    wordless: list[Any] = ["", " ", [], [PICTURE]]
    for content in wordless:
        await graph.ainvoke({"messages": [HumanMessage(content)]}, thread(), context=ANA)
    await turn(graph, "Hello.")
    assert sent(model) == [*[WORDLESS] * len(wordless), "Hello."]


async def test_a_display_name_is_sent_as_providers_take_it(memory: Mnemic, model: LoopbackModel) -> None:
    says(model, SAID)
    said = HumanMessage("Hello.", name="Zoë <de> Vries/" + "x" * 100)
    await memory.graphs.supervisor().ainvoke({"messages": [said]}, context=ANA)
    assert requests(model)[-1]["messages"][-1]["name"] == f"Zoë_de_Vries_{'x' * 51}"


async def test_a_thread_is_cured_of_what_its_model_refuses(memory: Mnemic, model: LoopbackModel) -> None:
    says(model, lambda request: 400 if CANARY in str(request["messages"]) else SAID)
    graph = memory.graphs.supervisor(memory.checkpointer(ANA))
    for text in (CANARY, "Hello?"):
        with pytest.raises(ModelOutputError):
            await turn(graph, text)
    refused = (await graph.aget_state(thread())).values["messages"][0]
    await graph.aupdate_state(memory.thread(ANA), {"messages": [RemoveMessage(refused.id)]}, as_node="observe")
    done = await turn(graph, "Hello again.")
    assert [item.text for item in done["messages"]] == ["Hello?", "Hello again.", SAID]


async def test_a_message_edited_under_its_id_is_remembered_as_it_was_answered(
    memory: Mnemic, model: LoopbackModel, superuser: psycopg.Connection
) -> None:
    says(model, SAID)
    graph = memory.graphs.supervisor(memory.checkpointer(ANA))
    await graph.ainvoke({"messages": [HumanMessage("I moved to Ghent.", id="m1")]}, thread(), context=ANA)
    history = [state async for state in graph.aget_state_history(thread())]
    before = next(state for state in history if state.next == ("recall",))
    edit = {"messages": [HumanMessage("I moved to Bruges.", id="m1")]}
    fork = await graph.aupdate_state(before.config, edit, as_node="__start__")
    await graph.ainvoke(None, fork, context=ANA)
    assert sent(model) == users(superuser) == ["I moved to Bruges."]


async def test_a_new_thread_may_begin_with_an_answer_that_calls(memory: Mnemic, model: LoopbackModel) -> None:
    says(model, SAID)
    graph = memory.graphs.supervisor(memory.checkpointer(ANA))
    call = AIMessage("", tool_calls=[{"name": "memory_query", "args": {"query": "bees"}, "id": "c1"}])
    config = memory.thread(ANA)
    await graph.aupdate_state(config, {"messages": [HumanMessage("Well?"), call]}, as_node="agent")
    done = await graph.ainvoke(None, config, context=ANA)
    assert [item.type for item in done["messages"]] == ["human", "ai", "tool", "ai"]


async def test_a_call_whose_answer_was_taken_out_is_not_said_to_be_undone(memory: Mnemic, model: LoopbackModel) -> None:
    told = {"content": "Ana sells her boat", "category": "interests", "importance": 3}
    says(model, calling(("remember", told)), SAID)
    graph = memory.graphs.supervisor(memory.checkpointer(ANA))
    done = await turn(graph, "Keep that.")
    (answer,) = [item for item in done["messages"] if isinstance(item, ToolMessage)]
    given: Any = {"messages": [RemoveMessage(str(answer.id)), HumanMessage("And now?")]}
    await graph.ainvoke(given, thread(), context=ANA)
    assert answers_of(requests(model)[-1]) == [NOT_ANSWERED]
    assert "may have been done" in NOT_ANSWERED


async def test_half_a_character_beside_a_call_to_mend_is_no_error(memory: Mnemic, model: LoopbackModel) -> None:
    await keep(memory)
    says(model, calling(("memory_query", {"query": "half \ud83d"}), text=f"{CANARY} \ud83d"), SAID)
    done = await turn(memory.graphs.supervisor(memory.checkpointer(ANA)))
    assert [item.text for item in done["messages"] if isinstance(item, AIMessage)] == [f"{CANARY} ?", SAID]
