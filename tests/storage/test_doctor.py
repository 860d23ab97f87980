"""The doctor: silent on a sound database, and for every broken set-up a refusal that says what to do.

Where it names statements, they are carried out to the letter, and it is content again.
"""

import re
from collections.abc import Iterator

import psycopg
import pytest

from mnemic.storage import violations
from mnemic.storage.database import Database
from mnemic.storage.definitions import recorded_definitions
from mnemic.storage.doctor import check, require_sound
from mnemic.storage.migrate import migrate
from tests.support.matrix import few_first
from tests.support.mutating import carry_out, other_role, refusal
from tests.support.server import Clone, Server, cloned

#: What no policy may say alone.
OF_THE_AGENT = "agent_id = current_setting('mnemic.agent_id', true)"
#: Nor this, of a table whose rows have categories.
OF_THE_SCOPE = OF_THE_AGENT + " and scope_key = any (current_setting('mnemic.scope_keys', true)::text[])"
Case = tuple[str, str, str, str]


def _row_security(table: str, how: str) -> Case:
    mended = f"alter table mnemic.{table} enable row level security, force row level security"
    return (
        f"alter table mnemic.{table} {how} row level security",
        "row security",
        f"table mnemic.{table} (row security)",
        mended,
    )


def _policy(name: str, table: str, rest: str) -> Case:
    harm = f"create policy {name} on mnemic.{table} {rest}"
    return harm, "policies", f"policy {name} on mnemic.{table} (not Mnemic's)", f"drop policy {name} on mnemic.{table}"


def _right(right: str, place: str, role: str) -> Case:
    harm, mended = f"grant {right} on {place} to {role}", f"revoke {right} on {place} from {role}"
    return harm, "privileges", f"{right} on {place} to {role} (not Mnemic's)", mended


def _trigger(table: str, name: str, how: str = "disable") -> Case:
    mended = f"alter table mnemic.{table} enable trigger {name}"
    return (
        f"alter table mnemic.{table} {how} trigger {name}",
        "triggers",
        f"trigger {name} on mnemic.{table} (state)",
        mended,
    )


def _owner(thing: str) -> Case:
    mended = f"alter {thing} owner to mnemic_owner"
    return f"alter {thing} owner to postgres", "ownership", f"{thing} (owner)", mended


#: What an administrator might do, the only check that fails then, what it found, and the statement that mends it.
MENDED: list[Case] = [
    _row_security("entries", "disable"),
    (
        "create table mnemic.notes (note text primary key)",
        "tables",
        "table mnemic.notes (not Mnemic's)",
        "alter table mnemic.notes set schema public",
    ),
    _policy("helpful", "memories", "using (true)"),
    _policy("everything", "history", "to mnemic_admin using (true)"),
    _policy("anywhere", "memories", "for insert to mnemic_app with check (true)"),
    _policy("shared", "checkpoint_blobs", "to mnemic_app using (true)"),
    _policy("neighbours", "relations", f"to mnemic_app using ({OF_THE_AGENT})"),
    _policy("wide", "entries", f"using ({OF_THE_SCOPE})"),
    _right("truncate", "mnemic.checkpoints", "mnemic_app"),
    _right("insert", "mnemic.checkpoint_migrations", "mnemic_app"),
    _right("execute", "function mnemic.messages_of_person(text,text)", "mnemic_app"),
    _right("update", "mnemic.history", "public"),
    _right("delete", "mnemic.memories", "mnemic_app"),
    _right("update (hash)", "mnemic.heads", "mnemic_app"),
    _right("update (op_xid)", "mnemic.heads", "mnemic_admin"),
    _right("execute", "function mnemic.open_operation(text,uuid,text,text,text,text,text,jsonb)", "mnemic_app"),
    _right("create", "schema mnemic", "mnemic_app"),
    _right("execute", "function mnemic.is_searchable(text,text)", "public"),
    _trigger("history_contents", "erased_only"),
    _trigger("memories", "record_insert", "enable replica"),
    _owner("table mnemic.memories"),
    _owner("function mnemic.set_protection(text,uuid,boolean,text)"),
    _owner("schema mnemic"),
    (
        'create schema "Other";'
        ' create view "Other"."my view" with (security_invoker = off) as select id from mnemic.memories',
        "views",
        '"Other"."my view"',
        'alter view "Other"."my view" set (security_invoker = true)',
    ),
    (
        "create view public.safe with (security_invoker = on) as select * from mnemic.messages;"
        " create materialized view public.copied as select * from public.safe",
        "views",
        "public.copied",
        "drop materialized view public.copied",
    ),
]
#: What is in the package, and made anew where its record is gone.
ANEW = "delete the row 'rules' from mnemic.migrations, then run `mnemic db migrate`"
#: What no single statement mends: the check, what it found and advises, and whether `mnemic db migrate` is enough.
ADVISED: list[tuple[str, str, str, bool]] = [
    ("alter role mnemic_app in database {db} reset search_path", "search path", "run `mnemic db migrate`", True),
    ("drop function mnemic.audit_problems", "functions", rf"mnemic.audit_problems\(\) \(missing\): .*{ANEW}", False),
    ("revoke select on mnemic.migrations from mnemic_app", "migrations", "run `mnemic db migrate`", True),
    ("delete from mnemic.migrations where name = 'rules'", "migrations", "rules is not applied: run `mnemic db", True),
    (
        f"alter policy service on mnemic.memories using ({OF_THE_SCOPE})",
        "policies",
        r"service on mnemic.memories \(using\)",
        False,
    ),
    ("drop policy service on mnemic.entries", "policies", r"service on mnemic.entries \(missing\)", False),
    (
        "create or replace function mnemic.guard_memory() returns trigger language plpgsql"
        " set search_path = mnemic, pg_temp as 'begin return new; end'",
        "functions",
        r"function mnemic.guard_memory\(\) \(body\)",
        False,
    ),
    (
        "insert into mnemic.migrations (name, checksum) values ('langgraph-checkpoint-postgres 99', 'x')",
        "migrations",
        "langgraph-checkpoint-postgres 99 is unknown to this release: .*a newer one",
        False,
    ),
    (
        "update pg_extension set extversion = '0.7.4' where extname = 'vector'",
        "pgvector",
        "0.7.4: install pgvector 0.8",
        False,
    ),
]
#: What others may do with the database is theirs.
HARMLESS = [
    "create table public.notes as select 1 as id; create view public.of_notes as select * from public.notes",
    "create view public.mine with (security_invoker = yes) as select * from mnemic.memories",
    "create function public.one() returns int language sql security definer as 'select 1'",
    "create index of_my_own on mnemic.memories (created_at)",
]


@pytest.fixture(scope="module")
def mended_db(server: Server, template: str) -> Iterator[Clone]:
    """One database for all that a statement mends: after each it is sound again."""
    with cloned(server, template) as clone:
        yield clone


async def test_a_migrated_database_is_sound(db: Database, superuser: psycopg.Connection) -> None:
    owner = superuser.execute("select rolcanlogin from pg_roles where rolname = 'mnemic_owner'")
    assert owner.fetchall() == [(False,)]
    findings = await check(db)
    assert [finding for finding in findings if not finding.ok or finding.remedy] == []
    assert len(findings) >= 16
    await require_sound(db)


@pytest.mark.parametrize("addition", few_first(HARMLESS))
async def test_what_opens_nothing_is_let_be(fresh_db: Clone, addition: str) -> None:
    with fresh_db.as_superuser() as connection:
        connection.execute(addition.encode())
    async with fresh_db.database() as db:
        await require_sound(db)


@pytest.mark.parametrize(("harm", "name", "found", "remedy"), few_first(MENDED), ids=[harm for harm, *_ in MENDED])
async def test_what_a_statement_mends_is_refused_with_it(
    mended_db: Clone, harm: str, name: str, found: str, remedy: str
) -> None:
    with mended_db.as_superuser() as connection:
        connection.execute(harm.encode())
    async with mended_db.database() as db:
        broken, told = await refusal(db)
        assert broken == {name: f"{found}: a superuser runs `{remedy}`"}
        assert carry_out(mended_db, told) == [remedy]
        await require_sound(db)


@pytest.mark.parametrize(
    ("harm", "name", "words", "by_migrate"), few_first(ADVISED, 3), ids=[harm for harm, *_ in ADVISED]
)
async def test_what_no_statement_mends_is_refused_with_advice(
    fresh_db: Clone, harm: str, name: str, words: str, by_migrate: bool
) -> None:
    with fresh_db.as_superuser() as connection:
        connection.execute(harm.format(db=fresh_db.name).encode())
        async with fresh_db.database() as db:
            broken, told = await refusal(db)
        assert list(broken) == [name]
        assert re.search(words, told)
        if ANEW in told:
            connection.execute("delete from mnemic.migrations where name = 'rules'")
        elif not by_migrate:
            return
    await migrate(fresh_db.superuser_dsn)
    async with fresh_db.database() as db:
        await require_sound(db)


#: How all of a kind are listed, each with its table, and harmed; the check that has to name every one of them.
KINDS = [
    (
        "triggers",
        "select format('trigger %s on mnemic.%s (state)', tgname, relname), tgname, relname"
        " from pg_trigger join pg_class c on c.oid = tgrelid"
        " where not tgisinternal and relnamespace = 'mnemic'::regnamespace",
        "alter table mnemic.{2} disable trigger {1}",
    ),
    (
        "row security",
        "select format('table mnemic.%s (row security)', tablename), tablename from pg_tables"
        " where schemaname = 'mnemic' and tablename not like '%migrations'",
        "alter table mnemic.{1} no force row level security",
    ),
]


@pytest.mark.thorough
@pytest.mark.parametrize(("check", "listing", "harm"), KINDS)
async def test_every_trigger_and_every_table_is_missed(fresh_db: Clone, check: str, listing: str, harm: str) -> None:
    with fresh_db.as_superuser() as connection:
        made = connection.execute(listing.encode()).fetchall()
        for names in made:
            connection.execute(harm.format(*names).encode())
    async with fresh_db.database() as db:
        broken, told = await refusal(db)
        assert list(broken) == [check]
        assert broken[check].split(": ")[0].split(", ") == sorted(name for name, *_ in made)
        assert len(carry_out(fresh_db, told)) == len(made) >= 10
        await require_sound(db)


@pytest.mark.parametrize("place", ["mnemic", "public"])
async def test_a_foreign_function_with_the_owners_rights_is_refused(fresh_db: Clone, place: str) -> None:
    with fresh_db.as_superuser() as connection:
        connection.execute(
            f"create function {place}.peek() returns setof mnemic.memories language sql security definer"
            f" as 'select * from mnemic.memories'; alter function {place}.peek owner to mnemic_owner".encode()
        )
    async with fresh_db.database() as db:
        broken, told = await refusal(db)
        assert broken == {
            "functions": f"function {place}.peek() (not Mnemic's): a superuser runs `drop function {place}.peek()`"
        }
        assert len(carry_out(fresh_db, told)) == 1
        await require_sound(db)


async def test_a_service_that_owns_a_table_is_refused_and_keeps_its_rights(fresh_db: Clone) -> None:
    """A new owner's own rights become the old owner's with the next change."""
    with fresh_db.as_superuser() as connection:
        connection.execute("alter table mnemic.memories owner to mnemic_app")
    async with fresh_db.database() as db:
        broken, told = await refusal(db)
        assert set(broken) == {"ownership", "privileges"}
        carry_out(fresh_db, told)
        await require_sound(db)


async def test_triggers_that_do_not_run_are_refused_with_the_setting(fresh_db: Clone) -> None:
    with fresh_db.as_superuser() as connection:
        connection.execute(
            f"alter role mnemic_app in database {fresh_db.name} set session_replication_role = replica".encode()
        )
    async with fresh_db.database() as db:
        broken, told = await refusal(db)
        assert set(broken) == {"settings", "replication role"}
        assert len(carry_out(fresh_db, told)) == 1
    async with fresh_db.database() as db:
        await require_sound(db)


async def test_a_database_that_was_never_migrated_is_told_everything_at_once(empty_db: Clone) -> None:
    async with empty_db.database() as db:
        _, told = await refusal(db)
    assert "pgvector is not enabled: " in told
    assert "none has run, or their record cannot be read: run `mnemic db migrate`" in told


async def test_another_encoding_is_refused(server: Server, template: str) -> None:
    with cloned(server, None, "encoding 'SQL_ASCII' locale_provider libc locale 'C'") as clone:
        async with clone.database() as db:
            findings = {finding.name: finding for finding in await check(db)}
    assert findings["encoding"].remedy.startswith("SQL_ASCII: create the database with `encoding 'UTF8'`")


# -- roles: a service with too much power, and administrators, who read no content and write nothing

#: What a role of the service or of the administrators must not have, and the remedy.
POWERS = [
    ("alter role {role} superuser", "alter role {role} nosuperuser"),
    ("alter role {role} bypassrls", "alter role {role} nobypassrls"),
    ("alter role {role} createrole", "alter role {role} nocreaterole"),
    ("alter role {role} replication", "alter role {role} noreplication"),
    ("grant mnemic_owner to {role}", "revoke mnemic_owner from {role}"),
    ("grant pg_read_all_data to {role}", "revoke pg_read_all_data from {role}"),
    ("grant pg_write_all_data to {role}", "revoke pg_write_all_data from {role}"),
]


@pytest.mark.parametrize(
    ("right", "remedy"), few_first([*POWERS, ("grant mnemic_admin to {role}", "revoke mnemic_admin from {role}")])
)
async def test_a_service_with_more_power_is_refused(fresh_db: Clone, right: str, remedy: str) -> None:
    with other_role(fresh_db, "grant mnemic_app to {role}", right) as role:
        async with fresh_db.database(dsn=fresh_db.dsn_of(role)) as database:
            broken, told = await refusal(database)
            assert set(broken) == {"service role", "powers"}
            assert broken["service role"] == f"{role}: let MNEMIC_DATABASE_URL log in as mnemic_app"
            assert carry_out(fresh_db, told) == [remedy.format(role=role)]
            assert set((await refusal(database))[0]) == {"service role"}


@pytest.mark.parametrize("right", ["update on mnemic.history", "set on parameter session_replication_role"])
async def test_a_right_that_comes_through_a_group_is_taken_from_the_group(fresh_db: Clone, right: str) -> None:
    with (
        other_role(fresh_db, f"grant {right} to {{role}}") as group,
        other_role(fresh_db, "grant mnemic_app to {role}", f"grant {group} to {{role}}") as role,
    ):
        async with fresh_db.database(dsn=fresh_db.dsn_of(role)) as database:
            broken, told = await refusal(database)
            assert set(broken) == {"service role", "privileges"}
            assert carry_out(fresh_db, told) == [f"revoke {right} from {group}"]
            assert set((await refusal(database))[0]) == {"service role"}


@pytest.mark.parametrize(
    ("right", "remedy"), few_first([*POWERS, ("grant mnemic_app to {role}", "revoke mnemic_app from {role}")])
)
async def test_administrators_with_more_power_are_refused(
    fresh_db: Clone, monkeypatch: pytest.MonkeyPatch, right: str, remedy: str
) -> None:
    with other_role(fresh_db) as role:
        monkeypatch.setattr(violations, "ADMIN_ROLE", role)
        async with fresh_db.database() as db:
            await require_sound(db)
            with fresh_db.as_superuser() as connection:
                connection.execute(right.format(role=role).encode())
            broken, told = await refusal(db)
            assert set(broken) == {"powers"}
            assert carry_out(fresh_db, told) == [remedy.format(role=role)]
            await require_sound(db)


def test_the_administrators_have_no_right_to_any_content() -> None:
    """By the record, which a database is compared with."""
    recorded, _ = recorded_definitions()
    pattern = re.compile(r"(\w+).* on mnemic\.(\w+) to mnemic_admin")
    rights = [pattern.fullmatch(name) for kind, name in recorded if kind == "grant"]
    assert {right.groups() for right in rights if right} == {
        ("select", table) for table in ("history", "heads", "leases", "refinements")
    }


async def test_administrators_who_may_read_contents_or_write_are_refused(fresh_db: Clone) -> None:
    reading = ("(content) on mnemic.messages", "(tsv) on mnemic.entries", "(before) on mnemic.history_contents")
    writing = [f"{privilege} on mnemic.memories" for privilege in ("insert", "update", "delete", "truncate")]
    rights = [*(f"select {place}" for place in reading), *writing]
    with fresh_db.as_superuser() as connection:
        for right in rights:
            connection.execute(f"grant {right} to mnemic_admin".encode())
    async with fresh_db.database() as db:
        broken, told = await refusal(db)
        assert set(broken) == {"privileges"}
        assert set(carry_out(fresh_db, told)) == {f"revoke {right} from mnemic_admin" for right in rights}
        await require_sound(db)
