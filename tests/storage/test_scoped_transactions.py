"""`scoped()`: what a transaction sees, what is left of it afterwards, and what the server received."""

import uuid
from collections.abc import Callable
from contextlib import AbstractContextManager
from datetime import UTC, datetime

import pytest
from psycopg.errors import ReadOnlySqlTransaction

from mnemic.state.errors import ConcurrentChangeError, DatabaseUnavailableError
from mnemic.state.kinds import Usage
from mnemic.state.records import Supersession
from mnemic.state.settings import Settings
from mnemic.storage import inbox, memories, scopes
from mnemic.storage.database import Database
from mnemic.storage.transaction import ScopedTransaction
from tests.support.server import Clone
from tests.support.worlds import MORNING, identity, memory, message, operate, remember

Statements = Callable[[Database], AbstractContextManager[list[str]]]


async def test_a_read_is_one_statement_in_one_transaction(db: Database, statements: Statements) -> None:
    with statements(db) as sent:
        async with db.scoped(identity()) as scoped:
            await memories.standing(scoped)
    begin, read, commit = sent
    assert begin.startswith("begin; set local ")
    assert commit == "COMMIT"
    assert "set local mnemic.scope_keys = '{" in begin
    assert "from agents a" in read
    assert "from memories" in read


async def test_the_record_of_statements_holds_the_service_and_nobody_else(
    db: Database, clean_db: Clone, statements: Statements
) -> None:
    with statements(db) as sent, clean_db.as_superuser() as connection:
        connection.execute("select 'by the superuser'")
    assert sent == []


async def test_the_scope_ends_with_the_transaction(clean_db: Clone) -> None:
    settings = "select current_setting('mnemic.agent_id', true), current_setting('mnemic.scope_keys', true)"
    async with clean_db.database(Settings(pool_size=1)) as db:
        await remember(db, identity(), memory("Ana keeps bees."))
        async with db.catalog() as connection:  # the same and only connection of the pool
            row = await (await connection.execute(settings)).fetchone()
            seen = await (await connection.execute("select count(*) from memories")).fetchone()
    assert row == ("", "")
    assert seen == (0,)


async def test_without_a_scope_no_table_shows_a_row(db: Database) -> None:
    await remember(db, identity(), memory("Ana keeps bees."))
    tables = ("agents", "scopes", "sessions", "messages", "memories", "sources", "entries", "history",
              "history_contents", "token_usage")  # fmt: skip
    async with db.catalog() as connection:
        for table in tables:
            row = await (await connection.execute(f"select count(*) from {table}")).fetchone()
            assert row == (0,), table


async def test_the_catalog_is_read_only(db: Database) -> None:
    async with db.catalog() as connection:
        with pytest.raises(ReadOnlySqlTransaction):
            await connection.execute("insert into agents (agent_id) values ('harbor')")


async def test_an_error_rolls_everything_back(db: Database) -> None:
    await remember(db, identity())
    fact = memory("Ana keeps bees.")
    late = Supersession(old_id=uuid.uuid4(), old_version=1, new_id=fact.id)
    with pytest.raises(ConcurrentChangeError):
        await operate(
            db,
            identity(),
            lambda scoped: scopes.record_usage(scoped, Usage(step="save", model="m")),
            lambda scoped: memories.insert(scoped, [fact], model="m", vectors={}, run_id=None),
            lambda scoped: memories.supersede(scoped, [(late, MORNING)]),
        )
    async with db.scoped(identity()) as scoped:
        assert await memories.living(scoped, ["fact"], most=10) == []
        assert await scopes.usage_totals(scoped) == []


async def test_a_deadlock_asks_for_another_attempt(db: Database) -> None:
    with pytest.raises(ConcurrentChangeError):
        async with db.scoped(identity()) as scoped:
            await scoped.execute("do $$ begin raise exception using errcode = 'deadlock_detected'; end $$", {})


async def test_a_cut_connection_is_an_unavailable_database(db: Database, clean_db: Clone) -> None:
    async def cut(scoped: ScopedTransaction) -> None:
        with clean_db.as_superuser() as connection:
            connection.execute("select pg_terminate_backend(%s)", (scoped.connection.info.backend_pid,))
        await scoped.execute("select 1", {})

    with pytest.raises(DatabaseUnavailableError):
        await operate(db, identity(), cut)


async def test_an_unreachable_database_says_what_to_check(clean_db: Clone) -> None:
    dsn = clean_db.dsn_of("mnemic_app").replace(clean_db.name, "no_such_database")
    database = Database(dsn, Settings(pool_timeout_seconds=0.2))
    with pytest.raises(DatabaseUnavailableError, match="MNEMIC_DATABASE_URL"):
        await database.open()


async def test_a_moment_has_the_same_day_on_every_machine(clean_db: Clone, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGTZ", "America/Los_Angeles")
    late = datetime(2026, 5, 8, 2, 0, tzinfo=UTC)
    async with clean_db.database(Settings()) as db, db.scoped(identity(session="s1")) as scoped:
        await inbox.observe(scoped, "s1", [message("Tomorrow, then.", said_at=late)])
        (read,) = (await inbox.read_inbox(scoped, "s1", most=5)).messages
    assert read.said_at.isoformat() == "2026-05-08T02:00:00+00:00"


@pytest.mark.parametrize(
    "name", ['an"a', "an\\a", "an'a", "ana'; set local mnemic.scope_keys = '{user:bo}", "{ana,bo}", "%s"]
)
async def test_no_spelling_of_an_id_is_more_than_that_id(db: Database, name: str) -> None:
    """The scope is sent as text with BEGIN, so whatever an id holds has to stay inside its quotes."""
    await remember(db, identity("bo"), memory("Bo keeps bees.", key="user:bo"))
    who = identity(name, agent="harbor")
    async with db.scoped(who, categories=[name, "profile"]) as scoped:
        names = ["mnemic.agent_id", "mnemic.scope_keys", "mnemic.categories"]
        cursor = await scoped.execute(
            "select current_setting(%(agent)s), current_setting(%(keys)s)::text[],"
            " current_setting(%(allowed)s)::text[], (select count(*) from memories)",
            dict(zip(("agent", "keys", "allowed"), names, strict=True)),
        )
        assert await cursor.fetchall() == [("harbor", [*who.scope_keys], [name, "profile"], 0)]
