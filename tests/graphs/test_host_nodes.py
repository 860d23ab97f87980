"""The graphs in a host's own graph, as our nodes or its own: under every durability, and without leaving a word."""

import logging
import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Annotated, Any

import psycopg
import pytest
from langchain_core.messages import AIMessage, HumanMessage, RemoveMessage
from langgraph.channels import UntrackedValue
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import MessagesState
from langgraph.runtime import Runtime

from mnemic import MemoryState, Mnemic
from mnemic.prompts.explicit.tools import query_answer
from mnemic.state.errors import CategoryRefusedError, InvalidInputError, MissingIdentityError, ModelOutputError
from mnemic.state.graphs import FormationInput, FormationOutput, RecallInput, RecallOutput
from mnemic.state.identity import Identity
from tests.support.agents import (
    CANARY,
    FRIDAY,
    GREETING,
    KEPT,
    MONDAY,
    QUESTION,
    THREAD,
    VISIBLE,
    WISH,
    remember,
    said,
    stored,
    storing_nothing,
)
from tests.support.loopback import LoopbackModel, Reply
from tests.support.matrix import few_first
from tests.support.scripted import (
    CONSOLIDATION,
    FACTS,
    REFLECTIONS,
    asked,
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
from tests.support.worlds import identity, text_of


class Turn(MessagesState, MemoryState):
    """A host's state."""


class LeakyTurn(MessagesState):
    """A host that keeps the context in a channel of its own making: the control."""

    memory_context: dict[str, Any]


class Notes(MemoryState, total=False):
    """A host that names its conversation otherwise, and keeps it as plain mappings."""

    talk: Annotated[list[dict[str, Any]], UntrackedValue]


NOBODY = identity(None, session="friday")


def host(memory: Mnemic, state: Any = Turn, seen: list[Any] | None = None, **recall: Any) -> Any:
    """`recall -> answer -> observe -> form`; what the host's own node sees goes into `seen`."""

    async def answer(state: Any) -> dict[str, Any]:
        if seen is not None:
            seen.append(dict(state))
        return {"messages": [AIMessage(VISIBLE)]}

    nodes = {"recall": memory.nodes.recall(**recall), "answer": answer}
    return in_sequence(state, {**nodes, "observe": memory.nodes.observe(), "form": memory.nodes.form()})


@both_savers
@pytest.mark.parametrize("durability", few_first(DURABILITIES, 1))
@pytest.mark.parametrize("state", [Turn, pytest.param(LeakyTurn, marks=pytest.mark.thorough)], ids=["", "control"])
async def test_the_context_reaches_the_host_and_no_checkpoint(
    fresh_db: Clone, model: LoopbackModel, savers: Savers, durability: Durability, state: Any
) -> None:
    seen: list[Any] = []
    async with scripted_memory(fresh_db, model) as memory, savers(fresh_db) as (saver, everything):
        await remember(memory, model)
        graph = host(memory, state, seen).compile(checkpointer=saver)
        await graph.ainvoke(said(QUESTION), THREAD, context=FRIDAY, durability=durability)
        saved = await everything()

    (context,) = [turn["memory_context"] for turn in seen]
    assert (KEPT in context.turn, WISH in context.standing) == (True, True)
    assert VISIBLE in saved
    assert (CANARY in saved) == (state is LeakyTurn)


async def test_an_interrupt_loses_the_context_until_a_recall_runs_again(memory: Mnemic, model: LoopbackModel) -> None:
    seen: list[Any] = []
    await remember(memory, model)
    graph = host(memory, seen=seen).compile(checkpointer=InMemorySaver(), interrupt_before=["answer"])
    for given in (said(QUESTION), None):
        await graph.ainvoke(given, THREAD, context=FRIDAY)
    assert "memory_context" not in seen[0]
    assert seen[0]["memory_searched"] is not None


async def test_the_second_turn_says_once_what_another_session_changed(memory: Mnemic, model: LoopbackModel) -> None:
    seen: list[Any] = []
    graph = host(memory, seen=seen).compile(checkpointer=InMemorySaver())
    await graph.ainvoke(said(GREETING), THREAD, context=FRIDAY)
    await remember(memory, model)
    for _ in range(2):
        await graph.ainvoke(said(GREETING), THREAD, context=FRIDAY)

    assert ["<Updates" in turn["memory_context"].turn for turn in seen] == [False, True, False]


async def test_a_formation_under_way_takes_up_the_next_turn(clean_db: Clone, model: LoopbackModel) -> None:
    answered = threading.Event()
    model.answer(
        FACTS, Reply(content=facts(fact(KEPT)).model_dump_json(), after=answered), facts(fact("Ana has goats."))
    )
    async with scripted_memory(clean_db, model, formation_mode="per_turn") as memory:
        graph = host(memory).compile(checkpointer=InMemorySaver())
        for text in ("I keep bees on the quay.", "I have goats."):
            await graph.ainvoke(said(text), THREAD, context=MONDAY)
        answered.set()
        await memory.form(MONDAY, force=False)

        assert await contents(memory, MONDAY) == ["Ana has goats.", KEPT]
    assert asked(model).count(FACTS) == 2


async def test_an_error_ends_what_was_begun_and_the_messages_stay_pending(
    clean_db: Clone, model: LoopbackModel
) -> None:
    never = threading.Event()
    model.answer(FACTS, Reply(content=facts().model_dump_json(), after=never))

    async def fail() -> None:
        async with scripted_memory(clean_db, model, formation_mode="per_turn") as memory:
            await host(memory).compile().ainvoke(said("I keep bees."), context=MONDAY)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await fail()
    never.set()
    model.answer(FACTS, facts(fact(KEPT)))
    async with scripted_memory(clean_db, model) as memory:
        await memory.form(MONDAY)
        assert await contents(memory, MONDAY) == [KEPT]


async def test_a_failed_formation_is_a_warning_and_forms_later(
    clean_db: Clone, model: LoopbackModel, caplog: pytest.LogCaptureFixture
) -> None:
    model.answer(FACTS, "no JSON at all")
    async with scripted_memory(clean_db, model, formation_mode="per_turn") as memory:
        with caplog.at_level(logging.WARNING, logger="mnemic"):
            await host(memory).compile().ainvoke(said(f"I keep {CANARY}."), context=MONDAY)
            with pytest.raises(ModelOutputError):
                await memory.form(MONDAY)
        model.answer(FACTS, facts(fact(KEPT)))
        await memory.form(MONDAY)

        assert await contents(memory, MONDAY) == [KEPT]
    assert "stay pending" in caplog.text
    assert CANARY not in caplog.text


async def test_what_could_not_be_stored_comes_again_with_the_next_turn(
    memory: Mnemic, model: LoopbackModel, superuser: psycopg.Connection, caplog: pytest.LogCaptureFixture
) -> None:
    graph = host(memory).compile(checkpointer=InMemorySaver())
    with storing_nothing(superuser), caplog.at_level(logging.WARNING, logger="mnemic"):
        turn = await graph.ainvoke(said(f"I keep {CANARY}."), THREAD, context=FRIDAY)
    await graph.ainvoke(said(GREETING), THREAD, context=FRIDAY)

    assert turn["messages"][-1].text == VISIBLE
    assert "Could not store" in caplog.text
    assert CANARY not in caplog.text
    assert superuser.execute("select count(*) from mnemic.messages").fetchone() == (4,)


async def test_what_a_turn_begins_with_is_stored_by_a_node_behind_the_start(
    memory: Mnemic, superuser: psycopg.Connection
) -> None:
    nodes = {
        "hear": memory.nodes.observe(),
        "recall": memory.nodes.recall(),
        "trim": lambda state: {"messages": [RemoveMessage(id=state["messages"][0].id), AIMessage(VISIBLE)]},
        "observe": memory.nodes.observe(),
    }
    await in_sequence(Turn, nodes).compile().ainvoke(said(GREETING), context=FRIDAY)
    assert stored(superuser) == [("user", GREETING), ("assistant", VISIBLE)]


async def test_several_people_may_speak_in_a_run_of_no_user(memory: Mnemic, superuser: psycopg.Connection) -> None:
    nodes = {"recall": memory.nodes.recall(), "observe": memory.nodes.observe(several_speakers=True)}
    spoken = {"messages": [HumanMessage(GREETING, additional_kwargs={"user": "bo"})]}
    await in_sequence(Turn, nodes).compile().ainvoke(spoken, context=NOBODY)
    assert superuser.execute("select user_id from mnemic.messages").fetchall() == [("bo",)]


async def test_host_may_rename_its_messages_and_the_last_user_text_is_searched(
    memory: Mnemic, model: LoopbackModel, superuser: psycopg.Connection
) -> None:
    await remember(memory, model)
    seen: list[Any] = []
    nodes = {
        "recall": memory.nodes.recall(messages_key="talk"),
        "look": lambda state: seen.append(state["memory_context"]),
        "observe": memory.nodes.observe(messages_key="talk"),
    }
    graph = in_sequence(Notes, nodes, context=None).compile()
    picture = {"type": "image_url", "image_url": {"url": "data:,"}}
    talk = [
        {"role": "user", "content": "Good morning."},
        {"role": "user", "content": [{"type": "text", "text": QUESTION}, picture]},
        {"role": "tool", "content": "nine o'clock"},
    ]
    who = SimpleNamespace(agent_id="harbor", user_id="ana", session_id="friday", host="blue")
    await graph.ainvoke({"talk": talk}, context=who)

    assert KEPT in seen[0].turn
    rows = superuser.execute("select content from mnemic.messages where session_id = 'friday' order by place")
    assert [content for (content,) in rows] == ["Good morning.", f"{QUESTION}\n[image]", "nine o'clock"]


async def test_a_role_recalls_by_its_own_allowlist(memory: Mnemic, model: LoopbackModel) -> None:
    await memory.remember(MONDAY, KEPT, category="goals")
    await memory.remember(MONDAY, WISH, category="goals", kind="core")
    seen: list[Any] = []
    for role in (None, "planner", "stylist"):
        graph = host(memory, seen=seen, role=role, search="always").compile()
        await graph.ainvoke(said("Who keeps bees on the quay?"), context=FRIDAY)

    assert [KEPT in turn["memory_context"].turn for turn in seen] == [True, True, False]
    assert [WISH in turn["memory_context"].standing for turn in seen] == [True, False, False]


async def test_a_hosts_mistake_is_an_error_and_nothing_is_stored(memory: Mnemic, superuser: psycopg.Connection) -> None:
    with pytest.raises(CategoryRefusedError):
        await host(memory, role="janitor").compile().ainvoke(said(GREETING), context=FRIDAY)
    with pytest.raises(InvalidInputError):
        await host(memory).compile().ainvoke(said(GREETING), context=identity("ana"))
    for node in (memory.nodes.recall(), memory.nodes.observe(), memory.nodes.observe(several_speakers=True)):
        with pytest.raises(MissingIdentityError, match="user_id"):
            await in_sequence(Turn, {"node": node}).compile().ainvoke(said(GREETING), context=NOBODY)
    assert superuser.execute("select count(*) from mnemic.messages").fetchone() == (0,)


@pytest.mark.parametrize("known", [True, pytest.param(False, marks=pytest.mark.thorough)], ids=["", "control"])
async def test_what_the_memory_told_is_not_stored_again(
    memory: Mnemic, superuser: psycopg.Connection, monkeypatch: pytest.MonkeyPatch, known: bool
) -> None:
    """The control does not know a tool's answer by its first sentence."""
    answer = query_answer([{"id": "1", "category": "projects", "text": f"[projects] {KEPT}"}])
    talk = [
        {"role": "user", "content": "Bees?"},
        {"role": "tool", "content": answer},
        {"role": "tool", "content": "The quay is open."},
        {"role": "assistant", "content": f"<MemoryContext>{KEPT}</MemoryContext> On the quay."},
    ]
    if not known:
        monkeypatch.setattr("mnemic.memory.messages.incoming.PREAMBLE", "another sentence")
    await memory.observe(FRIDAY, talk)

    rows = {content for (content,) in superuser.execute("select content from mnemic.messages").fetchall()}
    assert (rows == {"Bees?", "On the quay.", "The quay is open."}) == known
    assert (CANARY in str(rows)) != known


class HostTurn(RecallInput, RecallOutput, FormationInput, FormationOutput, total=False):
    """A host that runs the graphs as its own nodes and takes their channels as they are.

    The question is found by a node: what a host is invoked with is saved by LangGraph itself, whatever its channel.
    """

    note: str


def as_nodes(memory: Mnemic) -> Any:
    nodes: dict[str, Any] = {
        "listen": lambda state: {"question": QUESTION, "note": VISIBLE},
        "form": memory.graphs.formation,
        "recall": memory.graphs.recall,
        "answer": lambda state: {"note": f"{VISIBLE} {KEPT in state['context'].turn}"},
    }
    return in_sequence(HostTurn, nodes, context=SimpleNamespace)


def as_methods(memory: Mnemic) -> Any:
    async def form(state: HostTurn, runtime: Runtime[Identity]) -> None:
        (run,) = await memory.form(runtime.context)
        assert [result.outcome for result in run.consolidations] == ["saved"]

    async def recall(state: HostTurn, runtime: Runtime[Identity]) -> HostTurn:
        return {"note": f"{VISIBLE} {KEPT in text_of((await memory.recall(runtime.context, QUESTION)).context)}"}

    return in_sequence(HostTurn, {"form": form, "recall": recall}, context=SimpleNamespace)


@both_savers
@pytest.mark.parametrize(
    ("used", "durability"),
    few_first(
        [(as_methods, "sync"), (as_nodes, "async"), (as_methods, "async"), (as_methods, "exit"), (as_nodes, "exit")]
    ),
)
async def test_the_graphs_themselves_work_in_a_host_and_leave_no_words(
    fresh_db: Clone, model: LoopbackModel, savers: Savers, used: Callable[[Mnemic], Any], durability: Durability
) -> None:
    model.answer(FACTS, facts(fact(KEPT)))
    model.answer(REFLECTIONS, reflections(user=[reflection(WISH)], episode=f"Ana spoke of {CANARY}."))
    model.answer(CONSOLIDATION, consolidation(f"Ana wants {CANARY}."))
    who = SimpleNamespace(agent_id="harbor", user_id="ana", session_id="monday", host="blue")
    async with scripted_memory(fresh_db, model) as memory, savers(fresh_db) as (saver, everything):
        await memory.admin.configure_scope(MONDAY, "user:ana", threshold=1)
        await memory.observe(MONDAY, turns(f"{CANARY} is what I call my bees."))
        graph = used(memory).compile(checkpointer=saver)
        done = await graph.ainvoke({"force": True}, THREAD, context=who, durability=durability)
        assert done["note"] == f"{VISIBLE} True"
        saved = await everything()
    assert VISIBLE in saved
    assert CANARY not in saved
