"""`forget` of something important asks the user first: what they did not agree to is not done, and nothing twice."""

from typing import Any

import psycopg
import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command
from pydantic import ValidationError

from mnemic import Mnemic
from mnemic.graphs.supervisor import SupervisorGraph
from mnemic.memory.messages.supervisor import split_calls
from mnemic.prompts.messages.supervise import DECLINED
from mnemic.storage import threads
from tests.support.agents import ANA, CANARY, KEPT, VISIBLE, answers_of, forgetting, keep, requests, says, thread, turn
from tests.support.loopback import LoopbackModel, calling


async def resumed(graph: SupervisorGraph, answer: Any) -> Any:
    return await graph.ainvoke(Command(resume=answer), thread(), context=ANA)


async def living(memory: Mnemic) -> set[str]:
    return {str(item.id) for item in await memory.memories(ANA)}


async def answered_alone(graph: SupervisorGraph, run: Any, *, approved: bool) -> None:
    """The user answers, and the run ends before anything is done."""
    stream = graph.astream(
        Command(resume={"approved": approved}), run, context=ANA, durability="sync", stream_mode="updates",
        interrupt_before=["tools"],
    )  # fmt: skip
    assert [list(part) async for part in stream] == [["confirm"], ["__interrupt__"]]


def questions(done: Any) -> list[Any]:
    return [question for item in done.get("__interrupt__", ()) for question in item.value["memories"]]


async def test_important_memory_is_forgotten_only_after_the_user_agrees(memory: Mnemic, model: LoopbackModel) -> None:
    kept = await keep(memory, importance=4)
    says(model, forgetting(kept.upper()), VISIBLE)  # models copy ids as they like
    graph = memory.graphs.supervisor(InMemorySaver())
    (asked,) = (await turn(graph))["__interrupt__"]
    assert asked.value == {"action": "forget", "memories": [{"id": kept, "kind": "fact", "importance": 4}]}
    assert asked.response_schema["properties"] == {"approved": {"title": "Approved", "type": "boolean"}}
    assert CANARY not in str(asked)

    assert [item["id"] for item in questions(await resumed(graph, {}))] == [kept]
    wrong: list[Any] = ["yes", {"approved": "yes"}, {"approved": 1}, {"approved": True, "also": 1}, [], 0]
    for answer in wrong:
        with pytest.raises(ValidationError):
            await resumed(graph, answer)
    assert await living(memory) == {kept}
    assert len((await graph.aget_state(thread())).interrupts) == 1

    done = await resumed(graph, {"approved": True})
    assert done["messages"][-1].text == VISIBLE
    assert await living(memory) == set()


async def test_of_several_calls_each_is_done_once_and_the_declined_not_at_all(
    memory: Mnemic, model: LoopbackModel, superuser: psycopg.Connection
) -> None:
    important = await keep(memory, "Ana keeps bees on the quay.", importance=4)
    core = await keep(memory, "Ana is never called at night.", importance=2, kind="core")  # every prompt shows it
    little = await keep(memory, "Ana wears a blue hat.", importance=2)
    told = {"content": "Ana rows on Sundays.", "category": "activity", "importance": 3}
    forgets = [("forget", {"id": item}) for item in (important, core, little)]
    says(model, calling(*forgets, ("remember", told), ("forget", {"id": "no id"})), VISIBLE)
    graph = memory.graphs.supervisor(InMemorySaver())
    assert [item["id"] for item in questions(await turn(graph))] == [important, core]
    assert await living(memory) == {important, core, little}  # nothing is done before the answer

    await resumed(graph, {"approved": False})

    assert {item.content for item in await memory.memories(ANA)} == {
        "Ana keeps bees on the quay.",
        "Ana is never called at night.",
        "Ana rows on Sundays.",
    }
    events = superuser.execute(
        "select event, reason from mnemic.history where event <> 'LINK' order by event, revision"
    ).fetchall()
    assert events == [*[("ADD", "remember")] * 4, ("DELETE", "forget")]


async def test_nor_is_anything_important_corrected_unasked(memory: Mnemic, model: LoopbackModel) -> None:
    important, little = await keep(memory, importance=4), await keep(memory, "Ana wears a blue hat.", importance=2)
    guarded = await keep(memory, "Ana keeps a diary.", importance=5, private=True)
    await memory.forget(ANA, guarded)
    texts = {important: "Ana keeps goats.", little: "Ana wears a red hat.", guarded: "Ana keeps no diary."}
    wanted = calling(*(("correct", {"id": old, "content": text}) for old, text in texts.items()))
    for approved in (False, True):
        says(model, wanted, VISIBLE)
        graph = memory.graphs.supervisor(InMemorySaver())
        (asked,) = (await turn(graph))["__interrupt__"]
        question = {"id": important, "kind": "fact", "importance": 4, "content": "Ana keeps goats."}
        assert asked.value == {"action": "correct", "memories": [question]}
        await resumed(graph, {"approved": approved})
        kept = "Ana keeps goats." if approved else KEPT
        assert {item.content for item in await memory.memories(ANA)} == {kept, "Ana wears a red hat."}
        assert (DECLINED in answers_of(requests(model)[-1])) != approved


async def test_one_act_may_be_asked_for_beside_another(memory: Mnemic, model: LoopbackModel) -> None:
    kept = await keep(memory, importance=4)
    says(model, calling(("correct", {"id": kept, "content": "Ana keeps goats."}), ("forget", {"id": kept})), VISIBLE)
    (asked,) = (await turn(memory.graphs.supervisor(InMemorySaver())))["__interrupt__"]
    assert asked.value["action"] == "forget"
    assert [question.get("content") for question in asked.value["memories"]] == [None, "Ana keeps goats."]


async def test_what_the_tool_would_refuse_is_not_asked_for(memory: Mnemic, model: LoopbackModel) -> None:
    foreign = ANA.model_copy(update={"user_id": "bob"})
    bobs = await memory.remember(foreign, "Bob keeps goats.", category="activity", importance=5)
    says(model, forgetting(bobs.id, "no id", "7d2c2f3e-6a51-4a4c-9f3c-1f8a1d7f7a10"), VISIBLE)
    done = await turn(memory.graphs.supervisor(InMemorySaver()))
    assert "__interrupt__" not in done
    assert [item.content for item in await memory.memories(foreign)] == ["Bob keeps goats."]


@pytest.mark.thorough
async def test_process_killed_after_the_answer_does_not_do_the_declined_action(
    memory: Mnemic, model: LoopbackModel
) -> None:
    kept = await keep(memory, importance=4)
    says(model, forgetting(kept), VISIBLE)
    saver = InMemorySaver()
    graph = memory.graphs.supervisor(saver)
    await turn(graph)
    await answered_alone(graph, thread(), approved=False)

    await memory.graphs.supervisor(saver).ainvoke(None, thread(), context=ANA)

    assert await living(memory) == {kept}
    assert DECLINED in answers_of(requests(model)[-1])


async def test_the_user_is_asked_whatever_role_the_run_names(memory: Mnemic, model: LoopbackModel) -> None:
    """The tools act in the supervisor's role, so that is the one that counts."""
    kept = await keep(memory, importance=5)
    says(model, forgetting(kept), VISIBLE)
    asked = await turn(memory.graphs.supervisor(InMemorySaver()), who=ANA.model_copy(update={"role": "stylist"}))
    assert [item["id"] for item in questions(asked)] == [kept]
    assert await living(memory) == {kept}


@pytest.mark.parametrize("stays", [False, pytest.param(True, marks=pytest.mark.thorough)], ids=["", "control"])
async def test_an_answer_whose_run_was_rolled_back_does_not_count(
    memory: Mnemic, model: LoopbackModel, monkeypatch: pytest.MonkeyPatch, stays: bool
) -> None:
    """If the answer stayed, as in the control, a no would forget."""
    if stays:
        careless = threads._SQL["delete_of_runs"].replace("and (t.is_gone", "and t.is_gone and (t.is_gone")
        assert careless != threads._SQL["delete_of_runs"]
        monkeypatch.setattr(threads, "_SQL", {**threads._SQL, "delete_of_runs": careless})
    kept = await keep(memory, importance=5)
    says(model, forgetting(kept), VISIBLE)
    saver = memory.threads.checkpointer(ANA)
    graph = memory.graphs.supervisor(saver)
    # each run as a server marks it, which can take its checkpoints away again
    runs: list[Any] = [{"configurable": {"thread_id": "friday", "run_id": run}} for run in ("asking", "answering")]
    await graph.ainvoke({"messages": [HumanMessage("Forget my bees.")]}, runs[0], context=ANA)
    await answered_alone(graph, runs[1], approved=True)
    await saver.adelete_for_runs(["answering"])

    if not stays:
        assert len((await graph.aget_state(thread())).interrupts) == 1
        assert [item["id"] for item in questions(await graph.ainvoke(None, thread(), context=ANA))] == [kept]
    await resumed(graph, {"approved": False})
    assert await living(memory) == (set() if stays else {kept})
    assert (answers_of(requests(model)[-1]) == [DECLINED]) != stays


def test_of_calls_with_one_id_the_last_is_run_and_without_an_id_a_call_can_be_declined() -> None:
    names = {"first": "call_1", "second": "call_1", "third": None}
    answer = AIMessage("", tool_calls=[{"name": name, "args": {}, "id": call} for name, call in names.items()])
    wanted, declined = split_calls({"messages": [answer], "declined": ["None"]})
    assert [call["name"] for call in wanted] == ["second"]
    assert [call["name"] for call in declined] == ["third"]
