"""What Postgres itself refuses, whoever asks: changes of protected rows and of history, and unaudited writes."""

import uuid
from dataclasses import replace

import psycopg
import pytest
from psycopg.errors import InsufficientPrivilege

from mnemic.state.errors import ConcurrentChangeError, InvalidInputError, RefusedError
from mnemic.state.identity import Identity
from mnemic.state.records import NewMemory
from mnemic.state.settings import Settings
from mnemic.storage import memories
from mnemic.storage.database import Database
from mnemic.storage.transaction import ScopedTransaction
from tests.support.mutating import mutate
from tests.support.refinements import Act, in_a_session
from tests.support.server import Clone
from tests.support.worlds import AGENT, MODEL, direction, identity, memory, operate, remember

ME = identity()


def protect(clone: Clone, memory_id: uuid.UUID, protected: bool = True) -> bool:
    with clone.as_role("mnemic_admin") as connection:
        row = connection.execute(
            "select set_protection(%s, %s, %s, 'the administrator')", (AGENT, memory_id, protected)
        ).fetchone()
    assert row is not None
    return bool(row[0])


@pytest.fixture
async def stored(db: Database) -> NewMemory:
    reflection = memory("Ana trusts the harbour master.", kind="reflection")
    await remember(db, ME, reflection)
    return reflection


def changing(statement: str) -> Act:
    """The statement, which must reach one row: what changes none passes every guard."""

    async def act(tx: ScopedTransaction) -> None:
        cursor = await tx.execute(statement, {})
        assert cursor.rowcount == 1

    return act


async def attempt(db: Database, statement: str) -> None:
    await operate(db, ME, changing(statement))


CHANGES = [
    "update memories set content = 'other'",
    "update memories set importance = 5",
    "update memories set pinned = true",
    "update memories set protected = false",
    "update memories set purge_at = now()",
    "update memories set state = 'soft_deleted'",
    "update memories set state = 'superseded', superseded_by = gen_random_uuid()",
    "update memories set state = 'absorbed', consolidated_into = gen_random_uuid()",
]


@pytest.mark.parametrize("statement", CHANGES)
async def test_nothing_changes_a_protected_memory(
    db: Database, clean_db: Clone, stored: NewMemory, superuser: psycopg.Connection, statement: str
) -> None:
    assert protect(clean_db, stored.id)
    with pytest.raises(RefusedError, match="this memory is protected"):
        await attempt(db, statement)
    assert superuser.execute("select version, content from mnemic.memories").fetchall() == [(2, stored.content)]


@pytest.mark.parametrize("statement", [change for change in CHANGES if "protected" not in change])
async def test_an_unprotected_one_takes_the_same_changes(db: Database, stored: NewMemory, statement: str) -> None:
    # what it says changes in a refinement alone
    await operate(db, ME, in_a_session("user:ana", changing(statement)))


@pytest.mark.thorough
async def test_without_the_guard_a_protected_memory_would_change(fresh_db: Clone) -> None:
    async with fresh_db.database() as db:
        reflection = memory("Ana trusts the harbour master.", kind="reflection")
        await remember(db, ME, reflection)
        protect(fresh_db, reflection.id)
        with fresh_db.as_superuser() as connection:
            connection.execute("alter table mnemic.memories disable trigger guard")
        await attempt(db, "update memories set content = 'other'")


async def test_only_the_administrator_protects_and_history_says_so(
    db: Database, clean_db: Clone, stored: NewMemory, superuser: psycopg.Connection
) -> None:
    with pytest.raises(RefusedError, match="permission denied"):
        await attempt(db, f"select set_protection('{AGENT}', '{stored.id}', true, 'ana')")
    insert = (
        "insert into memories (agent_id, id, kind, scope_key, subject, category, content, importance, provenance,"
        f" valid_from, protected) select '{AGENT}', gen_random_uuid(), 'fact', 'user:ana', 'Ana', 'profile', 'x', 2,"
        " 'asserted', now(), "
    )
    with pytest.raises(RefusedError, match="protected"):
        await attempt(db, f"{insert} true")
    await attempt(db, f"{insert} false")
    assert [protect(clean_db, stored.id), protect(clean_db, stored.id)] == [True, False]
    assert protect(clean_db, stored.id, False)
    audited = superuser.execute(
        "select event, actor, actor_kind, reason from mnemic.history where memory_id = %s order by revision offset 1",
        (stored.id,),
    ).fetchall()
    assert audited == [(event, "the administrator", "admin", "protection") for event in ("PROTECT", "UNPROTECT")]
    await attempt(db, f"update memories set importance = 5 where id = '{stored.id}'")


@pytest.mark.parametrize("change", [
    "agent_id = 'museum'", "id = gen_random_uuid()", "kind = 'journal'", "scope_key = 'agent:harbor'",
    "category = 'tasks'", "subject_user_id = 'bob'", "created_at = now() - interval '1 day'",
])  # fmt: skip
async def test_what_a_memory_is_does_not_change(db: Database, stored: NewMemory, change: str) -> None:
    with pytest.raises(RefusedError):
        await attempt(db, f"update memories set {change}")


@pytest.mark.parametrize("statement", ["delete from memories", "truncate memories cascade"])
async def test_memories_are_never_deleted(db: Database, clean_db: Clone, stored: NewMemory, statement: str) -> None:
    with pytest.raises(RefusedError):
        await attempt(db, statement)
    with clean_db.as_superuser() as connection:
        connection.execute("set search_path = mnemic")
        with pytest.raises(InsufficientPrivilege):
            connection.execute(statement)


HISTORY = [
    f"{verb.format(table=table)}"
    for table in ("history", "history_contents")
    for verb in ("insert into {table} select * from {table}", "update {table} set revision = revision",
                 "delete from {table}", "truncate {table} cascade")
]  # fmt: skip


@pytest.mark.parametrize("statement", HISTORY)
async def test_history_is_append_only_for_every_role(
    db: Database, clean_db: Clone, stored: NewMemory, statement: str
) -> None:
    with pytest.raises(RefusedError, match="permission denied"):
        await attempt(db, statement)
    with clean_db.as_role("mnemic_admin") as admin, pytest.raises(InsufficientPrivilege, match="permission denied"):
        admin.execute(statement)
    if statement.startswith("insert"):
        return
    with clean_db.as_superuser() as connection:
        connection.execute("set role mnemic_owner; set search_path = mnemic")
        with pytest.raises(InsufficientPrivilege, match="history is append-only"):
            connection.execute(statement)


@pytest.mark.parametrize("statement", [
    "alter table memories disable trigger guard", "drop trigger append_only on history",
    "drop policy service on entries", "alter table entries disable row level security", "set role mnemic_owner",
    "set session_replication_role = replica", "update heads set revision = 0",
    "select open_operation('museum', gen_random_uuid(), 'a', 'b', 'c', null, null, '{}')",
])  # fmt: skip
async def test_the_service_cannot_take_the_guards_down(db: Database, stored: NewMemory, statement: str) -> None:
    with pytest.raises(RefusedError):
        await attempt(db, statement)


async def test_a_write_without_an_operation_or_after_it_is_refused(clean_db: Clone) -> None:
    async with clean_db.database(Settings(pool_size=1)) as db:
        await remember(db, ME)
        for stored in range(2):
            with pytest.raises(RefusedError, match="only inside an operation"):
                async with db.transaction(ME) as tx:
                    await memories.insert(tx, [memory("Ana sails.")], model=MODEL, vectors={}, run_id=None)
            async with db.transaction(ME) as tx:
                assert len(await memories.list_memories(tx, ["fact"], limit=9)) == stored
            await remember(db, ME, memory("Ana keeps bees."))


async def _change_under(db: Database, op_id: uuid.UUID, who: Identity = ME) -> None:
    """A change in an operation whose id the service's role has chosen."""
    begin = "select begin_operation(%(op_id)s, 'bo', 'formation', null, null, '{}')"
    async with db.transaction(who) as tx:
        await tx.execute(begin, {"op_id": op_id})
        await tx.execute("update memories set importance = 5", {})


async def test_no_operation_goes_on_under_the_id_of_another(
    db: Database, stored: NewMemory, superuser: psycopg.Connection
) -> None:
    row = superuser.execute("select op_id from mnemic.history").fetchone()
    assert row
    with pytest.raises(RefusedError, match="an operation has an id of its own"):
        await _change_under(db, row[0])
    assert superuser.execute("select event from mnemic.history").fetchall() == [("ADD",)]
    await _change_under(db, row[0], identity(agent="museum"))  # what ids another agent has, nobody is told
    await _change_under(db, uuid.uuid4())
    assert superuser.execute("select event from mnemic.history order by revision").fetchall() == [("ADD",), ("UPDATE",)]


@pytest.mark.thorough
async def test_control_without_the_guard_an_operation_takes_a_foreign_id(fresh_db: Clone) -> None:
    with fresh_db.as_superuser() as connection:
        mutate(connection, "open_operation", "op_id = p_op", "false")
        async with fresh_db.database() as db:
            await remember(db, ME, memory("Ana keeps bees."))
            row = connection.execute("select op_id from mnemic.history").fetchone()
            assert row
            await _change_under(db, row[0])
        assert connection.execute("select count(*), count(distinct op_id) from mnemic.history").fetchone() == (2, 1)


async def test_an_operation_without_a_scope_is_refused(clean_db: Clone) -> None:
    with clean_db.as_role("mnemic_app") as connection, pytest.raises(InsufficientPrivilege, match="scoped transaction"):
        connection.execute("select begin_operation(gen_random_uuid(), 'ana', 'formation', null, null, '{}')")


@pytest.mark.parametrize("vector", [(0.0, 0.0), (float("nan"), 1.0), (70_000.0, 1.0), ()])
async def test_a_vector_that_has_no_direction_is_refused(db: Database, vector: tuple[float, ...]) -> None:
    fact = memory("Ana keeps bees.")
    with pytest.raises(InvalidInputError):
        await remember(db, ME, fact, vectors={fact.id: vector})


TOO_MUCH = [replace(memory("x"), content=content) for content in ("", "x" * 8193, "ä" * 4097)]


@pytest.mark.parametrize("wrong", [*TOO_MUCH, memory("Ana keeps bees.", key="session:s1")])
async def test_a_memory_is_some_text_of_at_most_8_kib_and_no_fact_is_a_sessions(db: Database, wrong: NewMemory) -> None:
    with pytest.raises(InvalidInputError):
        await remember(db, identity(session="s1"), wrong)
    longest = replace(memory("x"), content="ä" * 4096)
    assert await remember(db, ME, longest, vectors={longest.id: direction(0)}) == {longest.id}


async def test_one_consolidation_lives_in_a_scope_key(db: Database) -> None:
    first, second = (memory(text, kind="consolidation") for text in ("Ana is a beekeeper.", "Ana keeps bees."))
    assert await remember(db, ME, first) == {first.id}
    assert await remember(db, ME, second) == set()
    with pytest.raises(ConcurrentChangeError):
        await operate(db, ME, lambda tx: memories.absorb(tx, first.id, [second.id]))
