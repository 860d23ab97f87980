"""The offline chat model: it says what the memory holds, forgets what it is told to, and invents nothing."""

import json
from typing import Any

import pytest
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.tools import tool

from mnemic.models.offline.chat import OfflineChat
from mnemic.prompts.tools import query_answer

TEA = {"id": "7d2c2f3e-6a51-4a4c-9f3c-1f8a1d7f7a10", "category": "preferences", "text": "Ana prefers tea to coffee."}
MESSAGE = {"id": "1", "category": "message", "text": '[message] [2 March 2026] Ana said: "Coffee and tea &amp; milk."'}
ASKED = {"id": "2", "category": "message", "text": '[message] [2 March 2026] Ana said: "Which tea do I drink?"'}


@tool
def memory_query(query: str) -> str:
    """Searches."""
    raise AssertionError("the tools are shown to the model, and not called")


@tool
def forget(id: str) -> str:  # noqa: A002 - what the model calls it
    """Forgets."""
    raise AssertionError("the tools are shown to the model, and not called")


def answer(*messages: BaseMessage, tools: Any = (memory_query, forget)) -> AIMessage:
    message = OfflineChat().bind_tools(tools).invoke([*messages])
    assert isinstance(message, AIMessage)
    return message


def calls(message: AIMessage) -> list[tuple[str, Any]]:
    return [(call["name"], call["args"]) for call in message.tool_calls]


def answered(name: str, content: str, *, status: Any = "success") -> tuple[AIMessage, ToolMessage]:
    """A call of an earlier answer, and what came of it."""
    call = {"name": name, "args": {}, "id": "call_9", "type": "tool_call"}
    return AIMessage("", tool_calls=[call]), ToolMessage(content, tool_call_id="call_9", name=name, status=status)


def found(request: str, *rows: dict[str, str]) -> AIMessage:
    """What it answers once the memory has answered."""
    return answer(HumanMessage(request), *answered("memory_query", query_answer(rows)))


@pytest.mark.parametrize("text", ["I prefer tea to coffee.", "Good news today.", "", "\x00"])
def test_what_is_no_question_is_heard_and_nothing_else(text: str) -> None:
    message = answer(HumanMessage(text))
    assert (message.text, message.tool_calls) == ("I see.", [])


def test_a_question_is_put_to_the_memory_where_there_is_one() -> None:
    question = HumanMessage("What do I drink, tea or coffee?")
    assert calls(answer(question)) == [("memory_query", {"query": question.text, "top_k": 10})]
    assert answer(question, tools=[forget]).text == "I do not know."


@pytest.mark.parametrize(
    ("rows", "text"),
    [
        ([TEA, MESSAGE], TEA["text"]),
        ([MESSAGE], '[2 March 2026] Ana said: "Coffee and tea & milk."'),
        ([ASKED], "I do not know."),
        ([{**TEA, "text": "Ana rows on Sundays."}], "I do not know."),
        ([], "I do not know."),
    ],
)
def test_it_says_what_the_memory_holds_on_the_question(rows: list[dict[str, str]], text: str) -> None:
    assert found("What do I drink, tea or coffee?", *rows).text == text


def test_of_its_user_it_tells_nothing_that_is_somebody_elses() -> None:
    brother, own = ({**TEA, "text": text} for text in ("Ana's brother lives in Oslo.", "Ana lives in Bergen."))
    assert found("Where do I live?", brother, own).text == "Ana lives in Bergen."
    assert found("What do you know about me?", own, TEA).text.splitlines() == ["Ana lives in Bergen.", TEA["text"]]


@pytest.mark.parametrize("content", ["", "[", "Refused: x.", "[[[["])
def test_an_answer_that_cannot_be_read_is_no_knowledge(content: str) -> None:
    message = answer(HumanMessage("What do I drink?"), *answered("memory_query", content))
    assert (message.text, message.tool_calls) == ("I do not know.", [])


@pytest.mark.parametrize(
    ("order", "memory"),
    [
        ("Please forget that I prefer tea to coffee.", TEA["text"]),
        ("Forget that my brother lives in Oslo.", "Ana's brother Jonas lives in Oslo."),
        ("forget about Jonas", "Ana's brother Jonas lives in Oslo."),
        ("Forget that I don't like tea.", "Ana does not like tea."),
    ],
)
def test_it_forgets_the_memory_that_says_all_of_it(order: str, memory: str) -> None:
    assert [name for name, _ in calls(answer(HumanMessage(order)))] == ["memory_query"]
    row = {**TEA, "text": f"[preferences] [2 March 2026] {memory}"}
    assert calls(found(order, MESSAGE, row)) == [("forget", {"id": TEA["id"]})]


@pytest.mark.parametrize(
    ("order", "memory"),
    [
        ("Forget that my brother prefers tea.", TEA["text"]),
        ("Forget that I live in Oslo.", "Ana's brother Jonas lives in Oslo."),
        ("Forget that I have two cats.", "Ana has three cats."),
        ("Forget that my door code is 4711.", "Ana's door code is 4712."),
        ("Forget that I don't like tea.", "Ana likes tea."),
        ("Forget everything.", TEA["text"]),
    ],
)
def test_it_forgets_no_other_memory(order: str, memory: str) -> None:
    message = found(order, {**TEA, "text": f"[preferences] [2 March 2026] {memory}"}, MESSAGE)
    assert (message.text, message.tool_calls) == ("I remember nothing like that.", [])


@pytest.mark.parametrize(("status", "text"), [("success", "It is forgotten."), ("error", "I kept it.")])
def test_it_says_what_became_of_it(status: str, text: str) -> None:
    assert answer(HumanMessage("Forget my tea."), *answered("forget", "done", status=status)).text == text


async def test_it_streams_and_its_calls_can_be_sent_on() -> None:
    model = OfflineChat().bind_tools([memory_query])
    assert "".join([str(chunk.text) async for chunk in model.astream([HumanMessage("I row.")])]) == "I see."
    message = await model.ainvoke([HumanMessage("What do I row?")])
    assert json.loads(json.dumps(calls(message))) == [["memory_query", {"query": "What do I row?", "top_k": 10}]]
