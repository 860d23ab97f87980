"""The doctor: silent on a sound database, and for every broken set-up a refusal that says what to do."""

import uuid
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from psycopg import sql

from mnemic.state.errors import DatabaseSetupError
from mnemic.state.settings import Settings
from mnemic.storage.database import Database
from mnemic.storage.doctor import check, require_sound
from tests.support.server import SERVICE_PASSWORD, Clone, Server, cloned

#: What no policy may say alone of a table whose rows have categories.
OF_THE_AGENT = "agent_id = current_setting('mnemic.agent_id', true)"
#: What an administrator might do, the only check that fails then, and words of its remedy.
BROKEN = [
    ("alter table mnemic.entries disable row level security", "row security", "entries: .*enable row level security"),
    ("alter table mnemic.memories no force row level security", "row security", "memories: .*force row level security"),
    ("create table mnemic.notes (); alter table mnemic.notes owner to mnemic_owner", "row security", "notes: "),
    ("create policy helpful on mnemic.memories using (true)", "policies", "helpful on memories.*drops them"),
    ("create policy mine on mnemic.heads to mnemic_app using (true)", "policies", "mine on heads"),
    (
        "create policy wide on mnemic.entries using (" + OF_THE_AGENT + ")",
        "allowlists",
        "wide on entries: .*drops them",
    ),
    *(
        (f"alter policy service on mnemic.{table} using ({OF_THE_AGENT})", "allowlists", f"service on {table}: .*dump")
        for table in ("memories", "entries", "history", "history_contents", "messages")
    ),
    ("grant truncate on mnemic.entries to mnemic_app", "privileges", "truncate on entries: .*revoke"),
    ("grant update on mnemic.history to public", "privileges", "update on history: .*revoke"),
    ("grant delete on mnemic.memories to mnemic_app", "privileges", "delete on memories"),
    ("alter table mnemic.memories disable trigger guard", "triggers", "guard on memories: .*enable trigger"),
    ("alter table mnemic.memories enable replica trigger record_insert", "triggers", "record_insert on memories"),
    ("drop trigger append_only on mnemic.history", "triggers", "append_only on history"),
    ("alter table mnemic.memories disable trigger all", "triggers", "guard on memories, never_truncated on memories"),
    (
        "alter role mnemic_app in database {db} set session_replication_role = replica",
        "triggers",
        "is replica: .*reset",
    ),
    ("alter role mnemic_app in database {db} reset search_path", "search path", "run `mnemic db migrate`"),
    ("alter table mnemic.memories owner to postgres", "ownership", "memories belongs to postgres: .*mnemic_owner"),
    ("alter function mnemic.set_protection owner to postgres", "ownership", "set_protection belongs to postgres"),
    (
        "update mnemic.migrations set checksum = 'x' where number = 1",
        "migrations",
        r"0001_first_path\.sql was changed after it ran",
    ),
    (
        "delete from mnemic.migrations where number = 1",
        "migrations",
        r"0001_first_path\.sql has not run: run `mnemic db migrate`",
    ),
    ("revoke select on mnemic.migrations from mnemic_app", "migrations", "cannot be read: run `mnemic db migrate`"),
    (
        "update pg_extension set extversion = '0.7.4' where extname = 'vector'",
        "pgvector",
        "0.7.4: install pgvector 0.8",
    ),
]


async def test_a_migrated_database_is_sound(db: Database) -> None:
    findings = await check(db)
    assert [finding for finding in findings if not finding.ok or finding.remedy] == []
    assert len(findings) >= 12
    await require_sound(db)


@pytest.mark.parametrize(("harm", "name", "remedy"), BROKEN, ids=[harm for harm, _, _ in BROKEN])
async def test_a_broken_set_up_is_refused_with_its_remedy(fresh_db: Clone, harm: str, name: str, remedy: str) -> None:
    with fresh_db.as_superuser() as connection:
        connection.execute(harm.format(db=fresh_db.name))
    async with fresh_db.database() as db:
        assert [finding.name for finding in await check(db) if not finding.ok] == [name]
        with pytest.raises(DatabaseSetupError, match=remedy):
            await require_sound(db)


@contextmanager
def other_role(clone: Clone, rights: str) -> Iterator[str]:
    """DSN of a role of its own, since what is done to mnemic_app would be done to every database of the server."""
    name = f"someone_{uuid.uuid4().hex[:8]}"
    role = sql.Identifier(name)
    with clone.as_superuser() as connection:
        connection.execute(sql.SQL("create role {} login password {}").format(role, SERVICE_PASSWORD))
        connection.execute(sql.SQL("grant mnemic_app to {}").format(role))
        connection.execute(sql.SQL(rights).format(role=role))
        connection.execute(sql.SQL("alter role {} set search_path = mnemic, public").format(role))
        try:
            yield clone.dsn_of(name)
        finally:
            connection.execute(sql.SQL("drop role {}").format(role))


@pytest.mark.parametrize(
    ("rights", "names", "remedy"),
    [
        ("grant mnemic_app to {role}", {"service role"}, "let MNEMIC_DATABASE_URL log in as mnemic_app"),
        ("alter role {role} superuser", {"service role", "powers"}, "superuser.*nosuperuser nobypassrls"),
        ("alter role {role} bypassrls", {"service role", "powers"}, "bypassrls: .*nosuperuser nobypassrls"),
        ("grant mnemic_owner to {role}", {"service role", "powers", "privileges"}, "revoke mnemic_owner from"),
    ],
)
async def test_a_role_with_more_power_is_refused(fresh_db: Clone, rights: str, names: set[str], remedy: str) -> None:
    with other_role(fresh_db, rights) as dsn:
        database = Database(dsn, Settings())
        await database.open()
        try:
            assert {finding.name for finding in await check(database) if not finding.ok} == names
            with pytest.raises(DatabaseSetupError, match=remedy):
                await require_sound(database)
        finally:
            await database.close()


async def test_a_database_that_was_never_migrated_is_told_everything_at_once(empty_db: Clone) -> None:
    async with empty_db.database() as db:
        with pytest.raises(DatabaseSetupError) as refusal:
            await require_sound(db)
    for remedy in (
        "pgvector is not enabled: ",
        "none has run, or their record cannot be read: run `mnemic db migrate`",
    ):
        assert remedy in str(refusal.value)


async def test_another_encoding_is_refused(server: Server, template: str) -> None:
    with cloned(server, None, "encoding 'SQL_ASCII' locale_provider libc locale 'C'") as clone:
        async with clone.database() as db:
            findings = {finding.name: finding for finding in await check(db)}
    assert findings["encoding"].remedy.startswith("SQL_ASCII: create the database with `encoding 'UTF8'`")
