"""Hosts over the checkpointer: in every durability, many at once, broken off and taken up again."""

import asyncio

import psycopg
import pytest
from langgraph.graph import START, StateGraph
from langgraph.types import Command

from mnemic.state.settings import Settings
from mnemic.storage.database import Database
from mnemic.storage.threads import ThreadOwner, ThreadSaver
from tests.support.savers import DURABILITIES, Durability
from tests.support.server import Clone
from tests.support.threads import Host, Talk, answering, asking, at, misplaced, said, saver_of, words

THREADS, CONNECTIONS, TURNS = 50, 10, 4


@pytest.mark.parametrize("durability", DURABILITIES)
async def test_a_host_is_interrupted_and_goes_on_in_another_process(
    clean_db: Clone, superuser: psycopg.Connection, durability: Durability
) -> None:
    worked: list[str] = []
    async with clean_db.database() as db:
        stopped = await asking(saver_of(db), worked).ainvoke(said("one"), at("t"), durability=durability)
        assert [one.value for one in stopped["__interrupt__"]] == ["Really?"]
    async with clean_db.database() as db:  # nothing of the first pool and saver is left
        host = asking(saver_of(db), worked)
        waiting = await host.aget_state(at("t"), subgraphs=True)
        assert [one.value for one in waiting.interrupts] == ["Really?"]
        assert "consult" in waiting.next
        done = await host.ainvoke(Command(resume="yes"), at("t"), durability=durability)
        assert words(done) == ["one", "Heard one", "Asked: yes"]
        assert (done["work"], done["count"]) == ("worked", 7)
        assert (await host.aget_state(at("t"))).next == ()
        history = [one async for one in host.aget_state_history(at("t"))]
    assert worked == ["worked"]  # what was done beside the question is not done again
    assert len(history) == (2 if durability == "exit" else 4)
    assert misplaced(superuser) == []


@pytest.mark.parametrize("durability", DURABILITIES)
async def test_a_thread_is_taken_up_at_an_earlier_moment(db: Database, durability: Durability) -> None:
    host = answering(saver_of(db))
    for text in ("one", "two"):
        await host.ainvoke(said(text), at("t"), durability=durability)
    first = [one async for one in host.aget_state_history(at("t")) if words(one.values)[-1:] == ["Heard one"]][-1]
    branched = await host.ainvoke(said("three"), first.config, durability=durability)
    assert words(branched) == ["one", "Heard one", "three", "Heard three"]
    updated = await host.aupdate_state(at("t"), {"note": "mine"})
    assert updated["configurable"]["thread_id"] == "t"
    assert (await host.aget_state(updated)).values["note"] == "mine"


@pytest.mark.thorough
async def test_fifty_threads_at_once_keep_to_themselves_on_ten_connections(clean_db: Clone) -> None:
    async with clean_db.database(Settings(pool_size=CONNECTIONS)) as db:
        host = answering(ThreadSaver(db, lambda config: ThreadOwner("harbor", config["configurable"]["user_id"])))  # type: ignore[index]

        async def talk(number: int) -> list[str]:
            config = at(f"t{number % 5}", user_id=f"user {number}")
            for turn in range(TURNS):
                last = await host.ainvoke(said(f"{number}:{turn}"), config, durability=DURABILITIES[number % 3])
            saved = (await host.aget_state(config)).values
            assert words(saved) == words(last)
            return words(saved)

        found = await asyncio.gather(*(talk(number) for number in range(THREADS)))
        for number, texts in enumerate(found):
            expected = [f"{prefix}{number}:{turn}" for turn in range(TURNS) for prefix in ("", "Heard ")]
            assert texts == expected
            assert len(await saver_of(db, f"user {number}").standings()) == 1
    with clean_db.as_superuser() as superuser:
        assert misplaced(superuser) == []


async def test_a_saver_is_used_by_many_calls_at_once_without_waiting_for_itself(clean_db: Clone) -> None:
    """The library's own saver lets one statement at a time through; here a slow one holds up nobody."""
    async with clean_db.database(Settings(pool_size=2)) as db:
        saver = saver_of(db)
        await answering(saver).ainvoke(said("one"), at("t"))
        with clean_db.as_superuser() as superuser, superuser.transaction():
            superuser.execute("lock table mnemic.supervisor_checkpoints in access exclusive mode")
            slow = asyncio.create_task(answering(saver).ainvoke(said("two"), at("u")))
            await asyncio.sleep(0.05)
            found = await asyncio.wait_for(saver.aget_tuple(at("t")), 5)
            assert found
            assert not slow.done()
        assert words(await slow) == ["two", "Heard two"]


async def test_a_reader_that_stops_halfway_keeps_no_connection(clean_db: Clone) -> None:
    async with clean_db.database(Settings(pool_size=1)) as db:
        saver = saver_of(db)
        await answering(saver).ainvoke(said("one"), at("t"))
        listing = saver.alist(at("t"))
        first = await anext(listing)
        assert await saver.aget_tuple(first.config)
        await listing.aclose()  # type: ignore[attr-defined]


async def test_threads_may_be_called_from_another_thread(db: Database) -> None:
    """The library's synchronous methods, for hosts that are."""
    saver = saver_of(db)
    host = answering(saver)
    await host.ainvoke(said("one"), at("t"))
    found = await asyncio.to_thread(lambda: list(saver.list(at("t"))))
    assert len(found) == 3
    await asyncio.to_thread(saver.prune, ["t"])
    assert len(await asyncio.to_thread(lambda: list(saver.list(at("t"))))) == 1
    await asyncio.to_thread(saver.delete_thread, "t")
    assert await asyncio.to_thread(saver.get_tuple, at("t")) is None


@pytest.mark.parametrize("durability", DURABILITIES)
async def test_a_subgraph_with_a_memory_of_its_own_keeps_it(db: Database, durability: Durability) -> None:
    inner = StateGraph(Talk)
    inner.add_node("count", lambda state: {"count": state.get("count", 0) + 1, "note": str(state.get("count", 0) + 1)})
    inner.add_edge(START, "count")
    counting = inner.compile(checkpointer=True)

    async def call(state: Talk) -> Talk:
        return {"note": (await counting.ainvoke({"messages": []}))["note"]}

    graph = StateGraph(Talk)
    graph.add_node("call", call)
    graph.add_edge(START, "call")
    host: Host = graph.compile(checkpointer=saver_of(db))
    for _ in range(2):
        await host.ainvoke(said("again"), at("t"), durability=durability)
    await saver_of(db).aprune(["t"])
    done = await host.ainvoke(said("again"), at("t"), durability=durability)
    assert done["note"] == "3"
