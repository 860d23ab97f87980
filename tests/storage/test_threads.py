"""The checkpointer: all that LangGraph asks of one, hosts over it, and the row that says where a thread stands."""

import asyncio
import logging
from dataclasses import dataclass
from typing import Annotated, Any

import psycopg
import pytest
from langgraph.channels import DeltaChannel
from langgraph.checkpoint.base import BaseCheckpointSaver, empty_checkpoint
from langgraph.checkpoint.conformance import checkpointer_test, validate
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.graph import START, StateGraph
from langgraph.types import Command
from typing_extensions import TypedDict

from mnemic.state.errors import ConcurrentChangeError, RefusedError
from mnemic.state.settings import Settings
from mnemic.storage.database import Database
from mnemic.storage.threads import ThreadSaver
from tests.support.erasing import places
from tests.support.server import Clone
from tests.support.threads import (
    DURABILITIES,
    Durability,
    answering,
    asking,
    at,
    counts,
    misplaced,
    said,
    saver_of,
    words,
)

SAVERS_TABLES = ["checkpoint_blobs", "checkpoint_migrations", "checkpoint_writes", "checkpoints"]


async def test_the_conformance_suite_of_checkpointers_passes_in_full(db: Database) -> None:
    @checkpointer_test(name="mnemic")
    async def saver() -> Any:
        yield saver_of(db)

    report = await validate(saver)
    results = report.to_dict()["results"]
    assert report.passed_all(), results
    done = {name for name, result in results.items() if result["tests_passed"]}
    assert {"delete_for_runs", "copy_thread", "prune"} < done
    assert len(done) == 8


def shape(connection: psycopg.Connection, schema: str) -> dict[str, list[tuple[Any, ...]]]:
    """Columns and indexes of the saver's tables."""
    columns = connection.execute(
        "select table_name, column_name, ordinal_position, data_type, is_nullable, column_default"
        " from information_schema.columns where table_schema = %s and table_name = any(%s) order by 1, 3",
        (schema, SAVERS_TABLES),
    ).fetchall()
    indexes = connection.execute(
        "select tablename, indexname, replace(indexdef, %s, '') from pg_indexes"
        " where schemaname = %s and tablename = any(%s) order by 1, 2",
        (f"{schema}.", schema, SAVERS_TABLES),
    ).fetchall()
    return {"columns": columns, "indexes": indexes}


async def test_the_tables_are_those_of_the_librarys_own_set_up(fresh_db: Clone, empty_db: Clone) -> None:
    async with AsyncPostgresSaver.from_conn_string(empty_db.superuser_dsn) as plain:
        await plain.setup()
    with fresh_db.as_superuser() as ours, empty_db.as_superuser() as theirs:
        found, expected = shape(ours, "mnemic"), shape(theirs, "public")
        ours.execute("drop index mnemic.checkpoints_thread_id_idx")  # the comparison's control
        assert shape(ours, "mnemic")["indexes"] != expected["indexes"]
    assert found == expected
    assert [len(rows) for rows in expected.values()] == [23, 7]


@dataclass
class Lodger:
    """A type that nobody allowed."""

    name: str


ALLOWED: dict[str, tuple[Any, type]] = {
    "ours": (None, dict),
    "a graph's own": ([(__name__, "Lodger")], Lodger),
    "control: everything goes": (True, Lodger),
}


@pytest.mark.parametrize(("allowed", "kind"), ALLOWED.values(), ids=ALLOWED)
async def test_a_checkpoint_makes_no_objects_of_types_that_were_not_allowed(
    db: Database, caplog: pytest.LogCaptureFixture, allowed: Any, kind: type
) -> None:
    saver: BaseCheckpointSaver[str] = saver_of(db)
    await saver_of(db).setup()  # as tutorials call it: nothing is left to do
    if allowed is True:
        saver.serde = JsonPlusSerializer(allowed_msgpack_modules=allowed)
    elif allowed:
        saver = saver.with_allowlist(allowed)
    checkpoint = {**empty_checkpoint(), "channel_values": {"who": Lodger("Ana")}, "channel_versions": {"who": "1"}}
    with caplog.at_level(logging.CRITICAL):
        await saver.aput(at("t"), checkpoint, {"step": 0}, {"who": "1"})  # type: ignore[arg-type]
        found = await saver.aget_tuple(at("t"))
    assert found
    assert type(found.checkpoint["channel_values"]["who"]) is kind


class Changes(TypedDict):
    items: Annotated[
        list[str], DeltaChannel(lambda known, new: [*known, *(item for entry in new for item in entry)], list)
    ]


async def test_channels_that_are_kept_as_changes_come_back_whole(db: Database) -> None:
    def host(saver: Any) -> Any:
        graph = StateGraph(Changes)
        graph.add_node("add", lambda state: {"items": [f"item {len(state['items'])}"]})
        graph.add_edge(START, "add")
        return graph.compile(checkpointer=saver)

    found = []
    for saver in (saver_of(db), InMemorySaver()):
        for _ in range(3):
            await host(saver).ainvoke({"items": ["new"]}, at("t"))
        found.append((await host(saver).aget_state(at("t"))).values)
    assert found[0] == found[1] == {"items": ["new", "item 1", "new", "item 3", "new", "item 5"]}
    history = await saver_of(db).aget_delta_channel_history(config=at("t"), channels=["items"])
    assert history["items"]["writes"]
    assert await saver_of(db, "bo").aget_delta_channel_history(config=at("t"), channels=["items"]) == {
        "items": {"writes": []}
    }


THREADS, CONNECTIONS, TURNS = 50, 10, 4
#: One of them each time, all with the thorough tests.
EACH = ["sync", *(pytest.param(name, marks=pytest.mark.thorough) for name in ("async", "exit"))]


@pytest.mark.parametrize("durability", EACH)
async def test_a_host_is_interrupted_and_goes_on_in_another_process(
    clean_db: Clone, superuser: psycopg.Connection, durability: Durability
) -> None:
    worked: list[str] = []
    async with clean_db.database() as db:
        stopped = await asking(saver_of(db), worked).ainvoke(said("one"), at("t"), durability=durability)
        assert [item.value for item in stopped["__interrupt__"]] == ["Really?"]
    async with clean_db.database() as db:  # nothing of the first pool and saver is left
        host = asking(saver_of(db), worked)
        waiting = await host.aget_state(at("t"), subgraphs=True)
        assert [item.value for item in waiting.interrupts] == ["Really?"]
        assert "consult" in waiting.next
        done = await host.ainvoke(Command(resume="yes"), at("t"), durability=durability)
        assert words(done) == ["one", "Heard one", "Asked: yes"]
        assert (done["work"], done["count"]) == ("worked", 7)
        assert (await host.aget_state(at("t"))).next == ()
        history = [item async for item in host.aget_state_history(at("t"))]
    assert worked == ["worked"]  # what was done beside the question is not done again
    assert len(history) == (2 if durability == "exit" else 4)
    assert misplaced(superuser) == []


@pytest.mark.thorough
async def test_fifty_threads_at_once_keep_to_themselves_on_ten_connections(clean_db: Clone) -> None:
    async with clean_db.database(Settings(pool_size=CONNECTIONS)) as db:
        host = answering(ThreadSaver(db))

        async def talk(number: int) -> list[str]:
            config = at(f"t{number % 5}", agent_id="harbor", user_id=f"user {number}")
            for turn in range(TURNS):
                last = await host.ainvoke(said(f"{number}:{turn}"), config, durability=DURABILITIES[number % 3])
            saved = (await host.aget_state(config)).values
            assert words(saved) == words(last)
            return words(saved)

        found = await asyncio.gather(*(talk(number) for number in range(THREADS)))
        for number, texts in enumerate(found):
            expected = [f"{prefix}{number}:{turn}" for turn in range(TURNS) for prefix in ("", "Heard ")]
            assert texts == expected
            assert len(await saver_of(db, f"user {number}").statuses()) == 1
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
            found = await asyncio.wait_for(saver.aget_tuple(at("t")), 30)
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


NOTHING = {"checkpoints": 0, "checkpoint_blobs": 0, "checkpoint_writes": 0, "supervisor_checkpoints": 0}
CANARY = "quokka"
FAILING = (
    "create function mnemic.fail() returns trigger language plpgsql as"
    " $$ begin raise exception 'no' using errcode = 'P0001'; end $$"
)


async def put(db: Database) -> None:
    checkpoint = {**empty_checkpoint(), "channel_values": {"words": ["one"]}, "channel_versions": {"words": "1"}}
    await saver_of(db).aput(at("t"), checkpoint, {"step": 0}, {"words": "1"})  # type: ignore[arg-type]


async def test_each_thread_has_one_row_that_says_where_it_stands(db: Database, superuser: psycopg.Connection) -> None:
    host = asking(saver_of(db))
    await host.ainvoke(said("one"), at("t"))
    (standing,) = await saver_of(db).statuses()
    state = await host.aget_state(at("t"))
    assert standing.checkpoint_id == state.config["configurable"]["checkpoint_id"]
    assert (standing.id, standing.step, standing.source) == ("t", 1, "loop")
    assert {*standing.next} == {*state.next, "work"} == {"consult", "work"}
    await answering(saver_of(db)).ainvoke(said("two"), at("t"))
    await answering(saver_of(db)).ainvoke(said("two"), at("other"))
    last, first = await saver_of(db).statuses()
    assert (last.id, first.id, first.next) == ("other", "t", [])
    assert first.created_at == standing.created_at < standing.updated_at < first.updated_at < last.updated_at
    assert counts(superuser)["supervisor_checkpoints"] == 2
    assert misplaced(superuser) == []


async def test_a_row_holds_no_word_of_what_was_said(db: Database, superuser: psycopg.Connection) -> None:
    """The control: the saver's own tables hold it all."""
    await asking(saver_of(db)).ainvoke({**said(f"My {CANARY}"), "note": f"my {CANARY}"}, at("t"))
    await answering(saver_of(db)).ainvoke(said(f"My {CANARY}"), at("u"))
    assert places(superuser) == {"checkpoints"}  # blobs are bytes
    blobs = superuser.execute(
        "select 1 from mnemic.checkpoint_blobs where position(%s in blob) > 0", (CANARY.encode(),)
    )
    assert blobs.fetchall()


async def test_where_one_part_fails_nothing_is_saved(fresh_db: Clone) -> None:
    async with fresh_db.database() as db:
        with fresh_db.as_superuser() as superuser:
            superuser.execute(FAILING)
            for table in ("supervisor_checkpoints", "checkpoints", "checkpoint_blobs"):
                on_table = f"on mnemic.{table}"
                made = f"create trigger fail before insert {on_table} for each row execute function mnemic.fail()"
                superuser.execute(made.encode())
                with pytest.raises(RefusedError):
                    await put(db)
                assert counts(superuser) == NOTHING
                superuser.execute(f"drop trigger fail {on_table}".encode())
            await put(db)
            saved = {"checkpoints": 1, "checkpoint_blobs": 1, "supervisor_checkpoints": 1}
            assert counts(superuser) == {**NOTHING, **saved}


@pytest.mark.thorough
async def test_control_rows_written_apart_are_torn_apart(fresh_db: Clone) -> None:
    """What the check would see of a row that is written after its checkpoint, and not with it."""
    async with fresh_db.database() as db:
        with fresh_db.as_superuser() as superuser:
            superuser.execute("alter table mnemic.checkpoints disable trigger record_state")
            await put(db)
            assert misplaced(superuser) != []


async def test_an_earlier_checkpoint_does_not_set_a_thread_back(db: Database, superuser: psycopg.Connection) -> None:
    saver = saver_of(db)
    host = answering(saver)
    await host.ainvoke(said("one"), at("t"))
    found = [item async for item in saver.alist(at("t"))]
    for item in found:  # the newest first
        before = item.parent_config["configurable"]["checkpoint_id"] if item.parent_config else None
        await saver.aput(at("t", checkpoint_id=before), item.checkpoint, item.metadata, {})  # type: ignore[arg-type]
    assert misplaced(superuser) == []


@pytest.mark.thorough
async def test_prunings_at_once_leave_a_thread_whole(db: Database, superuser: psycopg.Connection) -> None:
    saver = saver_of(db)
    host = answering(saver)
    for text in ("one", "two", "three"):
        await host.ainvoke(said(text), at("t"))
    ends = await asyncio.gather(*(saver.aprune(["t"]) for _ in range(4)), return_exceptions=True)
    assert None in ends
    assert {type(end) for end in ends} <= {type(None), ConcurrentChangeError}
    assert counts(superuser)["checkpoints"] == 1
    assert words(await host.ainvoke(said("four"), at("t")))[-1] == "Heard four"
    assert misplaced(superuser) == []
