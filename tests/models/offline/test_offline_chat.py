"""The offline chat model: it says what it was shown, calls tools where the words ask for them, and invents nothing."""

import json
from typing import Any

import pytest
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.tools import tool

from mnemic.models.offline.chat import OfflineChat
from mnemic.prompts.memory_query import query_answer
from mnemic.prompts.supervise import subagent_prompt, system_prompt

CONTEXT = """<MemoryContext>
Reference material.
<Updates since="3">
Memory updates since rev 3:
- ↑updated: [Profile] Ana lives in Bergen.
</Updates>
<UserMemory user="Ana">
- [2 March 2026] Ana lives in Bergen &amp; rows.
- [2 March 2026] Ana prefers tea to coffee.
</UserMemory>
</MemoryContext>"""
TEA = {"id": "7d2c2f3e-6a51-4a4c-9f3c-1f8a1d7f7a10", "category": "preferences", "text": "Ana prefers tea to coffee."}
MESSAGE = {"id": "1", "category": "message", "text": '[2 March 2026] Ana said: "I like coffee and tea."'}


@tool
def memory_query(query: str) -> str:
    """Searches."""
    raise AssertionError("the tools are shown to the model, and not called")


@tool
def forget(id: str) -> str:  # noqa: A002 - what the model calls it
    """Forgets."""
    raise AssertionError("the tools are shown to the model, and not called")


@tool
def planner(task: str) -> str:
    """Plans."""
    raise AssertionError("the tools are shown to the model, and not called")


ALL = [memory_query, forget, planner]


def answer(*said: BaseMessage, tools: Any = ALL, context: str = "") -> AIMessage:
    model = OfflineChat().bind_tools(tools)
    message = model.invoke([SystemMessage(system_prompt(None, context)), *said])
    assert isinstance(message, AIMessage)
    return message


def calls(message: AIMessage) -> list[tuple[str, Any]]:
    return [(call["name"], call["args"]) for call in message.tool_calls]


def answered(name: str, content: str, *, status: Any = "success") -> tuple[AIMessage, ToolMessage]:
    """A call of an earlier answer, and what came of it."""
    call = {"name": name, "args": {}, "id": "call_9", "type": "tool_call"}
    return AIMessage("", tool_calls=[call]), ToolMessage(content, tool_call_id="call_9", name=name, status=status)


@pytest.mark.parametrize(
    "said", ["I prefer tea to coffee.", "Good news today.", "", "\x00", "I row. Can you remember that?"]
)
def test_what_is_no_question_is_heard_and_nothing_else(said: str) -> None:
    message = answer(HumanMessage(said), context=CONTEXT)
    assert (message.text, message.tool_calls) == ("I see.", [])


@pytest.mark.parametrize(
    ("question", "told"),
    [
        ("Where do I live now, in Bergen?", "[2 March 2026] Ana lives in Bergen & rows."),
        ("Tell me of tea", "[2 March 2026] Ana prefers tea to coffee."),
    ],
)
def test_a_question_is_answered_by_what_is_shown(question: str, told: str) -> None:
    message = answer(HumanMessage(question), context=CONTEXT)
    assert (message.text, message.tool_calls) == (told, [])


def test_where_nothing_shown_fits_it_searches_once_and_says_what_it_found() -> None:
    asked = HumanMessage("What do I drink, tea or coffee?")
    assert calls(answer(asked)) == [("memory_query", {"query": asked.text, "top_k": 10})]
    assert answer(asked, *answered("memory_query", query_answer([TEA, MESSAGE]))).text == TEA["text"]
    assert answer(asked, *answered("memory_query", query_answer([]))).text == "I do not know."
    assert answer(asked, tools=[]).text == "I do not know."


@pytest.mark.parametrize("content", ["", "[", "[1, 2]", '{"a": 1}', "Refused: x.", "[[[[", '[{"text": 5}]'])
def test_an_answer_of_a_tool_that_cannot_be_read_is_no_knowledge(content: str) -> None:
    message = answer(HumanMessage("What do I drink?"), *answered("memory_query", content))
    assert (message.text, message.tool_calls) == ("I do not know.", [])


def test_it_forgets_what_it_found_and_says_what_became_of_it() -> None:
    asked = HumanMessage("Please forget that I prefer tea to coffee.")
    assert calls(answer(asked)) == [("memory_query", {"query": "I prefer tea to coffee.", "top_k": 10})]
    assert calls(answer(asked, *answered("memory_query", query_answer([MESSAGE, TEA])))) == [
        ("forget", {"id": TEA["id"]})
    ]
    other = {**TEA, "text": "Ana rows on Sundays."}
    assert answer(asked, *answered("memory_query", query_answer([other]))).text == "I remember nothing like that."
    assert answer(asked, *answered("memory_query", query_answer([]))).text == "I remember nothing like that."
    assert answer(asked, *answered("forget", "gone")).text == "It is forgotten."
    assert answer(asked, *answered("forget", "declined", status="error")).text == "I kept it."


@pytest.mark.parametrize(
    ("order", "memory"),
    [
        ("Forget that my brother prefers tea.", "Ana prefers tea to coffee."),
        ("Forget that I live in Oslo.", "Ana's brother Jonas lives in Oslo."),
        ("Forget that I have two cats.", "Ana has three cats."),
        ("Forget that my door code is 4711.", "Ana's door code is 4712."),
        ("Forget that I don't like tea.", "Ana likes tea."),
    ],
)
def test_it_forgets_no_other_memory_than_the_one_that_is_meant(order: str, memory: str) -> None:
    row = {**TEA, "text": f"[preferences] [2 March 2026] {memory}"}
    message = answer(HumanMessage(order), *answered("memory_query", query_answer([row])))
    assert (message.text, message.tool_calls) == ("I remember nothing like that.", [])


@pytest.mark.parametrize(
    ("order", "memory"),
    [
        ("Forget that my brother lives in Oslo.", "Ana's brother Jonas lives in Oslo."),
        ("forget about Jonas", "Ana's brother Jonas lives in Oslo."),
        ("Please forget what I said about Jonas.", "Ana's brother Jonas lives in Oslo."),
        ("Forget that I don't like tea.", "Ana does not like tea."),
        ("Forget that I'm flying to Oslo on Saturday.", "Ana is flying to Oslo on Saturday 28 November 2026."),
    ],
)
def test_it_forgets_the_memory_that_says_all_of_it(order: str, memory: str) -> None:
    row = {**TEA, "text": f"[preferences] [2 March 2026] {memory}"}
    message = answer(HumanMessage(order), *answered("memory_query", query_answer([row])))
    assert calls(message) == [("forget", {"id": TEA["id"]})]


@pytest.mark.parametrize("order", ["Forget it.", "Forget everything about me", "forget all"])
def test_it_asks_what_to_forget_where_the_order_names_nothing(order: str) -> None:
    message = answer(HumanMessage(order), context=CONTEXT)
    assert (message.text, message.tool_calls) == ("Say what I am to forget, one thing at a time.", [])


def test_what_was_only_said_it_cannot_forget_and_says_so() -> None:
    order = HumanMessage("Forget that I like coffee and tea.")
    message = answer(order, *answered("memory_query", query_answer([MESSAGE])))
    assert "what was said I cannot forget" in message.text
    assert message.tool_calls == []


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("Hello!", "Hello."),
        ("hi there", "Hello."),
        ("Thank you very much.", "You are welcome."),
        ("Bye!", "Goodbye."),
        ("Who are you?", "I am a few rules"),
        ("help", "I am a few rules"),
    ],
)
def test_it_is_polite_and_says_what_it_is(said: str, told: str) -> None:
    message = answer(HumanMessage(said), context=CONTEXT)
    assert (message.text.startswith(told), message.tool_calls) == (True, [])


def context_of(*lines: str) -> str:
    return "\n".join(["<MemoryContext>", *(f"- [2 November 2026] {line}" for line in lines), "</MemoryContext>"])


BROTHER = "Ana's brother Jonas lives in Oslo."


@pytest.mark.parametrize(
    ("question", "lines", "told"),
    [
        ("Where does my brother live?", ["Ana lives in Bergen.", BROTHER], [BROTHER]),
        ("Where do I live?", [BROTHER, "Ana moved to Bergen."], ["Ana moved to Bergen."]),
        ("What is my job?", ["Ana works as a nurse.", BROTHER], ["Ana works as a nurse."]),
        ("What is my name, and where does my brother live?", ["Ana's name is Marit.", BROTHER], [BROTHER, "Marit"]),
        (
            "What am I allergic to?",
            ["Plans: Ana's sister is allergic.", "Ana is allergic to nuts."],
            ["Ana is allergic"],
        ),
        ("What is Jonas's job?", ["Ana works as a nurse.", BROTHER], [BROTHER]),
        ("What happens in November, in Oslo?", ["Ana prefers tea.", BROTHER], [BROTHER]),
        ("What do you know about me?", ["Ana prefers tea.", BROTHER], ["Ana prefers tea.", BROTHER]),
        ("Do you know who I am?", ["Ana's name is Marit."], ["Marit"]),
        ("What do you know about me?", [f"Ana has {n} cats." for n in "23456789"], list("23456")),
        ("What is my code?", ['Ana said: "What is my code?"', 'Ana said: "My code is 4711."'], ["4711"]),
        ("What is my code?", ['Agent said: "[2 March 2026] The code."', 'Ana said: "My code is 4711."'], ["4711"]),
    ],
)
def test_it_tells_what_answers_and_nothing_beside_it(question: str, lines: list[str], told: list[str]) -> None:
    shown = answer(HumanMessage(question), context=context_of(*lines)).text.splitlines()
    assert len(shown) == len(told)
    assert all(words in line for words, line in zip(told, shown, strict=True))


def test_what_it_found_is_told_as_it_was_said() -> None:
    row = {**MESSAGE, "text": '[message] [2 March 2026] Ana said: "They call me &quot;Zi&quot;."'}
    message = answer(HumanMessage("How do they call me?"), *answered("memory_query", query_answer([row])))
    assert message.text == '[2 March 2026] Ana said: "They call me "Zi"."'


def test_it_delegates_by_name_and_only_to_whom_it_may() -> None:
    asked = HumanMessage("Ask the planner to plan my week in Oslo.")
    assert calls(answer(asked)) == [("planner", {"task": "plan my week in Oslo."})]
    assert answer(asked, *answered("planner", "Row on Sunday.")).text == "Row on Sunday."
    assert answer(asked, tools=[memory_query]).tool_calls == []


def test_a_sub_agent_takes_every_task_for_a_question() -> None:
    model = OfflineChat().bind_tools([memory_query])
    message = model.invoke([SystemMessage(subagent_prompt("planner")), HumanMessage("plan a week with tea")])
    assert isinstance(message, AIMessage)
    assert calls(message) == [("memory_query", {"query": "plan a week with tea", "top_k": 10})]


async def test_it_streams_word_by_word_and_calls_come_whole() -> None:
    model = OfflineChat().bind_tools(ALL)
    said = [SystemMessage(system_prompt(None, CONTEXT)), HumanMessage("Tell me of tea")]
    words = [str(chunk.text) async for chunk in model.astream(said)]
    assert [word for word in words if word] == ["[2 ", "March ", "2026] ", "Ana ", "prefers ", "tea ", "to ", "coffee."]
    whole = None
    async for chunk in model.astream([HumanMessage("What do I drink?")]):
        whole = chunk if whole is None else whole + chunk
    assert json.loads(json.dumps(calls(whole))) == [["memory_query", {"query": "What do I drink?", "top_k": 10}]]  # type: ignore[arg-type]
