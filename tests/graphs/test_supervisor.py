"""The supervisor's turns: memory in, what was said out, tools once; what cannot be stored or sent ends no thread."""

import logging
import re
from typing import Any

import psycopg
import pytest
from langchain_core.messages import AIMessage, AIMessageChunk, HumanMessage, RemoveMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver

from mnemic import Mnemic
from mnemic.memory.messages.supervisor import MAX_CALLING
from mnemic.memory.runtime.resources import Resources
from mnemic.models import tool_calls
from mnemic.prompts.messages.supervise import ANSWERED, NOT_ANSWERED, WORDLESS
from mnemic.state.errors import InvalidInputError, MissingIdentityError, ModelError, ModelOutputError
from tests.support.agents import (
    ANA,
    CANARY,
    KEPT,
    QUESTION,
    VISIBLE,
    answers_of,
    asked_in,
    forgetting,
    keep,
    requests,
    says,
    stored,
    system_of,
    thread,
    turn,
)
from tests.support.loopback import LoopbackModel, Reply, Request, calling
from tests.support.scripted import FACTS, asked, fact, facts, last_prompt
from tests.support.worlds import identity


async def test_what_is_remembered_stands_in_the_prompt_and_what_is_said_goes_in(
    memory: Mnemic, model: LoopbackModel, superuser: psycopg.Connection
) -> None:
    await memory.admin.configure_agent(ANA, persona="You are the harbour master.")
    await keep(memory)
    says(model, VISIBLE)

    done = await turn(memory.graphs.supervisor())

    (request,) = requests(model)
    assert asked_in(request).startswith("<MemoryContext>")
    assert KEPT in asked_in(request)
    assert asked_in(request).endswith(f"</MemoryContext>\n\n{QUESTION}")
    assert KEPT not in system_of(request)
    assert "You are the harbour master." in system_of(request)
    assert [item.text for item in done["messages"]] == [QUESTION, VISIBLE]
    assert set(done) == {"messages"}
    assert stored(superuser) == [("user", QUESTION), ("assistant", VISIBLE)]


async def test_a_tools_answer_reaches_the_model_and_is_nobodys_words(
    memory: Mnemic, model: LoopbackModel, superuser: psycopg.Connection
) -> None:
    await keep(memory)
    model.answer(FACTS, facts(fact("Ana asked.")))
    says(model, calling(("memory_query", {"query": "bees"})), VISIBLE, VISIBLE)
    graph = memory.graphs.supervisor(InMemorySaver())

    done = await turn(graph, "Well?")
    (answer,) = answers_of(requests(model)[-1])
    assert KEPT in answer
    assert [item.text for item in done["messages"] if isinstance(item, ToolMessage)] == [ANSWERED]
    assert [item.artifact for item in done["messages"] if isinstance(item, ToolMessage)] == [None]

    await turn(graph, "Go on.")
    assert answers_of(requests(model)[-1]) == [ANSWERED]  # of an earlier turn
    await memory.form(ANA)
    assert {role for role, _ in stored(superuser)} == {"assistant", "user"}
    assert KEPT not in last_prompt(model, FACTS)


async def test_a_refused_call_says_why_and_the_turn_goes_on(memory: Mnemic, model: LoopbackModel) -> None:
    says(model, calling(("memory_query", {}), ("no_such_tool", {"query": "bees"})), VISIBLE)
    done = await turn(memory.graphs.supervisor())
    (used,) = [used for used in await memory.usage.tokens(ANA) if used.step == "converse"]
    assert (used.calls, used.input_tokens, used.output_tokens) == (2, 200, 20)
    refused, unknown = answers_of(requests(model)[-1])
    assert "query: is missing" in refused
    assert "no_such_tool is not a valid tool" in unknown
    assert done["messages"][-1].text == VISIBLE


async def test_what_a_broken_off_turn_left_open_is_answered_in_the_next(memory: Mnemic, model: LoopbackModel) -> None:
    kept = await keep(memory, importance=5)
    says(model, forgetting(kept), VISIBLE)
    graph = memory.graphs.supervisor(InMemorySaver())
    assert "__interrupt__" in await turn(graph, "Forget my bees.")

    await turn(graph, "Never mind, tell me of the quay.")  # nobody has answered

    *_, call, answer, said = requests(model)[-1]["messages"]
    assert (call["role"], answer["role"], said["role"]) == ("assistant", "tool", "user")
    assert (answer["content"], answer["tool_call_id"]) == (NOT_ANSWERED, call["tool_calls"][0]["id"])
    assert [str(item.id) for item in await memory.memories(ANA)] == [kept]


async def test_a_model_that_fails_is_an_error_and_the_thread_goes_on(
    memory: Mnemic, model: LoopbackModel, superuser: psycopg.Connection
) -> None:
    says(model, 500, 500, 500, Reply(message={"refusal": "I will not."}), VISIBLE)
    graph = memory.graphs.supervisor(InMemorySaver())
    with pytest.raises(ModelError, match="converse"):
        await turn(graph, "Hello?")
    assert stored(superuser) == [("user", "Hello?")]
    with pytest.raises(ModelOutputError, match=r"a refusal; the conversation is as it was before this answer\. Say it"):
        await turn(graph, "Are you there?")
    done = await turn(graph, "Well?")
    assert [item.text for item in done["messages"]] == ["Hello?", "Are you there?", "Well?", VISIBLE]
    assert [text for _, text in stored(superuser)] == ["Hello?", "Are you there?", "Well?", VISIBLE]


async def test_a_turn_begins_with_a_user(memory: Mnemic) -> None:
    begun: list[Any] = [[], [AIMessage("I begin.")], [{"role": "assistant", "content": "I begin."}]]
    for messages in begun:
        with pytest.raises(InvalidInputError, match="the last message must be of the role user, with content"):
            await memory.graphs.supervisor().ainvoke({"messages": messages}, context=ANA)


async def test_a_turn_of_no_user_is_refused_before_a_model_is_asked(memory: Mnemic, model: LoopbackModel) -> None:
    with pytest.raises(MissingIdentityError, match="user_id"):
        await turn(memory.graphs.supervisor(), who=identity(None, session="friday"))
    assert requests(model) == []


async def test_tools_list_valid_values_and_names_are_sent_as_providers_accept(
    memory: Mnemic, model: LoopbackModel
) -> None:
    says(model, VISIBLE)
    said = HumanMessage("Hello.", name="Zoë <de> Vries/" + "x" * 100)
    await memory.graphs.supervisor().ainvoke({"messages": [said]}, context=ANA)
    (request,) = requests(model)
    assert request["messages"][-1]["name"] == f"Zoë_de_Vries_{'x' * 51}"
    tools = {tool["function"]["name"]: str(tool) for tool in request["tools"]}
    assert set(tools) == {
        *("memory_query", "remember", "correct", "forget", "remember_procedure"),
        *("planner", "researcher", "executor"),
    }
    assert "relationship_dynamic" in tools["memory_query"]


async def test_the_session_is_the_thread_where_the_identity_names_none(
    memory: Mnemic, model: LoopbackModel, superuser: psycopg.Connection
) -> None:
    nowhere = ANA.model_copy(update={"session_id": None})
    kept = await keep(memory)
    says(model, forgetting(kept), calling(text=VISIBLE))
    await turn(memory.graphs.supervisor(InMemorySaver()), "Forget my bees.", nowhere)

    (forgotten,) = [operation for operation in await memory.history.operations(ANA) if operation.reason == "forget"]
    assert forgotten.session_id == "t"
    rows = superuser.execute("select role, content from mnemic.messages where session_id = 't' order by place")
    assert rows.fetchall() == [("user", "Forget my bees."), ("assistant", VISIBLE)]


async def test_a_model_that_never_stops_calling_is_brought_to_an_answer(memory: Mnemic, model: LoopbackModel) -> None:
    def asks_again(request: Request) -> Any:
        return calling(("memory_query", {"query": "bees"})) if request.get("tools") else VISIBLE

    model.answer(lambda request: True, asks_again)
    done = await turn(memory.graphs.supervisor(InMemorySaver()))

    assert done["messages"][-1].text == VISIBLE
    ids = [str(call["id"]) for item in done["messages"] if isinstance(item, AIMessage) for call in item.tool_calls]
    assert len(set(ids)) == MAX_CALLING  # though the model numbers them alike
    assert ids == [item.tool_call_id for item in done["messages"] if isinstance(item, ToolMessage)]


ASKED = "Do you remember where my bees are?"
WORDS = "They are on the quay."


async def streamed(memory: Mnemic, text: str = ASKED) -> list[Any]:
    """Namespace, mode and content of all that a host is shown of a turn, the graphs within it too."""
    stream = memory.graphs.supervisor().astream(
        {"messages": [HumanMessage(text)]}, context=ANA, stream_mode=["messages", "custom"], subgraphs=True
    )
    return [part async for part in stream]


async def test_own_answer_is_streamed_alone_and_progress_events_are_names(
    memory: Mnemic, resources: Resources, model: LoopbackModel
) -> None:
    await memory.admin.configure_agent(ANA, formation_mode="per_turn", formation_min_messages=1)
    await keep(memory)
    search: tuple[str, Any] = ("memory_query", {"query": "bees"})
    unknown: tuple[str, Any] = ("fly", {})  # what a model calls a tool is not repeated
    says(model, calling(search, ("researcher", {"task": "What of the bees?"}), unknown), WORDS)
    model.answer(lambda request: "as its researcher" in str(request), calling(search), f"They are called {CANARY}.")
    model.answer(FACTS, facts(fact(KEPT)))
    parts = await streamed(memory)
    await resources.background.finish()
    assert FACTS in asked(model)  # formed meanwhile

    messages = [part[0] for _, mode, part in parts if mode == "messages"]
    pieces = [item.text for item in messages if isinstance(item, AIMessageChunk) and item.text]
    assert "".join(pieces) == WORDS
    assert len(pieces) == len(WORDS.split())
    assert CANARY not in str(parts)
    assert sum(request.get("stream", False) for request in model.chat_requests) == len(requests(model)) == 2
    assert [part for _, mode, part in parts if mode == "custom"] == [
        {"step": "recall"},
        {"step": "answer"},
        {"step": "tools", "tools": ["memory_query", "researcher"]},
        {"step": "answer"},
        {"step": "observe"},
    ]


HALF = '{"content": "Ana sells her boat'


@pytest.mark.parametrize("taken", [False, pytest.param(True, marks=pytest.mark.thorough)], ids=["", "control"])
async def test_a_call_that_broke_off_while_it_was_streamed_is_not_done(
    memory: Mnemic, model: LoopbackModel, monkeypatch: pytest.MonkeyPatch, taken: bool
) -> None:
    """The control takes it as it comes, and LangChain completes it."""
    if taken:
        monkeypatch.setattr(tool_calls, "_is_json", lambda text: True)
    says(model, calling(("remember", f'{HALF}", "category": "activity", "importance": 3, "priv')), WORDS)
    await streamed(memory, "I sell my boat.")
    assert [item.content for item in await memory.memories(ANA)] == (["Ana sells her boat"] if taken else [])


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
UNREADABLE: list[Any] = [{"type": "text", "text": {"value": CANARY}}, {"type": "text", "text": 5}, 7, None]


def sent(model: LoopbackModel) -> list[Any]:
    """What the model was last sent of the user's words."""
    return [message["content"] for message in requests(model)[-1]["messages"] if message["role"] == "user"]


async def test_message_that_cannot_be_stored_is_refused_before_the_answer(
    memory: Mnemic, model: LoopbackModel, superuser: psycopg.Connection, caplog: pytest.LogCaptureFixture
) -> None:
    says(model, VISIBLE)
    graph = memory.graphs.supervisor(memory.threads.checkpointer(ANA))
    bad: list[Any] = [HumanMessage(CANARY, **fields) for fields in UNSTORABLE]
    unreadable = [{"role": "user", "content": [{"type": "text", "text": CANARY}, part]} for part in UNREADABLE]
    for message in [*bad, *unreadable]:
        expected = "is not answered: " if message in bad else "a list of parts with text"
        with pytest.raises(InvalidInputError, match=expected) as refused:
            await graph.ainvoke({"messages": [message]}, thread(), context=ANA)
        assert CANARY not in str(refused.value)
    assert requests(model) == []
    for text in ("My name is Marit.", "I live in Oslo."):
        assert (await turn(graph, text))["messages"][-1].text == VISIBLE
    assert [text for role, text in stored(superuser) if role == "user"] == ["My name is Marit.", "I live in Oslo."]
    warnings = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert f"{len(UNSTORABLE)} messages cannot be stored and are left out, such as message 1: " in warnings[0]
    assert CANARY not in caplog.text


async def test_image_is_sent_in_its_own_turn_alone_and_no_message_is_sent_empty(
    memory: Mnemic, model: LoopbackModel
) -> None:
    says(model, calling(("memory_query", {"query": "bees"})), VISIBLE)
    graph = memory.graphs.supervisor(InMemorySaver())
    wordless: list[Any] = [[PICTURE], "", " ", []]
    for content in (LOOK, *wordless):
        await graph.ainvoke({"messages": [HumanMessage(content)]}, thread(), context=ANA)
    await turn(graph, "Hello.")
    assert ["image_url" in str(request["messages"][1]) for request in requests(model)] == [True] * 2 + [False] * 5
    assert sent(model) == [f"Look.\n{WORDLESS}", *[WORDLESS] * len(wordless), "Hello."]


async def test_refused_image_costs_its_turn_and_refused_text_each_until_removed(
    memory: Mnemic, model: LoopbackModel
) -> None:
    says(model, lambda request: 400 if {"image_url", CANARY} & {*re.findall(r"\w+", str(request))} else VISIBLE)
    graph = memory.graphs.supervisor(memory.threads.checkpointer(ANA))
    with pytest.raises(ModelOutputError, match="refused this request"):
        await graph.ainvoke({"messages": [HumanMessage(list(LOOK))]}, thread(), context=ANA)
    done = await turn(graph, "Never mind.")
    assert sent(model) == [f"Look.\n{WORDLESS}", "Never mind."]
    assert done["messages"][0].content == LOOK  # the thread keeps it

    for text in (CANARY, "Hello?"):
        with pytest.raises(ModelOutputError):
            await turn(graph, text)
    *_, refused, _ = (await graph.aget_state(thread())).values["messages"]
    await graph.aupdate_state(memory.threads.config(ANA), {"messages": [RemoveMessage(refused.id)]}, as_node="observe")
    done = await turn(graph, "Hello again.")
    assert [item.text for item in done["messages"][-3:]] == ["Hello?", "Hello again.", VISIBLE]


async def test_half_a_character_beside_a_call_to_mend_is_no_error(memory: Mnemic, model: LoopbackModel) -> None:
    await keep(memory)
    says(model, calling(("memory_query", {"query": "half \ud83d"}), text=f"{CANARY} \ud83d"), VISIBLE)
    done = await turn(memory.graphs.supervisor(memory.threads.checkpointer(ANA)))
    assert [item.text for item in done["messages"] if isinstance(item, AIMessage)] == [f"{CANARY} ?", VISIBLE]
