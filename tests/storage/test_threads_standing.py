"""Where a thread stands: one row, in the transaction of its checkpoint, and not a word of what was said."""

import asyncio

import psycopg
import pytest
from langgraph.checkpoint.base import empty_checkpoint

from mnemic.state.errors import ConcurrentChangeError, DatabaseUnavailableError, RefusedError
from mnemic.storage.database import Database
from tests.support.erasing import places
from tests.support.server import Clone
from tests.support.threads import answering, asking, at, counts, misplaced, said, saver_of, words

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
    assert (standing.thread_id, standing.step, standing.source) == ("t", 1, "loop")
    assert {*standing.next} == {*state.next, "work"} == {"consult", "work"}
    await answering(saver_of(db)).ainvoke(said("two"), at("t"))
    await answering(saver_of(db)).ainvoke(said("two"), at("other"))
    last, first = await saver_of(db).statuses()
    assert (last.thread_id, first.thread_id, first.next) == ("other", "t", [])
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
async def test_where_the_connection_ends_between_both_neither_is_saved(fresh_db: Clone) -> None:
    """The checkpoint's statement has run, and its trigger waits for the row's table."""
    async with fresh_db.database() as db:
        with fresh_db.as_superuser() as superuser, fresh_db.as_superuser() as other:
            with other.transaction():
                other.execute("lock table mnemic.supervisor_checkpoints in access exclusive mode")
                saving = asyncio.create_task(put(db))
                while not (pids := blocked(superuser)):  # noqa: ASYNC110 - the server knows, and tells nobody
                    await asyncio.sleep(0.01)
                superuser.execute("select pg_terminate_backend(%s)", pids)
                with pytest.raises(DatabaseUnavailableError):
                    await saving
            assert counts(superuser) == NOTHING
            await put(db)
            assert misplaced(superuser) == []


def blocked(superuser: psycopg.Connection) -> tuple[int] | None:
    return superuser.execute(
        "select pid from pg_stat_activity where datname = current_database() and cardinality(pg_blocking_pids(pid)) > 0"
    ).fetchone()


@pytest.mark.thorough
async def test_control_rows_written_apart_are_torn_apart(fresh_db: Clone) -> None:
    """What the check would see of a row that is written after its checkpoint, and not with it."""
    async with fresh_db.database() as db:
        with fresh_db.as_superuser() as superuser:
            superuser.execute("alter table mnemic.checkpoints disable trigger stands_at")
            await put(db)
            assert misplaced(superuser) != []


async def test_an_earlier_checkpoint_does_not_set_a_thread_back(db: Database, superuser: psycopg.Connection) -> None:
    saver = saver_of(db)
    host = answering(saver)
    await host.ainvoke(said("one"), at("t"))
    found = [item async for item in saver.alist(at("t"))]
    for item in found:  # the newest first
        config = (
            at("t", checkpoint_id=item.parent_config["configurable"]["checkpoint_id"])
            if item.parent_config
            else at("t")
        )
        await saver.aput(config, item.checkpoint, item.metadata, {})
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
