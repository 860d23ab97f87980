"""The graphs inside a host's own graph: they run under every durability, and leave no words in its checkpoints."""

from types import SimpleNamespace

import pytest
from langgraph.runtime import Runtime
from typing_extensions import TypedDict

from mnemic.service.memory import Mnemic
from mnemic.state.graphs import FormationInput, FormationOutput, RecallInput, RecallOutput
from mnemic.state.identity import Identity
from mnemic.state.records import ScopeSettings
from tests.support.loopback import LoopbackModel
from tests.support.matrix import few_first
from tests.support.scripted import (
    CONSOLIDATION,
    FACTS,
    REFLECTIONS,
    consolidation,
    contents,
    fact,
    facts,
    reflection,
    reflections,
    scripted_memory,
    turns,
)
from tests.support.server import Clone
from tests.support.threads import DURABILITIES, Durability, Savers, both_savers, in_sequence
from tests.support.worlds import identity

ANA = identity("ana", session="s1")
#: In every text that must not be found in a checkpoint.
CANARY = "Zinnober"
KEPT = f"Ana keeps bees called {CANARY} on the quay."
WISH = f"Ana wants {CANARY} in every answer."
TEXT = f"Ana wants {CANARY}."
QUESTION = f"Do you remember what I said about {CANARY}?"
#: In a channel of the host's own, which is saved.
VISIBLE = "Quittengelb"


class Note(TypedDict, total=False):
    """What a host keeps of a turn."""

    note: str
    tokens: int


class Turn(RecallInput, RecallOutput, FormationInput, FormationOutput, total=False):
    """A host that runs the graphs as its own nodes and takes their channels as they are.

    The question is found by a node: what a host is invoked with is saved by LangGraph itself, whatever its channel.
    """

    note: str


def scripted(model: LoopbackModel) -> None:
    model.answer(FACTS, facts(fact(KEPT)))
    model.answer(REFLECTIONS, reflections(user=[reflection(WISH)], episode=f"Ana spoke of {CANARY}."))
    model.answer(CONSOLIDATION, consolidation(TEXT))


async def prepare(memory: Mnemic) -> None:
    await memory.configure_scope(ANA, ScopeSettings(scope_key="user:ana", threshold=1))
    await memory.observe(ANA, turns(f"{CANARY} is what I call my bees."))


@both_savers
@pytest.mark.parametrize("durability", few_first(DURABILITIES, 1))
async def test_called_inside_a_node_they_work_and_leave_no_words(
    fresh_db: Clone, model: LoopbackModel, savers: Savers, durability: Durability
) -> None:
    scripted(model)
    async with scripted_memory(fresh_db, model) as memory, savers(fresh_db) as (saver, everything):

        async def form(state: Note, runtime: Runtime[Identity]) -> Note:
            (run,) = await memory.form(runtime.context)
            assert [result["outcome"] for result in run["consolidations"]] == ["saved"]
            return {"note": VISIBLE}

        async def recall(state: Note, runtime: Runtime[Identity]) -> Note:
            context = await memory.recall(runtime.context, QUESTION)
            assert KEPT in context["context"]
            assert TEXT in context["context"]
            return {"tokens": context["tokens"]}

        await prepare(memory)
        host = in_sequence(Note, {"form": form, "recall": recall}).compile(checkpointer=saver)
        result = await host.ainvoke({}, {"configurable": {"thread_id": "t1"}}, context=ANA, durability=durability)

        saved = await everything()
        assert result["tokens"] > 0
        assert VISIBLE in saved
        assert CANARY not in saved


@both_savers
@pytest.mark.parametrize("durability", ["async", "exit"])
async def test_used_as_nodes_they_work_and_leave_no_words(
    fresh_db: Clone, model: LoopbackModel, savers: Savers, durability: Durability
) -> None:
    scripted(model)
    context = SimpleNamespace(agent_id="harbor", user_id="ana", session_id="s1", host="blue")
    async with scripted_memory(fresh_db, model) as memory, savers(fresh_db) as (saver, everything):
        nodes = {
            "listen": lambda state: {"question": QUESTION, "note": VISIBLE},
            "form": memory.graphs.formation,
            "recall": memory.graphs.recall,
            "answer": lambda state: {"tokens": len(state["context"])},
        }
        await prepare(memory)
        host = in_sequence(Turn, nodes, context=SimpleNamespace).compile(checkpointer=saver)
        thread = {"configurable": {"thread_id": "t1"}}
        result = await host.ainvoke({"force": True}, thread, context=context, durability=durability)

        assert result["stored"] == {"fact": 1, "reflection": 1, "episode": 1}
        assert KEPT in result["context"]
        saved = await everything()
        assert VISIBLE in saved
        assert CANARY not in saved


async def test_a_host_that_streams_shows_none_of_the_inner_models_words(memory: Mnemic, model: LoopbackModel) -> None:
    scripted(model)
    await prepare(memory)

    async def form(state: Note, runtime: Runtime[Identity]) -> Note:
        await memory.form(runtime.context)
        return {"note": VISIBLE}

    host = in_sequence(Note, {"form": form}).compile()
    streamed = [
        chunk async for chunk in host.astream({}, context=ANA, stream_mode=["messages", "updates"], subgraphs=False)
    ]

    assert await contents(memory, ANA) == [KEPT]
    assert VISIBLE in str(streamed)
    assert CANARY not in str(streamed)
