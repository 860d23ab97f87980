"""The doctor on roles: a service with too much power, and administrators, who read no content and write nothing."""

import pytest

from mnemic.storage import doctor
from mnemic.storage.doctor import require_sound
from tests.support.matrix import few_first
from tests.support.mutating import carry_out, other_role, refusal
from tests.support.server import Clone

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
#: Where contents are, or words of people about people.
CONTENT = {
    "memories": ["content", "subject", "tags", "content_hash"],
    "messages": ["content", "author"],
    "entries": ["vec", "tsv"],
    "history_contents": ["salt", "before", "after"],
    "scopes": ["name", "extraction_guidance", "consolidation_guidance"],
}


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


async def test_a_right_that_comes_through_a_group_is_taken_from_the_group(fresh_db: Clone) -> None:
    with (
        other_role(fresh_db, "grant update on mnemic.history to {role}") as group,
        other_role(fresh_db, "grant mnemic_app to {role}", f"grant {group} to {{role}}") as role,
    ):
        async with fresh_db.database(dsn=fresh_db.dsn_of(role)) as database:
            broken, told = await refusal(database)
            assert set(broken) == {"service role", "privileges"}
            assert carry_out(fresh_db, told) == [f"revoke update on mnemic.history from {group}"]
            assert set((await refusal(database))[0]) == {"service role"}


@pytest.mark.parametrize(
    ("right", "remedy"), few_first([*POWERS, ("grant mnemic_app to {role}", "revoke mnemic_app from {role}")])
)
async def test_administrators_with_more_power_are_refused(
    fresh_db: Clone, monkeypatch: pytest.MonkeyPatch, right: str, remedy: str
) -> None:
    with other_role(fresh_db) as role:
        monkeypatch.setattr(doctor, "ADMIN_ROLE", role)
        async with fresh_db.database() as db:
            await require_sound(db)
            with fresh_db.as_superuser() as connection:
                connection.execute(right.format(role=role).encode())
            broken, told = await refusal(db)
            assert set(broken) == {"powers"}
            assert carry_out(fresh_db, told) == [remedy.format(role=role)]
            await require_sound(db)


def test_the_administrators_have_no_right_to_any_content(clean_db: Clone) -> None:
    with clean_db.as_superuser() as connection:
        readable = connection.execute(
            "select c.relname, a.attname from pg_class c join pg_attribute a on a.attrelid = c.oid and a.attnum > 0"
            " where c.relnamespace = 'mnemic'::regnamespace and c.relkind = 'r' and not a.attisdropped"
            "   and has_column_privilege('mnemic_admin', c.oid, a.attnum, 'select')"
        ).fetchall()
        written = connection.execute(
            "select c.relname from pg_class c where c.relnamespace = 'mnemic'::regnamespace and c.relkind = 'r'"
            " and (has_any_column_privilege('mnemic_admin', c.oid, 'insert, update')"
            "      or has_table_privilege('mnemic_admin', c.oid, 'delete, truncate'))"
        ).fetchall()
        columns = connection.execute(
            "select c.relname, a.attname from pg_class c join pg_attribute a on a.attrelid = c.oid"
            " where c.relnamespace = 'mnemic'::regnamespace"
        ).fetchall()
    content = {(table, column) for table, named in CONTENT.items() for column in named}
    assert content <= set(columns)
    assert {table for table, _ in readable} == {"history", "heads", "leases", "refinements"}  # figures and ids
    assert not content & set(readable)
    assert written == []


COLUMNS = [f"select ({column}) on mnemic.{table}" for table, named in CONTENT.items() for column in named]
WRITING = [
    [f"{privilege} on mnemic.{table}" for table in CONTENT] for privilege in ("insert", "update", "delete", "truncate")
]


@pytest.mark.parametrize("rights", few_first([COLUMNS, *WRITING]))
async def test_administrators_who_may_read_contents_or_write_are_refused(fresh_db: Clone, rights: list[str]) -> None:
    with fresh_db.as_superuser() as connection:
        for right in rights:
            connection.execute(f"grant {right} to mnemic_admin".encode())
    async with fresh_db.database() as db:
        broken, told = await refusal(db)
        assert set(broken) == {"privileges"}
        assert set(carry_out(fresh_db, told)) == {f"revoke {right} from mnemic_admin" for right in rights}
        await require_sound(db)
