"""The checkpointer: all that LangGraph asks of one, on the very tables that its own set-up makes."""

import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import psycopg
import pytest
from langgraph.channels import DeltaChannel
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.conformance import checkpointer_test, validate
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.graph import START, StateGraph
from typing_extensions import TypedDict

from mnemic.state.errors import InvalidInputError
from mnemic.storage.database import Database
from tests.support.server import Clone
from tests.support.threads import answering, at, everything, said, saver_of, words
from tests.support.wheel import ROOMS, ROOT

SAVERS_TABLES = ["checkpoint_blobs", "checkpoint_migrations", "checkpoint_writes", "checkpoints"]


async def test_the_conformance_suite_of_checkpointers_passes_in_full(db: Database) -> None:
    @checkpointer_test(name="mnemic")
    async def saver() -> Any:
        yield saver_of(db)

    report = await validate(saver)
    results = report.to_dict()["results"]
    assert report.passed_all(), results
    done = {name for name, result in results.items() if result["tests_passed"]}
    assert done == {
        "put",
        "put_writes",
        "get_tuple",
        "list",
        "delete_thread",
        "delete_for_runs",
        "copy_thread",
        "prune",
    }


def shape(connection: psycopg.Connection, schema: str) -> dict[str, list[tuple[Any, ...]]]:
    """Columns, keys and indexes of the saver's tables, and the versions they say they have."""
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
    keys = connection.execute(
        "select conrelid::regclass::text, conname, pg_get_constraintdef(oid) from pg_constraint"
        " where connamespace = %s::regnamespace and conrelid::regclass::text ~ 'checkpoint' and contype in ('p', 'f')"
        " and conrelid::regclass::text !~ 'supervisor' order by 2",
        (schema,),
    ).fetchall()
    versions = connection.execute(f"select v from {schema}.checkpoint_migrations order by 1".encode()).fetchall()
    stripped = [(str(table).removeprefix(f"{schema}."), name, text) for table, name, text in keys]
    return {"columns": columns, "indexes": indexes, "keys": stripped, "versions": versions}


async def test_the_tables_are_those_of_the_librarys_own_set_up(fresh_db: Clone, empty_db: Clone) -> None:
    async with AsyncPostgresSaver.from_conn_string(empty_db.superuser_dsn) as plain:
        await plain.setup()
    with fresh_db.as_superuser() as ours, empty_db.as_superuser() as theirs:
        found, expected = shape(ours, "mnemic"), shape(theirs, "public")
        ours.execute("drop index mnemic.checkpoints_thread_id_idx")  # the comparison's control
        assert shape(ours, "mnemic")["indexes"] != expected["indexes"]
    assert found == expected
    assert [len(rows) for rows in expected.values()] == [23, 7, 4, 10]


async def test_set_up_as_tutorials_call_it_does_nothing(db: Database) -> None:
    saver = saver_of(db)
    await saver.setup()
    assert await saver.aget_tuple(at("t")) is None


@dataclass
class Lodger:
    """A type that nobody allowed."""

    name: str


@pytest.mark.parametrize(("allowed", "kind"), [(None, dict), (True, Lodger)], ids=["ours", "control: everything goes"])
async def test_a_checkpoint_makes_no_objects_of_types_that_were_not_allowed(
    db: Database, caplog: pytest.LogCaptureFixture, allowed: Any, kind: type
) -> None:
    saver = saver_of(db)
    if allowed:
        saver.serde = JsonPlusSerializer(allowed_msgpack_modules=allowed)
    checkpoint = {**empty_checkpoint(), "channel_values": {"who": Lodger("Ana")}, "channel_versions": {"who": "1"}}
    with caplog.at_level(logging.CRITICAL):
        await saver.aput(at("t"), checkpoint, {"step": 0}, {"who": "1"})  # type: ignore[arg-type]
        found = await saver.aget_tuple(at("t"))
    assert found
    assert type(found.checkpoint["channel_values"]["who"]) is kind


async def test_a_graph_may_allow_types_of_its_own(db: Database) -> None:
    allowing = saver_of(db).with_allowlist([(Lodger.__module__, Lodger.__name__)])
    checkpoint = {**empty_checkpoint(), "channel_values": {"who": Lodger("Ana")}, "channel_versions": {"who": "1"}}
    await allowing.aput(at("t"), checkpoint, {"step": 0}, {"who": "1"})  # type: ignore[arg-type]
    found = await allowing.aget_tuple(at("t"))
    assert found
    assert found.checkpoint["channel_values"]["who"] == Lodger("Ana")


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


async def test_a_copied_thread_goes_on_by_itself(db: Database) -> None:
    saver = saver_of(db)
    host = answering(saver)
    await host.ainvoke(said("one"), at("t"))
    await saver.acopy_thread("t", "copy")
    assert await everything(saver, "copy") == await everything(saver, "t")
    await host.ainvoke(said("two"), at("copy"))
    await saver.acopy_thread("t", "copy")
    assert words((await host.aget_state(at("t"))).values) == ["one", "Heard one"]
    assert words((await host.aget_state(at("copy"))).values) == ["one", "Heard one", "two", "Heard two"]


async def test_an_id_that_cannot_be_stored_is_refused_without_a_word_of_it(db: Database) -> None:
    with pytest.raises(InvalidInputError) as refused:
        await answering(saver_of(db)).ainvoke(said("one"), at("quokka\x00"))
    assert "quokka" not in str(refused.value)


def test_only_storage_knows_the_checkpointers_library() -> None:
    rooms = [ROOT / folder for folder in ROOMS.values() if folder != "storage"]
    files = [path for room in rooms for path in room.rglob("*.py")]
    assert len(files) > 50
    assert [str(path) for path in files if "checkpoint.postgres" in Path(path).read_text(encoding="utf-8")] == []
