"""Functions of the database and statements of the product made wrong on purpose, for controls."""

from types import ModuleType
from typing import Any, LiteralString

import psycopg
import pytest


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
    insert into beside (agent_id, seq, hash, op_xid, op_id, actor, actor_kind, reason, session_id, run_id, meta)
    values (p_agent, 0, '', pg_current_xact_id(), p_op, p_actor, p_actor_kind, p_reason, p_session, p_run, p_meta);
    insert into heads (agent_id, seq, hash) values (p_agent, 0, sha256(convert_to(p_agent, 'UTF8')))
    on conflict do nothing
$$;
create or replace function mnemic.open_head(p_agent text) returns heads
language plpgsql security definer set search_path = mnemic, pg_temp as $$
declare
    head heads;
begin
    select * into head from beside where agent_id = p_agent and op_xid = pg_current_xact_id();
    select seq, hash into head.seq, head.hash from heads where agent_id = p_agent {lock};
    return head;
end $$;
"""


def open_beside_the_head(connection: psycopg.Connection, lock: LiteralString = "for update") -> None:
    """Operations open without the head, which whoever writes memories locks last, or never."""
    connection.execute("set search_path = mnemic")
    connection.execute(_BESIDE.format(lock=lock).encode())
    connection.execute("reset search_path")
