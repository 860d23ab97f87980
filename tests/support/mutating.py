"""Databases made wrong on purpose, for controls: functions, statements, roles; and what the doctor says of them."""

import re
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any, LiteralString

import psycopg
import pytest
from psycopg import sql

from mnemic.state.errors import DatabaseSetupError
from mnemic.storage.database import Database
from mnemic.storage.doctor import check, require_sound
from tests.support.server import Clone


def mutate(connection: psycopg.Connection, function: str, text: str, wrong: str) -> None:
    """Replaces a function by itself with another text in it."""
    found = connection.execute("select pg_get_functiondef(%s::regproc)", (f"mnemic.{function}",)).fetchone()
    assert found
    assert found[0].count(text) == 1, "what is to be made wrong stands there once"
    changed: Any = found[0].replace(text, wrong)
    connection.execute(changed)


def worsen(monkeypatch: pytest.MonkeyPatch, module: ModuleType, **changes: tuple[str, str]) -> None:
    """Replaces a part of some of a storage module's named statements, for a control that must fail."""
    statements = dict(module._SQL)
    for name, (part, instead) in changes.items():
        assert part in statements[name], f"{name} no longer says {part}"
        statements[name] = statements[name].replace(part, instead)
    monkeypatch.setattr(module, "_SQL", statements)


_BESIDE = """
create table mnemic.beside (like mnemic.heads);
alter table mnemic.beside owner to mnemic_owner;
create or replace function mnemic.open_operation(
    p_agent text, p_op uuid, p_actor text, p_actor_kind text, p_reason text, p_session text, p_run text, p_meta jsonb
) returns void
language sql security definer set search_path = mnemic, pg_temp as $$
    insert into beside (agent_id, revision, hash, op_xid, operation)
    values (p_agent, 0, '', pg_current_xact_id(),
            jsonb_build_object('op_id', p_op, 'actor', p_actor, 'actor_kind', p_actor_kind, 'reason', p_reason,
                               'session_id', p_session, 'run_id', p_run, 'meta', p_meta));
    insert into heads (agent_id, revision, hash) values (p_agent, 0, sha256(convert_to(p_agent, 'UTF8')))
    on conflict do nothing
$$;
create or replace function mnemic.open_head(p_agent text) returns history
language plpgsql security definer set search_path = mnemic, pg_temp as $$
begin
    return (select jsonb_populate_record(null::history, to_jsonb(h) || b.operation)
              from beside b cross join lateral (select * from heads where agent_id = p_agent {lock}) as h
             where b.agent_id = p_agent and b.op_xid = pg_current_xact_id());
end $$;
"""


def open_beside_the_head(connection: psycopg.Connection, lock: LiteralString = "for update") -> None:
    """Operations open without the head, which whoever writes memories locks last, or never."""
    connection.execute("set search_path = mnemic")
    connection.execute(_BESIDE.format(lock=lock).encode())
    connection.execute("reset search_path")


async def refusal(db: Database) -> tuple[dict[str, str], str]:
    """The remedies by the names of the failed checks, and the message that refuses the database."""
    broken = {finding.name: finding.remedy for finding in await check(db) if not finding.ok}
    with pytest.raises(DatabaseSetupError) as refused:
        await require_sound(db)
    told = str(refused.value)
    assert all(f"- {name}: {remedy}" in told for name, remedy in broken.items())
    return broken, told


def carry_out(clone: Clone, told: str) -> list[str]:
    """Runs what `a superuser runs`, as one would who copies it from the message."""
    listed = re.findall(r"a superuser runs ((?:`[^`]*`(?:, )?)+)", told)
    statements = [statement for part in listed for statement in re.findall(r"`([^`]*)`", part)]
    with clone.as_superuser() as connection:
        for statement in statements:
            connection.execute(statement.encode())
    return statements


@contextmanager
def other_role(clone: Clone, *rights: str) -> Iterator[str]:
    """A role of its own, since what is done to a role of Mnemic's would be done to every database of the server.

    Args:
        rights: statements that give the role `{role}` what it should not have.
    """
    name = f"someone_{uuid.uuid4().hex[:8]}"
    role = sql.Identifier(name)
    with clone.as_superuser() as connection:
        connection.execute(sql.SQL("create role {} login").format(role))
        try:
            connection.execute(sql.SQL("alter role {} set search_path = mnemic, public").format(role))
            for right in rights:
                connection.execute(right.format(role=name).encode())
            yield name
        finally:
            connection.execute(sql.SQL("drop owned by {}").format(role))
            connection.execute(sql.SQL("drop role {}").format(role))
