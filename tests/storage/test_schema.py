"""The migrations, the readable schema, and the database that both describe."""

import subprocess
from importlib import resources

import psycopg
import pytest

from mnemic.state.errors import DatabaseSetupError
from mnemic.storage.embedded.binaries import find_binaries
from mnemic.storage.migrate import migrate, migrations
from tests.support.server import Clone

TABLES = "select relname from pg_class where relnamespace = 'mnemic'::regnamespace and relkind in ('r', 'p')"


def readable_schema() -> str:
    return resources.files("mnemic.storage").joinpath("schema.sql").read_text(encoding="utf-8")


def set_up_by_schema_file(connection: psycopg.Connection, text: str) -> None:
    connection.execute("create extension vector")
    connection.execute("create schema mnemic authorization mnemic_owner")
    with connection.transaction():
        connection.execute("set local role mnemic_owner")
        connection.execute("set local search_path = mnemic, public")
        connection.execute(text.encode())


def dumped(clone: Clone) -> list[str]:
    """Everything in the schema but the record of migrations: tables, functions, triggers, policies, rights, owners."""
    done = subprocess.run(
        [find_binaries() / "pg_dump", "--schema-only", "--schema=mnemic", "--exclude-table=mnemic.migrations",
         clone.superuser_dsn],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    lines = (line for line in done.stdout.splitlines() if not line.startswith(("\\restrict", "\\unrestrict")))
    return [line for line in lines if line and not line.startswith("--")]


def test_the_schema_file_and_the_migrations_make_the_same_database(fresh_db: Clone, empty_db: Clone) -> None:
    with empty_db.as_superuser() as connection:
        set_up_by_schema_file(connection, readable_schema())
    migrated = dumped(fresh_db)
    assert len(migrated) > 400
    assert dumped(empty_db) == migrated


def test_the_comparison_notices_a_missing_policy(fresh_db: Clone, empty_db: Clone) -> None:
    with empty_db.as_superuser() as connection:
        set_up_by_schema_file(connection, readable_schema())
        connection.execute("drop policy service on mnemic.entries")
    assert dumped(empty_db) != dumped(fresh_db)


async def test_migrating_again_changes_nothing(fresh_db: Clone) -> None:
    before = dumped(fresh_db)
    assert await migrate(fresh_db.superuser_dsn) == []
    assert dumped(fresh_db) == before


async def test_every_migration_runs_once_and_in_order(empty_db: Clone) -> None:
    names = [migration.name for migration in migrations()]
    assert names == sorted(names)
    assert await migrate(empty_db.superuser_dsn) == names
    with empty_db.as_superuser() as connection:
        recorded = connection.execute("select name from mnemic.migrations order by number").fetchall()
    assert [row[0] for row in recorded] == names


async def test_a_migration_changed_after_it_ran_is_refused(fresh_db: Clone) -> None:
    with fresh_db.as_superuser() as connection:
        connection.execute("update mnemic.migrations set checksum = 'other' where number = 1")
    with pytest.raises(DatabaseSetupError, match=r"0001_first_path\.sql was changed after it ran"):
        await migrate(fresh_db.superuser_dsn)


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
