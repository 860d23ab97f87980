"""Every change of a definition is named by the doctor, with a remedy after which the database is sound again."""

import pytest
from psycopg import AsyncConnection

from mnemic.storage import definitions
from mnemic.storage.doctor import check, require_sound
from mnemic.storage.migrate import migrate
from mnemic.storage.violations import find_violations
from tests.support.matrix import few_first
from tests.support.mutating import carry_out, refusal
from tests.support.server import Clone

Change = tuple[str, str, str]
ANEW = "delete the row 'rules' from mnemic.migrations"
QUEUE_ANEW = "`drop schema mnemic_jobs cascade`"
#: A function of the operator's own.
OWN_FUNCTION = "create function public.spy() returns trigger language plpgsql as 'begin return new; end'"

#: What makes isolation, audit or durability go: a change, the check that fails, and the object and aspect it names.
REVIEWED: list[Change] = [
    (
        "alter policy service on mnemic.memories using (true or current_setting('mnemic.agent_id') = ''"
        " or current_setting('mnemic.scope_keys') = '' or current_setting('mnemic.categories') = '')",
        "policies",
        "policy service on mnemic.memories (using)",
    ),
    (
        "create rule mute as on insert to mnemic.history do instead nothing",
        "rules",
        "rule mute on mnemic.history (not Mnemic's)",
    ),
    (
        "create or replace trigger guard before insert or delete or update on mnemic.memories"
        " for each row when (false) execute function mnemic.guard_memory()",
        "triggers",
        "trigger guard on mnemic.memories (definition)",
    ),
    (
        "create policy silent on mnemic.history as restrictive to mnemic_owner using (false)",
        "policies",
        "policy silent on mnemic.history (not Mnemic's)",
    ),
    (
        "create policy fewer on mnemic.memories as restrictive to mnemic_app using (category <> 'secret')",
        "policies",
        "policy fewer on mnemic.memories (not Mnemic's)",
    ),
    (
        "alter policy owner on mnemic.history_contents to public",
        "policies",
        "policy owner on mnemic.history_contents (roles)",
    ),
    (
        "alter policy administrator on mnemic.history to mnemic_admin, mnemic_app",
        "policies",
        "policy administrator on mnemic.history (roles)",
    ),
    (
        "alter policy service on mnemic.messages with check (true)",
        "policies",
        "policy service on mnemic.messages (with check)",
    ),
    ("alter table mnemic.history set unlogged", "tables", "table mnemic.history (persistence)"),
    ("alter table mnemic.entries set unlogged", "tables", "table mnemic.entries (persistence)"),
    ("drop index mnemic.memories_unique_text", "tables", "index mnemic.memories_unique_text (missing)"),
    ("drop index mnemic.history_scope", "tables", "index mnemic.history_scope (missing)"),
    (
        "alter table mnemic.memories drop constraint memories_content_check",
        "tables",
        "constraint memories_content_check on mnemic.memories (missing)",
    ),
    (
        "alter table mnemic.memories drop constraint memories_content_check,"
        " add constraint memories_content_check check (true)",
        "tables",
        "constraint memories_content_check on mnemic.memories (definition)",
    ),
    (
        "create or replace function mnemic.thread_prefix(p_agent text, p_user text) returns text language sql immutable"
        " return ''",
        "functions",
        "function mnemic.thread_prefix(text,text) (body)",
    ),
    (
        "create or replace function mnemic.audit_problems()"
        " returns table (problem text, revision bigint, memory_id uuid)"
        " language sql stable security definer set search_path = mnemic, pg_temp set timezone = 'UTC'"
        " set extra_float_digits = 1 as 'select null, 0::bigint, null::uuid where false'",
        "functions",
        "function mnemic.audit_problems() (body)",
    ),
    (
        "alter function mnemic.set_protection(text, uuid, boolean, text) security invoker",
        "functions",
        "function mnemic.set_protection(text,uuid,boolean,text) (security)",
    ),
    (
        "alter function mnemic.erase_step(uuid, uuid, text, integer) reset search_path",
        "functions",
        "function mnemic.erase_step(uuid,uuid,text,integer) (settings)",
    ),
    (
        "create or replace trigger append_only before update on mnemic.history"
        " for each statement execute function mnemic.refuse_change()",
        "triggers",
        "trigger append_only on mnemic.history (definition)",
    ),
    (
        f"{OWN_FUNCTION}; create trigger spy before insert on mnemic.messages for each row"
        " execute function public.spy()",
        "triggers",
        "trigger spy on mnemic.messages (not Mnemic's)",
    ),
    (
        "alter role mnemic_app in database {db} set row_security = off",
        "settings",
        "setting row_security of role mnemic_app in database {db} (not Mnemic's)",
    ),
    (
        "alter role mnemic_admin in database {db} set session_replication_role = replica",
        "settings",
        "setting session_replication_role of role mnemic_admin in database {db} (not Mnemic's)",
    ),
    (
        "alter database {db} set synchronous_commit = off",
        "settings",
        "setting synchronous_commit of database {db} (not Mnemic's)",
    ),
    (
        "create publication copies for table mnemic.memories",
        "attachments",
        "publication copies of mnemic.memories (not Mnemic's)",
    ),
    ("create publication copies for all tables", "attachments", "publication copies of mnemic.messages (not Mnemic's)"),
    (
        "create table public.everything (like mnemic.entries); alter table mnemic.entries inherit public.everything",
        "attachments",
        "inheritance mnemic.entries from public.everything (not Mnemic's)",
    ),
]
#: Further changes of each kind.
FURTHER: list[Change] = [
    (
        "alter table mnemic.sources disable trigger all",
        "tables",
        "constraint sources_agent_id_memory_id_fkey on mnemic.sources (triggers off)",
    ),
    (
        "alter table mnemic.memories alter column importance drop not null",
        "tables",
        "column importance on mnemic.memories (not null)",
    ),
    (
        "alter table mnemic.memories alter column state set default 'purged'",
        "tables",
        "column state on mnemic.memories (default)",
    ),
    (
        "alter table mnemic.scopes alter column word_limit type bigint",
        "tables",
        "column word_limit on mnemic.scopes (type)",
    ),
    (
        'alter table mnemic.agents alter column tenant_id type text collate "C"',
        "tables",
        "column tenant_id on mnemic.agents (collation)",
    ),
    (
        "alter table mnemic.memories alter column content_hash drop expression",
        "tables",
        "column content_hash on mnemic.memories (generated)",
    ),
    (
        "alter table mnemic.memories alter column content set statistics 100",
        "tables",
        "column content on mnemic.memories (statistics)",
    ),
    ("alter table mnemic.memories add column secret text", "tables", "column secret on mnemic.memories (not Mnemic's)"),
    ("alter table mnemic.scopes drop column name", "tables", "column name on mnemic.scopes (missing)"),
    (
        "update pg_index set indisvalid = false where indexrelid = 'mnemic.memories_unique_text'::regclass",
        "tables",
        "index mnemic.memories_unique_text (state)",
    ),
    (
        "drop index mnemic.memories_unique_text; create index memories_unique_text on mnemic.memories (agent_id)",
        "tables",
        "index mnemic.memories_unique_text (definition)",
    ),
    (
        "create unique index once on mnemic.messages (agent_id, content)",
        "tables",
        "index mnemic.once (not Mnemic's)",
    ),
    (
        "create index samples on mnemic.memories (lower(content))",
        "tables",
        "index mnemic.samples (not Mnemic's)",
    ),
    (
        "alter table mnemic.memories drop constraint memories_pkey cascade",
        "tables",
        "constraint memories_pkey on mnemic.memories (missing)",
    ),
    (
        "alter table mnemic.entries drop constraint entries_check,"
        " add constraint entries_check check ((model = '') = (vec is null)) not valid",
        "tables",
        "constraint entries_check on mnemic.entries (not validated)",
    ),
    (
        "alter table mnemic.memories add constraint never check (false) not valid",
        "tables",
        "constraint never on mnemic.memories (not Mnemic's)",
    ),
    (
        "alter table mnemic.history set (autovacuum_enabled = off)",
        "tables",
        "table mnemic.history (vacuum)",
    ),
    (
        "create statistics public.samples on agent_id, content from mnemic.memories",
        "tables",
        "statistics public.samples (not Mnemic's)",
    ),
    (
        "create table public.child () inherits (mnemic.memories)",
        "attachments",
        "inheritance public.child from mnemic.memories (not Mnemic's)",
    ),
    (
        "create table public.cases (agent_id text, id uuid,"
        " constraint of_memory foreign key (agent_id, id) references mnemic.memories)",
        "attachments",
        "foreign key of_memory on public.cases (not Mnemic's)",
    ),
    (
        "alter extension vector add table mnemic.memories",
        "attachments",
        "extension vector of mnemic.memories (not Mnemic's)",
    ),
    (
        "create subscription feed connection 'dbname=none' publication feed with (connect = false, slot_name = none);"
        " insert into pg_subscription_rel (srsubid, srrelid, srsubstate)"
        " select oid, 'mnemic.memories'::regclass, 'i' from pg_subscription where subname = 'feed'",
        "attachments",
        "subscription feed to mnemic.memories (not Mnemic's)",
    ),
    (
        "create publication copies for tables in schema mnemic_jobs",
        "attachments",
        "publication copies of mnemic_jobs.procrastinate_jobs (not Mnemic's)",
    ),
    ("create view mnemic.mine with (security_invoker = on) as select 1 as one", "tables", "table mnemic.mine (not"),
    (
        "create function public.same(uuid, text) returns boolean language sql return true;"
        " create operator mnemic.= (leftarg = uuid, rightarg = text, function = public.same)",
        "tables",
        "operator mnemic.=(pg_catalog.uuid,pg_catalog.text) (not Mnemic's)",
    ),
    (
        "create function mnemic.is_searchable(text) returns text language sql return ''",
        "functions",
        "function mnemic.is_searchable(text) (not Mnemic's)",
    ),
    (
        "alter function mnemic.owner_part(text, integer) leakproof",
        "functions",
        "function mnemic.owner_part(text,integer) (leakproof)",
    ),
    (
        "alter function mnemic.is_searchable(text, text) volatile",
        "functions",
        "function mnemic.is_searchable(text,text) (volatility)",
    ),
    (
        "grant trigger on mnemic.memories to pg_monitor",
        "privileges",
        "trigger on mnemic.memories to pg_monitor (not Mnemic's)",
    ),
    (
        "grant select on mnemic.history to mnemic_app with grant option",
        "privileges",
        "select on mnemic.history to mnemic_app (grant option)",
    ),
    (
        "revoke insert on mnemic.agents from mnemic_app",
        "privileges",
        "insert on mnemic.agents to mnemic_app (missing)",
    ),
    (
        "revoke insert on mnemic.history from mnemic_owner",
        "privileges",
        "insert on mnemic.history to mnemic_owner (missing)",
    ),
    (
        "grant create on database {db} to mnemic_app",
        "privileges",
        "create on database {db} to mnemic_app (not Mnemic's)",
    ),
    (
        "alter default privileges for role mnemic_owner grant select on tables to public",
        "privileges",
        "select on tables to public by mnemic_owner (not Mnemic's)",
    ),
    (
        "alter default privileges in schema mnemic grant execute on functions to pg_monitor",
        "privileges",
        "execute on functions to pg_monitor by postgres (not Mnemic's)",
    ),
    (
        "alter role mnemic_app in database {db} set search_path = public, mnemic, mnemic_jobs",
        "search path",
        "setting search_path of mnemic_app (value)",
    ),
    (
        "alter role mnemic_admin in database {db} set search_path = public, mnemic",
        "search path",
        "setting search_path of mnemic_admin (value)",
    ),
    (
        "alter role mnemic_app in database {db} set mnemic.scope_keys = '{{user:ana}}'",
        "settings",
        "setting mnemic.scope_keys of role mnemic_app in database {db} (not Mnemic's)",
    ),
    (
        "create function public.hello() returns event_trigger language plpgsql as 'begin end';"
        " create event trigger hello on login execute function public.hello()",
        "attachments",
        "event trigger hello (not Mnemic's)",
    ),
    # the job queue's schema
    (
        "grant select on mnemic_jobs.procrastinate_jobs to public",
        "privileges",
        "select on mnemic_jobs.procrastinate_jobs to public (not Mnemic's)",
    ),
    (
        "create or replace function mnemic_jobs.procrastinate_unlink_periodic_defers_v1() returns trigger"
        " language plpgsql as 'begin return null; end'",
        "queue",
        "function mnemic_jobs.procrastinate_unlink_periodic_defers_v1() (body)",
    ),
    (
        "drop trigger procrastinate_trigger_delete_jobs_v1 on mnemic_jobs.procrastinate_jobs",
        "triggers",
        "trigger procrastinate_trigger_delete_jobs_v1 on mnemic_jobs.procrastinate_jobs (missing)",
    ),
    (
        "drop index mnemic_jobs.procrastinate_jobs_queueing_lock_idx_v1",
        "tables",
        "index mnemic_jobs.procrastinate_jobs_queueing_lock_idx_v1 (missing)",
    ),
    (
        "alter type mnemic_jobs.procrastinate_job_status rename value 'aborted' to 'gone'",
        "queue",
        "type mnemic_jobs.procrastinate_job_status (labels)",
    ),
    (
        "alter sequence mnemic_jobs.procrastinate_jobs_id_seq maxvalue 10 cycle",
        "tables",
        "sequence mnemic_jobs.procrastinate_jobs_id_seq (definition)",
    ),
    (
        "alter table mnemic_jobs.procrastinate_jobs enable row level security",
        "row security",
        "table mnemic_jobs.procrastinate_jobs (row security)",
    ),
]
#: Columns of a table are not made anew: they hold what is lost.
RESTORED = ("drop expression", "drop column name")
#: Changes of roles, which are every database's: they are undone before another transaction sees them.
OF_ROLES: list[Change] = [
    ("alter role mnemic_owner login", "powers", "mnemic_owner is login"),
    ("alter role mnemic_owner bypassrls", "powers", "mnemic_owner is bypassrls"),
    (
        "grant pg_read_server_files to mnemic_owner",
        "powers",
        "mnemic_owner is a member of pg_read_server_files",
    ),
    (
        "grant pg_execute_server_program to mnemic_app",
        "powers",
        "mnemic_app is a member of pg_execute_server_program",
    ),
    ("grant mnemic_app to mnemic_owner", "powers", "mnemic_owner is a member of mnemic_app"),
    (
        "alter role mnemic_owner set session_replication_role = replica",
        "settings",
        "setting session_replication_role of role mnemic_owner (not Mnemic's)",
    ),
    (
        "alter role all set default_transaction_read_only = on",
        "settings",
        "setting default_transaction_read_only of role all (not Mnemic's)",
    ),
]
#: What is shown beside a check that has passed.
NOTED: list[Change] = [
    ("create index mine on mnemic.memories (created_at)", "tables", "index mnemic.mine (not Mnemic's)"),
    ("grant select on mnemic.history to pg_monitor", "privileges", "select on mnemic.history to pg_monitor"),
    ("alter role mnemic_app in database {db} set work_mem = '8MB'", "settings", "setting work_mem of role mnemic_app"),
    (
        "create function public.seen() returns event_trigger language plpgsql as 'begin end';"
        " create event trigger seen on ddl_command_end execute function public.seen()",
        "attachments",
        "event trigger seen",
    ),
]


def test_there_are_as_many_changes_as_promised() -> None:
    assert len(REVIEWED) >= 26
    assert len(FURTHER) >= 30


@pytest.mark.parametrize(("harm", "name", "found"), few_first([*REVIEWED, *FURTHER], 3))
async def test_a_changed_definition_is_named_and_mended(fresh_db: Clone, harm: str, name: str, found: str) -> None:
    async with fresh_db.database() as db:
        await require_sound(db)
    with fresh_db.as_superuser() as connection:
        connection.execute(harm.format(db=fresh_db.name).encode())
        async with fresh_db.database() as db:
            broken, told = await refusal(db)
        assert list(broken) == [name]
        assert found.format(db=fresh_db.name) in broken[name]
        if any(lost in harm for lost in RESTORED):
            assert "restore the database from a dump" in told
            return
        mended = carry_out(fresh_db, told)
        if ANEW in told:
            connection.execute("delete from mnemic.migrations where name = 'rules'")
        if QUEUE_ANEW in told:
            connection.execute("drop schema mnemic_jobs cascade")
            connection.execute("delete from mnemic.migrations where name like 'procrastinate %'")
    if not mended:
        await migrate(fresh_db.superuser_dsn)
    async with fresh_db.database() as db:
        await require_sound(db)


@pytest.mark.parametrize(("harm", "name", "found"), few_first(OF_ROLES, 1))
async def test_a_changed_role_is_named(fresh_db: Clone, harm: str, name: str, found: str) -> None:
    connection = await AsyncConnection.connect(fresh_db.superuser_dsn)
    async with connection:
        await connection.execute(harm.encode())
        await connection.execute("set session authorization mnemic_app; set search_path = mnemic, public, mnemic_jobs")
        violations, _ = await find_violations(connection)
        await connection.rollback()
        await connection.execute("set session authorization mnemic_app; set search_path = mnemic, public, mnemic_jobs")
        before, _ = await find_violations(connection)
        await connection.rollback()
    assert [violation for violation, _ in violations[name]] == [found]
    assert not any(before.values())


@pytest.mark.parametrize(("addition", "name", "note"), few_first(NOTED, 1))
async def test_a_harmless_addition_is_noted(fresh_db: Clone, addition: str, name: str, note: str) -> None:
    with fresh_db.as_superuser() as connection:
        connection.execute(addition.format(db=fresh_db.name).encode())
    async with fresh_db.database() as db:
        await require_sound(db)
        (finding,) = [finding for finding in await check(db) if finding.name == name]
    assert note in finding.note


async def test_without_the_comparison_a_changed_policy_is_not_seen(
    fresh_db: Clone, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The control: what was found before definitions were compared."""
    with fresh_db.as_superuser() as connection:
        connection.execute(REVIEWED[0][0].encode())
        everything = connection.execute("select count(*) from mnemic.memories").fetchone()
    assert everything == (0,)
    monkeypatch.setattr("mnemic.storage.violations.find_differences", lambda *_: [])
    async with fresh_db.database() as db:
        await require_sound(db)


async def test_tables_of_another_release_of_a_library_are_not_compared(
    fresh_db: Clone, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its columns and indexes are its own; policies on its tables are still compared."""
    monkeypatch.setattr(definitions, "_checksum", lambda _: "other")
    definitions.recorded_definitions.cache_clear()
    try:
        with fresh_db.as_superuser() as connection:
            connection.execute("alter table mnemic.checkpoints add column extra text")
            connection.execute("alter table mnemic_jobs.procrastinate_jobs add column extra text")
            async with fresh_db.database() as db:
                await require_sound(db)
                notes = {finding.name: finding.note for finding in await check(db)}
                assert "procrastinate has another release" in notes["tables"]
            connection.execute("alter policy service on mnemic.checkpoints using (true)")
            async with fresh_db.database() as db:
                assert set((await refusal(db))[0]) == {"policies"}
    finally:
        definitions.recorded_definitions.cache_clear()
