"""The doctor: silent on a sound database, and for every broken set-up a refusal that says what to do.

Where it names statements, they are carried out to the letter, and it is content again.
"""

import re

import pytest

from mnemic.storage.database import Database
from mnemic.storage.doctor import check, require_sound
from mnemic.storage.migrate import migrate, migrations
from tests.support.server import Clone, Server, cloned
from tests.support.set_ups import carry_out, refusal

#: What no policy may say alone.
OF_THE_AGENT = "agent_id = current_setting('mnemic.agent_id', true)"
#: Nor this, of a table whose rows have categories.
OF_THE_SCOPE = OF_THE_AGENT + " and scope_key = any (current_setting('mnemic.scope_keys', true)::text[])"
#: What an administrator might do, the only check that fails then, what it found, and the statement that mends it.
MENDED = [
    (
        "alter table mnemic.entries disable row level security",
        "row security",
        "entries",
        "alter table mnemic.entries enable row level security, force row level security",
    ),
    (
        "alter table mnemic.memories no force row level security",
        "row security",
        "memories",
        "alter table mnemic.memories enable row level security, force row level security",
    ),
    (
        "create table mnemic.notes (); alter table mnemic.notes owner to mnemic_owner",
        "row security",
        "notes",
        "alter table mnemic.notes enable row level security, force row level security",
    ),
    (
        "create policy helpful on mnemic.memories using (true)",
        "policies",
        "helpful on memories",
        "drop policy helpful on mnemic.memories",
    ),
    (
        "create policy mine on mnemic.heads to mnemic_app using (true)",
        "policies",
        "mine on heads",
        "drop policy mine on mnemic.heads",
    ),
    (
        "create policy everything on mnemic.history to mnemic_admin using (true)",
        "policies",
        "everything on history",
        "drop policy everything on mnemic.history",
    ),
    (
        "create policy anywhere on mnemic.memories for insert to mnemic_app with check (true)",
        "policies",
        "anywhere on memories",
        "drop policy anywhere on mnemic.memories",
    ),
    (
        "create policy shared on mnemic.checkpoint_blobs to mnemic_app using (true)",
        "policies",
        "shared on checkpoint_blobs",
        "drop policy shared on mnemic.checkpoint_blobs",
    ),
    (
        f"create policy of_agents on mnemic.supervisor_checkpoints to mnemic_app using ({OF_THE_AGENT})",
        "policies",
        "of_agents on supervisor_checkpoints",
        "drop policy of_agents on mnemic.supervisor_checkpoints",
    ),
    (
        "alter table mnemic.checkpoint_writes no force row level security",
        "row security",
        "checkpoint_writes",
        "alter table mnemic.checkpoint_writes enable row level security, force row level security",
    ),
    (
        "grant truncate on mnemic.checkpoints to mnemic_app",
        "privileges",
        "truncate on checkpoints to mnemic_app",
        "revoke truncate on mnemic.checkpoints from mnemic_app",
    ),
    (
        "grant insert on mnemic.checkpoint_migrations to mnemic_app",
        "privileges",
        "insert on checkpoint_migrations to mnemic_app",
        "revoke insert on mnemic.checkpoint_migrations from mnemic_app",
    ),
    (
        "grant execute on function mnemic.delete_threads to mnemic_app",
        "privileges",
        "execute on function delete_threads to mnemic_app",
        "revoke execute on function mnemic.delete_threads from mnemic_app",
    ),
    (
        "alter table mnemic.checkpoints disable trigger stands_at",
        "triggers",
        "stands_at on checkpoints",
        "alter table mnemic.checkpoints enable trigger stands_at",
    ),
    (
        f"create policy neighbours on mnemic.relations to mnemic_app using ({OF_THE_AGENT})",
        "policies",
        "neighbours on relations",
        "drop policy neighbours on mnemic.relations",
    ),
    (
        f"create policy wide on mnemic.entries using ({OF_THE_SCOPE})",
        "allowlists",
        "wide on entries",
        "drop policy wide on mnemic.entries",
    ),
    (
        "grant truncate on mnemic.entries to mnemic_app",
        "privileges",
        "truncate on entries to mnemic_app",
        "revoke truncate on mnemic.entries from mnemic_app",
    ),
    (
        "grant update on mnemic.history to public",
        "privileges",
        "update on history to public",
        "revoke update on mnemic.history from public",
    ),
    (
        "grant delete on mnemic.memories to mnemic_app",
        "privileges",
        "delete on memories to mnemic_app",
        "revoke delete on mnemic.memories from mnemic_app",
    ),
    (
        "grant update (hash) on mnemic.heads to mnemic_app",
        "privileges",
        "update (hash) on heads to mnemic_app",
        "revoke update (hash) on mnemic.heads from mnemic_app",
    ),
    (
        "grant update (op_xid) on mnemic.heads to mnemic_admin",
        "privileges",
        "update (op_xid) on heads to mnemic_admin",
        "revoke update (op_xid) on mnemic.heads from mnemic_admin",
    ),
    (
        "grant execute on function mnemic.open_operation to mnemic_app",
        "privileges",
        "execute on function open_operation to mnemic_app",
        "revoke execute on function mnemic.open_operation from mnemic_app",
    ),
    (
        "alter table mnemic.history_contents disable trigger erased_only",
        "triggers",
        "erased_only on history_contents",
        "alter table mnemic.history_contents enable trigger erased_only",
    ),
    (
        "grant create on schema mnemic to mnemic_app",
        "privileges",
        "create on schema mnemic to mnemic_app",
        "revoke create on schema mnemic from mnemic_app",
    ),
    (
        "grant execute on function mnemic.wipe to mnemic_app",
        "privileges",
        "execute on function wipe to mnemic_app",
        "revoke execute on function mnemic.wipe from mnemic_app",
    ),
    (
        "grant execute on function mnemic.searchable to public",
        "privileges",
        "execute on function searchable to public",
        "revoke execute on function mnemic.searchable from public",
    ),
    (
        "alter table mnemic.memories disable trigger guard",
        "triggers",
        "guard on memories",
        "alter table mnemic.memories enable trigger guard",
    ),
    (
        "alter table mnemic.memories enable replica trigger record_insert",
        "triggers",
        "record_insert on memories",
        "alter table mnemic.memories enable trigger record_insert",
    ),
    (
        "alter table mnemic.memories owner to mnemic_app",
        "ownership",
        "table mnemic.memories belongs to mnemic_app",
        "alter table mnemic.memories owner to mnemic_owner",
    ),
    (
        "alter function mnemic.set_protection owner to postgres",
        "ownership",
        "function mnemic.set_protection belongs to postgres",
        "alter function mnemic.set_protection owner to mnemic_owner",
    ),
    (
        "alter schema mnemic owner to postgres",
        "ownership",
        "schema mnemic belongs to postgres",
        "alter schema mnemic owner to mnemic_owner",
    ),
    (
        "alter function mnemic.erase_step reset search_path",
        "functions",
        "mnemic.erase_step runs as its owner on another search path",
        "alter function mnemic.erase_step set search_path = mnemic, pg_temp",
    ),
    (
        "alter function mnemic.roll_back set search_path = public, mnemic",
        "functions",
        "mnemic.roll_back runs as its owner on another search path",
        "alter function mnemic.roll_back set search_path = mnemic, pg_temp",
    ),
    (
        "create view public.everything as select * from mnemic.memories",
        "views",
        "public.everything",
        "alter view public.everything set (security_invoker = true)",
    ),
    (
        'create schema "Other";'
        ' create view "Other"."my view" with (security_invoker = off) as select id from mnemic.memories',
        "views",
        '"Other"."my view"',
        'alter view "Other"."my view" set (security_invoker = true)',
    ),
    (
        "create materialized view public.copied as select * from mnemic.messages",
        "views",
        "public.copied",
        "drop materialized view public.copied",
    ),
    (
        "create view public.safe with (security_invoker = on) as select * from mnemic.messages;"
        " create materialized view public.copied as select * from public.safe",
        "views",
        "public.copied",
        "drop materialized view public.copied",
    ),
]
#: What `mnemic db migrate` mends.
BY_MIGRATE = [
    ("alter role mnemic_app in database {db} reset search_path", "search path"),
    ("revoke select on mnemic.migrations from mnemic_app", "migrations"),
]
#: What no statement mends: the check and words of its remedy.
ADVISED = [
    *(
        (f"alter policy service on mnemic.{table} using ({OF_THE_SCOPE})", "allowlists", f"service on {table}: .*dump")
        for table in ("memories", "entries", "history", "history_contents", "messages")
    ),
    (f"alter policy service on mnemic.memory_use using ({OF_THE_AGENT})", "policies", "service on memory_use: .*dump"),
    *(
        (f"alter policy service on mnemic.{table} using (true)", "policies", f"service on {table}: .*dump")
        for table in ("supervisor_checkpoints", "checkpoints", "checkpoint_blobs", "checkpoint_writes")
    ),
    (
        "delete from mnemic.checkpoint_migrations where v = 9",
        "checkpoints",
        "version 8, and the installed langgraph-checkpoint-postgres expects 9: install a release .*, an earlier one",
    ),
    (
        "insert into mnemic.checkpoint_migrations values (10)",
        "checkpoints",
        "version 10, and the installed langgraph-checkpoint-postgres expects 9: install a release",
    ),
    (
        "drop trigger stands_at on mnemic.checkpoints",
        "triggers",
        "stands_at on checkpoints: .* dump of a sound database",
    ),
    ("drop trigger append_only on mnemic.history", "triggers", "append_only on history: .* dump of a sound database"),
    (
        "create or replace trigger guard before insert or update or delete on mnemic.memories"
        " for each row execute function suppress_redundant_updates_trigger()",
        "triggers",
        "guard on memories calls pg_catalog.suppress_redundant_updates_trigger: .* dump of a sound database",
    ),
    (
        "create or replace function mnemic.guard_memory() returns trigger language plpgsql"
        " set search_path = mnemic, pg_temp as 'begin return new; end'",
        "functions",
        "mnemic.guard_memory is not what the migrations made: .* dump of a sound database",
    ),
    (
        "alter role mnemic_app in database {db} set session_replication_role = replica",
        "replication role",
        "replica: .*reset session_replication_role",
    ),
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
    (
        "update pg_extension set extversion = '0.7.4' where extname = 'vector'",
        "pgvector",
        "0.7.4: install pgvector 0.8",
    ),
]
#: What others may do with the database is theirs.
HARMLESS = [
    "create table public.notes as select 1 as id; create view public.of_notes as select * from public.notes",
    "create view public.mine with (security_invoker = yes) as select * from mnemic.memories",
    "create function public.one() returns int language sql security definer as 'select 1'",
    "create policy fewer on mnemic.memories as restrictive to mnemic_app using (category <> 'secret')",
    "create index of_my_own on mnemic.memories (created_at)",
    "revoke insert on mnemic.agents from mnemic_app",
]


async def test_a_migrated_database_is_sound(db: Database) -> None:
    findings = await check(db)
    assert [finding for finding in findings if not finding.ok or finding.remedy] == []
    assert len(findings) >= 16
    await require_sound(db)


@pytest.mark.parametrize("addition", HARMLESS)
async def test_what_opens_nothing_is_let_be(fresh_db: Clone, addition: str) -> None:
    with fresh_db.as_superuser() as connection:
        connection.execute(addition.encode())
    async with fresh_db.database() as db:
        await require_sound(db)


@pytest.mark.parametrize(("harm", "name", "found", "remedy"), MENDED, ids=[harm for harm, *_ in MENDED])
async def test_what_a_statement_mends_is_refused_with_it(
    fresh_db: Clone, harm: str, name: str, found: str, remedy: str
) -> None:
    with fresh_db.as_superuser() as connection:
        connection.execute(harm.encode())
    async with fresh_db.database() as db:
        broken, told = await refusal(db)
        assert broken == {name: f"{found}: a superuser runs `{remedy}`"}
        assert carry_out(fresh_db, told) == [remedy]
        await require_sound(db)


@pytest.mark.parametrize(("harm", "name"), BY_MIGRATE)
async def test_what_migrate_mends_is_refused_with_it(fresh_db: Clone, harm: str, name: str) -> None:
    with fresh_db.as_superuser() as connection:
        connection.execute(harm.format(db=fresh_db.name).encode())
    async with fresh_db.database() as db:
        broken, _ = await refusal(db)
        assert list(broken) == [name]
        assert "run `mnemic db migrate`" in broken[name]
    await migrate(fresh_db.superuser_dsn)
    async with fresh_db.database() as db:
        await require_sound(db)


@pytest.mark.parametrize(("harm", "name", "remedy"), ADVISED, ids=[harm for harm, *_ in ADVISED])
async def test_what_no_statement_mends_is_refused_with_advice(
    fresh_db: Clone, harm: str, name: str, remedy: str
) -> None:
    with fresh_db.as_superuser() as connection:
        connection.execute(harm.format(db=fresh_db.name).encode())
    async with fresh_db.database() as db:
        broken, told = await refusal(db)
    assert list(broken) == [name]
    assert re.search(remedy, told)


async def test_every_trigger_that_migrations_make_is_missed(fresh_db: Clone) -> None:
    with fresh_db.as_superuser() as connection:
        made = connection.execute(
            "select tgname, relname from pg_trigger join pg_class c on c.oid = tgrelid"
            " where not tgisinternal and relnamespace = 'mnemic'::regnamespace"
        ).fetchall()
        for trigger, table in made:
            connection.execute(f"alter table mnemic.{table} disable trigger {trigger}".encode())
    async with fresh_db.database() as db:
        broken, told = await refusal(db)
        assert list(broken) == ["triggers"]
        found = broken["triggers"].split(": ")[0].split(", ")
        assert found == sorted(f"{trigger} on {table}" for trigger, table in made)
        assert len(carry_out(fresh_db, told)) == len(made) >= 10
        await require_sound(db)


async def test_every_table_needs_row_security(fresh_db: Clone) -> None:
    with fresh_db.as_superuser() as connection:
        tables = [name for (name,) in connection.execute("select tablename from pg_tables where schemaname = 'mnemic'")]
        for table in tables:
            connection.execute(f"alter table mnemic.{table} no force row level security".encode())
    async with fresh_db.database() as db:
        broken, told = await refusal(db)
        assert broken["row security"].split(": ")[0].split(", ") == sorted(
            {*tables} - {"migrations", "checkpoint_migrations"}
        )
        assert list(broken) == ["row security"]
        carry_out(fresh_db, told)
        await require_sound(db)


def _of_migration(number: int, function: str) -> str:
    """How that migration made a function."""
    (text,) = [migration.text for migration in migrations() if migration.number == number]
    found = re.search(rf"^create function {function}\(.*?^end \$\$;", text, re.DOTALL | re.MULTILINE)
    assert found
    return found.group().replace("create function", "create or replace function")


@pytest.mark.parametrize(("number", "function"), [(1, "open_operation"), (1, "begin_operation"), (3, "record_history")])
async def test_a_function_as_an_earlier_migration_made_it_is_refused(
    fresh_db: Clone, number: int, function: str
) -> None:
    """These take from settings who acts, or from the service which kind it is."""
    with fresh_db.as_superuser() as connection:
        connection.execute("set role mnemic_owner; set search_path = mnemic, public")
        connection.execute(_of_migration(number, function).encode())
    async with fresh_db.database() as db:
        broken, _ = await refusal(db)
    assert f"mnemic.{function} is not what the migrations made" in broken["functions"]


@pytest.mark.parametrize("place", ["mnemic", "public"])
async def test_a_foreign_function_with_the_owners_rights_is_refused(fresh_db: Clone, place: str) -> None:
    with fresh_db.as_superuser() as connection:
        connection.execute(
            f"create function {place}.peek() returns setof mnemic.memories language sql security definer"
            f" as 'select * from mnemic.memories'; alter function {place}.peek owner to mnemic_owner".encode()
        )
    async with fresh_db.database() as db:
        broken, _ = await refusal(db)
        assert f"{place}.peek runs as its owner on another search path" in broken["functions"]
        assert f"{place}.peek is not what the migrations made: drop it if it is your own" in broken["functions"]
        assert f"`revoke execute on function {place}.peek from public`" in broken["privileges"]
        with fresh_db.as_superuser() as connection:
            connection.execute(f"drop function {place}.peek".encode())
        await require_sound(db)


async def test_a_database_that_was_never_migrated_is_told_everything_at_once(empty_db: Clone) -> None:
    async with empty_db.database() as db:
        _, told = await refusal(db)
    for remedy in (
        "pgvector is not enabled: ",
        "none has run, or their record cannot be read: run `mnemic db migrate`",
    ):
        assert remedy in told


async def test_another_encoding_is_refused(server: Server, template: str) -> None:
    with cloned(server, None, "encoding 'SQL_ASCII' locale_provider libc locale 'C'") as clone:
        async with clone.database() as db:
            findings = {finding.name: finding for finding in await check(db)}
    assert findings["encoding"].remedy.startswith("SQL_ASCII: create the database with `encoding 'UTF8'`")
