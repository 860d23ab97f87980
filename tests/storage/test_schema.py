"""The files of the schema, the record of what was applied, and the database that they make."""

import asyncio
import subprocess

import pytest

from mnemic.state.errors import DatabaseSetupError
from mnemic.state.settings import Settings
from mnemic.storage import memories
from mnemic.storage.embedded.binaries import find_binaries
from mnemic.storage.migrate import migrate
from mnemic.storage.schema import bodies, grants, schema_files, triggers
from tests.support.matrix import few_first
from tests.support.server import Clone
from tests.support.worlds import identity, memory, remember

TABLES = "select relname from pg_class where relnamespace = 'mnemic'::regnamespace and relkind in ('r', 'p')"
FILES = [file.name for file in schema_files()]
#: What an earlier release may have left, or somebody may have done.
OTHER_RULES = [
    "create function mnemic.gone() returns int language sql security definer as 'select 1'",
    "create function mnemic.searchable(content text) returns boolean language sql as 'select true'",
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
    assert [*sorted(FILES[:-1]), "rules"] == FILES
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
        connection.execute("create view public.mine as select mnemic.searchable('fact', 'active')")
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
        async with db.scoped(identity()) as scoped:
            assert len(await memories.living(scoped, ["fact"], most=9)) == 8
        async with db.scoped(identity("bo")) as scoped:
            assert await memories.living(scoped, ["fact"], most=9) == []


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


def test_what_is_read_of_the_rules_is_what_they_make(fresh_db: Clone) -> None:
    """The doctor compares with this; a statement that it did not read it would not miss."""
    with fresh_db.as_superuser() as connection:
        made = connection.execute(
            "select t.tgname, c.relname, p.proname from pg_trigger t join pg_class c on c.oid = t.tgrelid"
            " join pg_proc p on p.oid = t.tgfoid where not t.tgisinternal and c.relnamespace = 'mnemic'::regnamespace"
        ).fetchall()
        functions = connection.execute(
            "select proname from pg_proc where pronamespace = 'mnemic'::regnamespace and prosqlbody is null"
        ).fetchall()
        granted = connection.execute(
            "select distinct grantee, lower(privilege_type), table_name from information_schema.table_privileges"
            " where table_schema = 'mnemic' and grantee in ('mnemic_app', 'mnemic_admin')"
        ).fetchall()
    assert sorted(made) == sorted(triggers())
    assert {name for (name,) in functions} == set(bodies())
    assert {*granted} == {grant for grant in grants() if " " not in grant[2] and "." not in grant[2]}


def test_every_table_belongs_to_the_owner_and_hides_its_rows(fresh_db: Clone) -> None:
    """The records of migrations hold nothing of an agent's and can only be read."""
    with fresh_db.as_superuser() as connection:
        exposed = connection.execute(
            f"{TABLES} and not (relrowsecurity and relforcerowsecurity) and relname not like '%migrations'"
        ).fetchall()
        foreign = connection.execute(f"{TABLES} and relowner <> 'mnemic_owner'::regrole").fetchall()
        count = len(connection.execute(TABLES).fetchall())
    assert count >= 12
    assert exposed == []
    assert foreign == []


def test_the_roles_have_no_power_beyond_their_grants(fresh_db: Clone) -> None:
    with fresh_db.as_superuser() as connection:
        powers = connection.execute(
            "select rolname, rolcanlogin from pg_roles where rolname in ('mnemic_app', 'mnemic_admin', 'mnemic_owner')"
            " and not (rolsuper or rolbypassrls or rolcreaterole or rolcreatedb or rolreplication) order by 1"
        ).fetchall()
        members = connection.execute(
            "select m.rolname from pg_roles m where m.rolname in ('mnemic_app', 'mnemic_admin')"
            " and pg_has_role(m.oid, 'mnemic_owner', 'member')"
        ).fetchall()
    assert powers == [("mnemic_admin", True), ("mnemic_app", True), ("mnemic_owner", False)]
    assert members == []


def test_every_definer_function_fixes_its_search_path_and_is_closed_to_the_public(fresh_db: Clone) -> None:
    with fresh_db.as_superuser() as connection:
        open_path = connection.execute(
            "select proname from pg_proc where pronamespace = 'mnemic'::regnamespace"
            # an expression's names were looked up when it was made
            " and prosqlbody is null and not coalesce(proconfig::text, '') like '%search_path=mnemic, pg_temp%'"
        ).fetchall()
        public = connection.execute(
            "select proname from pg_proc p, aclexplode(coalesce(proacl, acldefault('f', proowner))) a"
            " where pronamespace = 'mnemic'::regnamespace and a.grantee = 0"
        ).fetchall()
    assert open_path == []
    assert public == []
