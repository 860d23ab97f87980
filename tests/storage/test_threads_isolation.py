"""Whose thread or run is whose: two people may name theirs alike, and neither finds, changes or deletes the other's."""

from collections.abc import Sequence
from itertools import permutations
from typing import Any

import psycopg
import pytest
from langgraph.graph import START, StateGraph
from langgraph.types import Command, interrupt
from typing_extensions import TypedDict

from mnemic.storage.database import Database
from mnemic.storage.threads import ThreadOwner, find_owners
from tests.support.server import Clone
from tests.support.threads import TABLES, answering, at, counts, everything, misplaced, said, saver_of, words
from tests.support.worlds import identity

#: What a foreign user might call Ana's thread.
NAMES = ("t", "harbor/ana/t", "ana/t", "../ana/t", "%2Fana%2Ft", "../../harbor/ana/t", "%")
#: Everything that the service's role can see of a table.
SEEN = "select distinct {} from {}"
OWN = dict.fromkeys(TABLES, "thread_id") | {"supervisor_checkpoints": "agent_id || '/' || user_id || '/' || thread_id"}


async def talk(db: Database) -> None:
    for user in ("ana", "bo"):
        for name in ("t", "u"):
            await answering(saver_of(db, user)).ainvoke(said(f"I am {user}"), at(name))


async def seen(db: Database, owner: str, table: str) -> set[str]:
    async with db.thread_transaction(owner) as cursor:
        await cursor.execute(SEEN.format(OWN[table], table).encode())
        return {next(iter(row.values())) for row in await cursor.fetchall()}


async def test_nobody_reaches_a_foreign_thread_by_any_name(db: Database, superuser: psycopg.Connection) -> None:
    await answering(saver_of(db)).ainvoke(said("I am ana"), at("t"))
    before, own = counts(superuser), await everything(saver_of(db), "t")
    bo = saver_of(db, "bo")
    for name in NAMES[1:]:
        for _, checkpoint_id, *_ in own:
            assert await bo.aget_tuple(at(name, checkpoint_id=checkpoint_id)) is None
        assert await bo.aget_tuple(at(name)) is None
        assert [item async for item in bo.alist(at(name))] == []
        await bo.acopy_thread(name, "mine")
        await bo.adelete_thread(name)
        for strategy in ("keep_latest", "delete"):
            await bo.aprune([name, "t"], strategy=strategy)
    assert [item async for item in bo.alist(None)] == []
    assert await bo.statuses() == []
    assert counts(superuser) == before
    for name in NAMES[1:]:  # what somebody writes under such a name is their own
        await answering(bo).ainvoke(said("Mine."), at(name))
    assert await everything(saver_of(db), "t") == own


async def test_a_bare_select_sees_the_owners_rows_and_none_without_an_owner(db: Database) -> None:
    await talk(db)
    for table in TABLES:
        assert await seen(db, "harbor/ana/", table) == {"harbor/ana/t", "harbor/ana/u"}
        assert await seen(db, "", table) == set()
        assert await seen(db, "harbor/an/", table) == set()
        async with db.transaction(identity("ana")) as tx:
            assert await (await tx.execute(f"select 1 from {table}", {})).fetchall() == []


@pytest.mark.thorough
async def test_control_without_policies_everybodys_rows_are_seen_and_listed(fresh_db: Clone) -> None:
    with fresh_db.as_superuser() as superuser:
        for table in TABLES:
            superuser.execute(f"drop policy service on mnemic.{table}".encode())
            superuser.execute(f"create policy service on mnemic.{table} to mnemic_app using (true)".encode())
    async with fresh_db.database() as db:
        await talk(db)
        for table in TABLES:
            for owner in ("harbor/ana/", ""):
                assert await seen(db, owner, table) > {"harbor/ana/t", "harbor/bo/t"}
        found = [item.config["configurable"]["thread_id"] async for item in saver_of(db).alist(None)]
        assert {"t", "harbor/bo/t"} <= {*found}
        await say(db, "bo", "one", "r1")
        await saver_of(db).adelete_for_runs(["r1"])
        assert await find_owners(db, thread_id="t1") == []


PARTS = ("a", "a/b", "b", "", "%", "%2F", "a%2Fb", "/", "Ünal", "a b")


async def test_awkward_ids_stay_apart_and_are_written_down_as_they_are(
    db: Database, superuser: psycopg.Connection
) -> None:
    pairs: Sequence[tuple[str, str]] = [pair for pair in permutations(PARTS, 2) if pair[0]]
    assert len({ThreadOwner(*pair).prefix for pair in pairs}) == len(pairs)
    for agent, user in pairs[::20]:
        saver = saver_of(db, user, agent)
        for thread in ("t", "a/b", "%2F"):
            await answering(saver).ainvoke(said(f"{agent} {user}"), at(thread))
        found = {words(item.checkpoint["channel_values"])[0] async for item in saver.alist(None)
                 if item.checkpoint["channel_values"].get("messages")}  # fmt: skip
        assert found == {f"{agent} {user}"}
        assert {item.id for item in await saver.statuses()} == {"t", "a/b", "%2F"}
    rows = superuser.execute("select distinct agent_id, user_id from mnemic.supervisor_checkpoints").fetchall()
    assert {*rows} == {*pairs[::20]}
    assert misplaced(superuser) == []


async def say(db: Database, user: str, text: str, run: str, thread: str = "t1") -> list[str]:
    """One turn of a run, as the server marks its checkpoints; all words of the thread."""
    config: Any = {**at(thread), "metadata": {"run_id": run}}
    return words(await answering(saver_of(db, user)).ainvoke(said(text), config))


async def test_owners_are_found_by_a_threads_id_and_by_a_runs(db: Database) -> None:
    ana, bo = ThreadOwner("harbor", "ana"), ThreadOwner("harbor", "bo")
    await say(db, "ana", "one", "r1")
    await say(db, "bo", "two", "r2")
    await say(db, "bo", "three", "r3", thread="t2")
    assert await find_owners(db, thread_id="t1") == [bo, ana]  # who moved it last first
    assert [await find_owners(db, thread_id=other) for other in ("t2", "t3", "%")] == [[bo], [], []]
    assert sorted(await find_owners(db, run_ids=["r1", "r2"])) == [ana, bo]
    assert await find_owners(db, run_ids=["r4", "%"]) == []


async def test_a_thread_rid_of_its_last_run_stands_where_it_stood_before(
    db: Database, superuser: psycopg.Connection
) -> None:
    await say(db, "ana", "one", "r1")
    (stood,) = await saver_of(db).statuses()
    await say(db, "ana", "Quittengelb", "r2")
    before = counts(superuser)
    await saver_of(db, "bo").adelete_for_runs(["r1", "r2"])
    assert counts(superuser) == before  # runs of others are left alone
    await saver_of(db).adelete_for_runs(["r2"])
    (stands,) = await saver_of(db).statuses()
    assert (stands.checkpoint_id, stands.next) == (stood.checkpoint_id, stood.next)
    left = superuser.execute(
        "select from mnemic.checkpoint_blobs where position('Quittengelb' in encode(blob, 'escape')) > 0"
    )
    assert left.rowcount == 0
    assert await say(db, "ana", "three", "r3") == ["one", "Heard one", "three", "Heard three"]
    await saver_of(db).adelete_for_runs(["r1", "r3"])
    assert set(counts(superuser).values()) == {0}


class Answer(TypedDict, total=False):
    answer: str


def consulting(db: Database) -> Any:
    """A host whose subgraph asks its user, and then fails where the answer is no."""

    def act(state: Answer) -> Answer:
        if state["answer"] == "no":
            raise ArithmeticError
        return {}

    within = StateGraph(Answer)
    within.add_node("ask", lambda _: {"answer": interrupt("Really?")})
    within.add_node("act", act)
    within.add_edge(START, "ask")
    within.add_edge("ask", "act")
    builder = StateGraph(Answer)
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
