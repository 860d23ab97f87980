"""Setting up a database: its files and the record of them, and servers as administrators run them."""

import asyncio
import re
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Iterator, Sequence
from importlib import resources
from pathlib import Path

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo

from mnemic.state.errors import DatabaseSetupError, DatabaseUnavailableError
from mnemic.state.settings import Settings
from mnemic.storage import memories
from mnemic.storage.database import Database
from mnemic.storage.definitions import RECORD
from mnemic.storage.embedded.binaries import find_binaries
from mnemic.storage.embedded.server import EmbeddedPostgres
from mnemic.storage.migrate import migrate
from mnemic.storage.schema import LISTED_COLUMNS, bodies, schema_files
from tests.support.matrix import few_first
from tests.support.record_definitions import fresh_record
from tests.support.server import Clone, fast_directory
from tests.support.worlds import identity, memory, remember

FILES = [file.name for file in schema_files()]
#: What an earlier release may have left, or somebody may have done.
OTHER_RULES = [
    "create function mnemic.gone() returns int language sql security definer as 'select 1'",
    "create function mnemic.is_searchable(content text) returns boolean language sql as 'select true'",
    "drop function mnemic.agent_ids; create function mnemic.agent_ids(p_most integer) returns setof text language sql"
    " as 'select 1'",
    "create or replace function mnemic.refuse_change() returns trigger language plpgsql as 'begin return new; end'",
    "create trigger gone after insert on mnemic.memories execute function mnemic.refuse_change()",
    "drop trigger guard on mnemic.memories",
    "create policy gone on mnemic.memories to mnemic_app using (true)",
    "drop policy service on mnemic.entries",
    "alter table mnemic.sources no force row level security",
    "grant delete, truncate on mnemic.memories to mnemic_app",
    "grant select (content) on mnemic.memories to mnemic_admin",
    "revoke insert on mnemic.agents from mnemic_app",
    "grant execute on all functions in schema mnemic to public",
]


def dumped(clone: Clone) -> list[str]:
    """Everything in the schema: tables, functions, triggers, policies, rights, owners."""
    done = subprocess.run(
        [find_binaries() / "pg_dump", "--schema-only", "--schema=mnemic", clone.superuser_dsn],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    lines = (line for line in done.stdout.splitlines() if not line.startswith(("\\restrict", "\\unrestrict")))
    return [line for line in lines if line and not line.startswith("--")]


async def test_every_file_is_applied_once_and_in_order(empty_db: Clone) -> None:
    assert FILES[-1] == "rules"
    assert await migrate(empty_db.superuser_dsn) == FILES
    before = dumped(empty_db)
    assert await migrate(empty_db.superuser_dsn) == []
    assert dumped(empty_db) == before


@pytest.mark.parametrize("other", few_first(OTHER_RULES))
async def test_rules_whose_text_has_changed_are_made_anew_and_nothing_else_stays(fresh_db: Clone, other: str) -> None:
    before = dumped(fresh_db)
    with fresh_db.as_superuser() as connection:
        connection.execute(other.encode())
        connection.execute("update mnemic.migrations set checksum = 'earlier' where name = 'rules'")
    assert dumped(fresh_db) != before
    assert await migrate(fresh_db.superuser_dsn) == ["rules"]
    assert dumped(fresh_db) == before


@pytest.mark.parametrize(
    ("record", "message"),
    [
        ("update mnemic.migrations set checksum = 'other' where name like '0001%'", r"0001_memories\.sql was changed"),
        (
            "insert into mnemic.migrations values ('9999_new.sql', 'x')",
            r"9999_new\.sql is unknown to this release: use",
        ),
    ],
)
async def test_tables_of_another_release_are_refused(fresh_db: Clone, record: str, message: str) -> None:
    before = dumped(fresh_db)
    with fresh_db.as_superuser() as connection:
        connection.execute(record.encode())
        connection.execute("update mnemic.migrations set checksum = 'other' where name = 'rules'")
    with pytest.raises(DatabaseSetupError, match=message):
        await migrate(fresh_db.superuser_dsn)
    assert dumped(fresh_db) == before


async def test_what_somebody_built_on_a_function_is_named_and_kept(fresh_db: Clone) -> None:
    with fresh_db.as_superuser() as connection:
        connection.execute("create view public.mine as select mnemic.is_searchable('fact', 'active')")
        connection.execute("update mnemic.migrations set checksum = 'other' where name = 'rules'")
        with pytest.raises(DatabaseSetupError, match=r"view (public\.)?mine depends on"):
            await migrate(fresh_db.superuser_dsn)
        connection.execute("drop view public.mine")
    assert await migrate(fresh_db.superuser_dsn) == ["rules"]


async def test_a_service_that_runs_goes_on_with_rules_that_were_made_anew(fresh_db: Clone) -> None:
    """Also with what its connection prepared before, which psycopg does at the sixth run."""
    async with fresh_db.database(Settings(pool_size=1)) as db:
        for number in range(7):
            await remember(db, identity(), memory(f"Ana keeps {number} hives."))
        with fresh_db.as_superuser() as connection:
            connection.execute("update mnemic.migrations set checksum = 'earlier' where name = 'rules'")
        assert await migrate(fresh_db.superuser_dsn) == ["rules"]
        assert len(await remember(db, identity(), memory("Ana sails."))) == 1
        async with db.transaction(identity()) as tx:
            assert len(await memories.list_memories(tx, ["fact"], limit=9)) == 8
        async with db.transaction(identity("bo")) as tx:
            assert await memories.list_memories(tx, ["fact"], limit=9) == []


@pytest.mark.thorough
async def test_rules_that_lose_a_deadlock_with_a_running_service_come_again(fresh_db: Clone) -> None:
    waiting = "select count(*) from pg_locks where not granted"
    with fresh_db.as_superuser() as service, fresh_db.as_superuser() as watcher:
        watcher.execute("update mnemic.migrations set checksum = 'other' where name = 'rules'")
        service.execute("set deadlock_timeout = '1min'")
        with service.transaction():
            service.execute("select from mnemic.memories")
            migrating = asyncio.create_task(migrate(fresh_db.superuser_dsn))
            while watcher.execute(waiting).fetchone() != (1,):  # noqa: ASYNC110  # what it waits for is in the server
                await asyncio.sleep(0.01)
            await asyncio.to_thread(service.execute, "select from mnemic.agents")
        assert await migrating == ["rules"]


async def test_the_record_of_definitions_is_a_fresh_set_up(fresh_db: Clone) -> None:
    """If this fails, a table, function or right was changed: run `make definitions`."""
    recorded = resources.files("mnemic.storage.sql").joinpath(RECORD).read_text(encoding="utf-8")
    assert (await fresh_record(fresh_db)).splitlines() == recorded.splitlines()


def test_the_body_of_every_function_is_read(fresh_db: Clone) -> None:
    with fresh_db.as_superuser() as connection:
        functions = connection.execute(
            "select proname from pg_proc where pronamespace = 'mnemic'::regnamespace and prosqlbody is null"
        ).fetchall()
    assert {name for (name,) in functions} == set(bodies())


@pytest.fixture(scope="module")
def private_server() -> Iterator[str]:
    """DSN of the superuser of a server whose other roles need a password."""
    with (
        tempfile.TemporaryDirectory(dir=fast_directory(), prefix="mnemic-roles-") as directory,
        EmbeddedPostgres(Path(directory)) as embedded,
    ):
        # whom a line of this file fits is let in by it, and the first one counts
        Path(directory, "data", "pg_hba.conf").write_text("local all postgres trust\nlocal all all scram-sha-256\n")
        with psycopg.connect(embedded.dsn(), autocommit=True) as connection:
            connection.execute("select pg_reload_conf()")
        yield embedded.dsn()


@pytest.fixture
def admin_dsn(private_server: str) -> Iterator[str]:
    """The superuser of a server that has never heard of Mnemic; every database and role of a test goes with it."""
    yield private_server
    with psycopg.connect(private_server, autocommit=True) as connection:
        databases = connection.execute("select datname from pg_database where datname like 'shop%'").fetchall()
        roles = connection.execute("select rolname from pg_roles where rolname ~ '^(mnemic|operator)'").fetchall()
        for kind, names in (("database", databases), ("role", roles)):
            for (name,) in names:
                connection.execute(sql.SQL("drop {} {}").format(sql.SQL(kind), sql.Identifier(name)))


def database(admin_dsn: str, *, owner: str = "postgres", vector: bool = False) -> str:
    """DSN of the superuser on a new database."""
    name = f"shop_{uuid.uuid4().hex[:8]}"
    dsn = make_conninfo(admin_dsn, dbname=name)
    with psycopg.connect(admin_dsn, autocommit=True) as connection:
        connection.execute(sql.SQL("create database {} owner {}").format(sql.Identifier(name), sql.Identifier(owner)))
    if vector:
        with psycopg.connect(dsn, autocommit=True) as connection:
            connection.execute("create extension vector")
    return dsn


def role(admin_dsn: str, name: str, rights: str) -> None:
    with psycopg.connect(admin_dsn, autocommit=True) as connection:
        connection.execute(f"create role {name} login password 'secret' {rights}")


@pytest.mark.thorough
def test_six_processes_that_migrate_at_once_apply_each_file_once(admin_dsn: str) -> None:
    program = (
        "import asyncio, sys; from mnemic.storage.migrate import migrate; print(len(asyncio.run(migrate(sys.argv[1]))))"
    )
    command = [sys.executable, "-c", program, database(admin_dsn)]
    processes = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(6)]
    answers = [process.communicate(timeout=120)[0] for process in processes]
    assert [process.returncode for process in processes] == [0] * 6
    assert sum(map(int, answers)) == len(FILES)


async def test_databases_of_one_server_are_set_up_at_once(admin_dsn: str) -> None:
    """Roles belong to the whole server, and the lock to one database."""
    ran = await asyncio.gather(*(migrate(database(admin_dsn)) for _ in range(6)))
    assert ran == [FILES] * 6


async def test_role_without_superuser_sets_up_a_database_with_the_extension(admin_dsn: str) -> None:
    """And gives each role the password of its DSN; no other opens."""
    role(admin_dsn, "operator", "createrole")
    dsn = database(admin_dsn, owner="operator", vector=True)
    service_dsn = make_conninfo(dsn, user="mnemic_app", password="of-the-service")
    administrator_dsn = make_conninfo(dsn, user="mnemic_admin", password="it's \\ 'quoted'")
    for applied in (FILES, []):
        operator_dsn = make_conninfo(dsn, user="operator", password="secret")
        assert await migrate(operator_dsn, service_dsn=service_dsn, admin_dsn=administrator_dsn) == applied
    db = Database(service_dsn, Settings())
    await db.open()
    try:
        assert len(await remember(db, identity(), memory("Ana keeps bees."))) == 1
    finally:
        await db.close()
    psycopg.connect(administrator_dsn).close()
    for user in ("mnemic_app", "mnemic_admin"):
        with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
            psycopg.connect(make_conninfo(dsn, user=user, password="guessed"))


@pytest.mark.parametrize(
    ("rights", "vector", "message"),
    [
        ("createrole", False, "a superuser must run `create extension vector`"),
        ("", True, "MNEMIC_MIGRATION_URL may not set up the database: permission denied"),
    ],
)
async def test_a_role_that_may_not_set_it_up_is_told_what_it_lacks(
    admin_dsn: str, rights: str, vector: bool, message: str
) -> None:
    role(admin_dsn, "operator", rights)
    dsn = database(admin_dsn, owner="operator", vector=vector)
    with pytest.raises(DatabaseSetupError, match=message):
        await migrate(make_conninfo(dsn, user="operator", password="secret"))


async def test_a_server_without_pgvector_names_the_package(empty_db: Clone) -> None:
    with empty_db.as_superuser() as connection:
        if connection.info.server_version < 180000:
            pytest.skip("only Postgres 18 can be told to look for extensions elsewhere")
        connection.execute(f"alter database {empty_db.name} set extension_control_path = '/nowhere'")
    with pytest.raises(DatabaseSetupError, match="pgvector is missing on this server: its administrator installs"):
        await migrate(empty_db.superuser_dsn)


async def test_an_old_pgvector_is_named_with_its_remedy(fresh_db: Clone) -> None:
    with fresh_db.as_superuser() as connection:
        connection.execute("update pg_extension set extversion = '0.7.4' where extname = 'vector'")
    with pytest.raises(DatabaseSetupError, match=r"pgvector 0\.7\.4 is too old: install 0\.8 or newer"):
        await migrate(fresh_db.superuser_dsn)


async def test_an_unreachable_server_is_not_a_stack_of_driver_errors(empty_db: Clone) -> None:
    with pytest.raises(DatabaseUnavailableError, match="MNEMIC_MIGRATION_URL"):
        await migrate(make_conninfo(empty_db.superuser_dsn, dbname="no_such_database"))


async def test_the_extension_may_live_in_a_schema_of_its_own(empty_db: Clone) -> None:
    with empty_db.as_superuser() as connection:
        connection.execute("create schema extensions; create extension vector schema extensions")
        connection.execute("grant usage on schema extensions to public")
    await migrate(empty_db.superuser_dsn)
    async with empty_db.database() as db:
        fact = memory("Ana keeps bees.")
        assert await remember(db, identity(), fact, vectors={fact.id: (1.0, 0.0)}) == {fact.id}


@pytest.mark.parametrize(("table", "column", "values"), LISTED_COLUMNS)
def test_the_check_of_a_listed_column_is_that_of_its_list(
    superuser: psycopg.Connection, table: str, column: str, values: Sequence[str]
) -> None:
    query = "select oid, pg_get_constraintdef(oid) from pg_constraint where conname = %s"
    name = f"{table}_{column}_check"
    before = superuser.execute(query, (name,)).fetchone()
    assert before is not None
    assert re.findall(r"'(\w+)'", before[1]) == [*values]
    superuser.execute("set search_path = mnemic")
    try:
        superuser.execute("call check_column(%s, %s, %s)", (table, column, before[1]))
        assert superuser.execute(query, (name,)).fetchone() == before  # not made anew
        changed = before[1].replace("ARRAY[", "ARRAY['another'::text, ")
        superuser.execute("call check_column(%s, %s, %s)", (table, column, changed))
        after = superuser.execute(query, (name,)).fetchone()
        assert after is not None
        assert after[1] == changed
    finally:
        superuser.execute("call check_column(%s, %s, %s)", (table, column, before[1]))
        superuser.execute("reset search_path")
