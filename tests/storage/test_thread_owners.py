"""Whose a thread or a run is, for a server that knows ids alone; and threads rid of a run."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest
from langchain_core.messages import HumanMessage
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import MessagesState
from langgraph.types import Command, interrupt
from typing_extensions import TypedDict

from mnemic.storage.database import Database
from mnemic.storage.threads import ThreadOwner, owners
from tests.support.server import Clone
from tests.support.threads import TABLES, saver_of

ANA, BO = ThreadOwner("harbor", "ana"), ThreadOwner("harbor", "bo")


async def say(db: Database, user: str, text: str, run: str, thread: str = "t1") -> None:
    """One turn of a run, as the server marks its checkpoints."""
    builder = StateGraph(MessagesState)
    builder.add_node("answer", lambda _: {"messages": [("ai", f"Heard {text}")]})
    builder.add_edge(START, "answer")
    builder.add_edge("answer", END)
    config: Any = {"configurable": {"thread_id": thread}, "metadata": {"run_id": run}}
    await builder.compile(checkpointer=saver_of(db, user)).ainvoke({"messages": [HumanMessage(text)]}, config)


async def words(db: Database, user: str, thread: str = "t1") -> list[str]:
    found = await saver_of(db, user).aget_tuple({"configurable": {"thread_id": thread}})
    return [str(item.content) for item in found.checkpoint["channel_values"]["messages"]] if found else []


def everything(superuser: psycopg.Connection, owner: ThreadOwner) -> list[str]:
    """Every row of an owner's threads."""
    found = []
    for table in TABLES:
        rows = superuser.execute(psycopg.sql.SQL("select * from mnemic.{}").format(psycopg.sql.Identifier(table)))
        found += [repr(row) for row in rows.fetchall() if owner.prefix in repr(row) or repr(owner.user_id) in repr(row)]
    return sorted(found)


async def test_owners_are_found_by_a_threads_id_and_by_a_runs(db: Database) -> None:
    await say(db, "ana", "one", "r1")
    await say(db, "bo", "two", "r2")
    await say(db, "bo", "three", "r3", thread="t2")
    assert await owners(db, thread_id="t1") == [BO, ANA]  # who moved it last first
    assert (await owners(db, thread_id="t2"), await owners(db, thread_id="t3"), await owners(db, thread_id="%")) == (
        [BO],
        [],
        [],
    )
    assert sorted(await owners(db, run_ids=["r1", "r2"])) == [ANA, BO]
    assert await owners(db, run_ids=["r4", "%"]) == []


async def test_a_thread_rid_of_its_last_run_stands_where_it_stood_before(
    db: Database, superuser: psycopg.Connection
) -> None:
    await say(db, "ana", "one", "r1")
    (stood,) = await saver_of(db).statuses()
    await say(db, "ana", "Quittengelb", "r2")
    await saver_of(db).adelete_for_runs(["r2"])
    assert await words(db, "ana") == ["one", "Heard one"]
    (stands,) = await saver_of(db).statuses()
    assert (stands.checkpoint_id, stands.next) == (stood.checkpoint_id, stood.next)
    assert "Quittengelb" not in str(everything(superuser, ANA))
    await say(db, "ana", "three", "r3")
    assert await words(db, "ana") == ["one", "Heard one", "three", "Heard three"]
    await saver_of(db).adelete_for_runs(["r1", "r3"])
    assert everything(superuser, ANA) == []


class Told(TypedDict, total=False):
    answer: str


def consulting(db: Database) -> Any:
    """A host whose subgraph asks its user, and then fails where the answer is no."""

    def act(state: Told) -> Told:
        if state["answer"] == "no":
            raise ArithmeticError
        return {}

    within = StateGraph(Told)
    within.add_node("ask", lambda _: {"answer": interrupt("Really?")})
    within.add_node("act", act)
    within.add_edge(START, "ask")
    within.add_edge("ask", "act")
    builder = StateGraph(Told)
    builder.add_node("consult", within.compile())
    builder.add_edge(START, "consult")
    return builder.compile(checkpointer=saver_of(db))


@pytest.mark.parametrize("again", [None, Command(resume="yes")], ids=["to be asked again", "to answer otherwise"])
async def test_an_answer_within_a_subgraph_goes_with_its_run(db: Database, again: Any) -> None:
    """The run came no further than into the subgraph, so that nothing of it stands in the graph around it."""
    host = consulting(db)

    def run(name: str) -> Any:
        return {"configurable": {"thread_id": "t1"}, "metadata": {"run_id": name}}

    await host.ainvoke({"answer": ""}, run("r1"), durability="sync")
    with pytest.raises(ArithmeticError):
        await host.ainvoke(Command(resume="no"), run("r2"), durability="sync")
    await saver_of(db).adelete_for_runs(["r2"])
    state = await host.aget_state(run("r3"))
    assert (state.next, [item.value for item in state.interrupts]) == (("consult",), ["Really?"])

    done = await host.ainvoke(again, run("r3"), durability="sync")
    assert [item.value for item in done.get("__interrupt__", ())] == ([] if again else ["Really?"])
    assert done["answer"] == ("yes" if again else "")


@contextmanager
def without_policies(clone: Clone) -> Iterator[None]:
    with clone.as_superuser() as superuser:
        for table in TABLES:
            name = psycopg.sql.Identifier(table)
            superuser.execute(psycopg.sql.SQL("alter table mnemic.{} disable row level security").format(name))
    yield


@pytest.mark.parametrize(
    "sabotaged",
    [False, pytest.param(True, marks=pytest.mark.thorough)],
    ids=["as it is", "without policies, the control"],
)
async def test_runs_of_others_are_left_alone(fresh_db: Clone, sabotaged: bool) -> None:
    async with fresh_db.database() as db:
        await say(db, "bo", "one", "r1")
        if sabotaged:
            with without_policies(fresh_db):
                await saver_of(db, "ana").adelete_for_runs(["r1"])
        else:
            await saver_of(db, "ana").adelete_for_runs(["r1"])
        assert (await words(db, "bo") == []) is sabotaged
