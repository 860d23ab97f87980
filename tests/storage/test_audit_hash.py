"""What a row of the history is hashed by: every column, in a text that stays the same for ever."""

import hashlib
from datetime import UTC, datetime

import psycopg
import pytest
from psycopg.types.json import Jsonb

from mnemic.policy.governance.audit import COLUMNS

NOBODY = "00000000-0000-0000-0000-000000000007"
#: A row that has something in every column, and one that has nothing where nothing may stand.
FULL = (
    '{"agent_id": "harbor", "seq": 7, "op_id": "11111111-1111-1111-1111-111111111111", "event": "UPDATE",'
    ' "memory_id": "22222222-2222-2222-2222-222222222222", "scope_key": "user:Zoë \\"z\\"", "category": "profile",'
    ' "actor": "ana\\\\bo", "actor_kind": "agent", "reason": "formation", "session_id": "s1", "run_id": "r1",'
    ' "refinement_id": "33333333-3333-3333-3333-333333333333", "undo_of": "44444444-4444-4444-4444-444444444444",'
    ' "before_digest": "\\\\x00ff", "after_digest": "\\\\x01", "token_delta": -3,'
    ' "meta": {"b": 0.50, "aa": [1, null, "ü"]}, "ts": "2026-03-02T10:00:00.000001+01:00", "prev": "\\\\xabcd"}'
)
BARE = (
    '{"agent_id": "harbor", "seq": 1, "op_id": "11111111-1111-1111-1111-111111111111", "event": "ADD", "actor": "a",'
    ' "actor_kind": "agent", "reason": "formation", "token_delta": 0, "meta": {}, "ts": "1970-01-01T00:00:00Z",'
    ' "prev": "\\\\x00"}'
)
VECTORS = {
    FULL: '["h1", "harbor", 7, "11111111-1111-1111-1111-111111111111", "UPDATE",'
    ' "22222222-2222-2222-2222-222222222222", "user:Zoë \\"z\\"", "profile", "ana\\\\bo", "agent", "formation",'
    ' "s1", "r1",'
    ' "33333333-3333-3333-3333-333333333333", "44444444-4444-4444-4444-444444444444", "00ff", "01", -3,'
    ' {"b": 0.50, "aa": [1, null, "ü"]}, 1772442000000001, "abcd"]',
    BARE: '["h1", "harbor", 1, "11111111-1111-1111-1111-111111111111", "ADD", null, null, null, "a", "agent",'
    ' "formation", null, null, null, null, null, null, 0, {}, 0, "00"]',
}


@pytest.mark.parametrize("zone", ["UTC", "Asia/Kathmandu"])
@pytest.mark.parametrize("row", VECTORS)
def test_the_hashed_text_is_this_one_for_ever(superuser: psycopg.Connection, row: str, zone: str) -> None:
    """A change of it makes every chain that was ever written look forged: give it another version instead."""
    with superuser.transaction(force_rollback=True):
        superuser.execute("select set_config('timezone', %s, true)", (zone,))
        text, row_hash = superuser.execute(
            "select mnemic.history_text(h), mnemic.history_hash(h)"
            " from jsonb_populate_record(null::mnemic.history, %s) as h",
            (row,),
        ).fetchone() or ("", b"")
    assert text == VECTORS[row]
    assert row_hash == hashlib.sha256(VECTORS[row].encode()).digest()


#: Another value for each type that a column of the history may have.
OTHERS = {"text": "other", "bigint": 99, "integer": 99, "uuid": NOBODY, "bytea": "\\x99", "jsonb": {"x": 1},
          "timestamp with time zone": datetime(2020, 1, 1, tzinfo=UTC).isoformat()}  # fmt: skip


def uncovered(superuser: psycopg.Connection) -> set[str]:
    """Columns of the history that may be changed without another hash."""
    columns = superuser.execute(
        "select attname, format_type(atttypid, atttypmod) from pg_attribute"
        " where attrelid = 'mnemic.history'::regclass and attnum > 0 and not attisdropped"
    ).fetchall()
    is_same = (
        "select mnemic.history_hash(jsonb_populate_record(h, jsonb_build_object(%s::text, %s::jsonb)))"
        " = mnemic.history_hash(h) from jsonb_populate_record(null::mnemic.history, %s) as h"
    )
    found = set()
    for name, kind in columns:
        value = Jsonb(OTHERS[kind])
        if superuser.execute(is_same, (name, value, FULL)).fetchone() == (True,):
            found.add(name)
    return found


def test_the_hash_is_of_every_column_but_itself(superuser: psycopg.Connection) -> None:
    assert uncovered(superuser) == {"hash"}


def test_an_export_names_the_columns_in_the_order_they_are_hashed_in(superuser: psycopg.Connection) -> None:
    names = superuser.execute(
        "select attname from pg_attribute where attrelid = 'mnemic.history'::regclass and attnum > 0"
        " and attname <> 'hash' order by attnum"
    )
    assert [name for (name,) in names.fetchall()] == list(COLUMNS[1:])


def test_a_column_that_the_hash_does_not_know_fails_that_check(superuser: psycopg.Connection) -> None:
    with superuser.transaction(force_rollback=True):
        superuser.execute("alter table mnemic.history add column note text")
        assert uncovered(superuser) == {"hash", "note"}
