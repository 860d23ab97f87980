"""One session's messages, observed by several requests at the same moment."""

import asyncio
import random
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from types import MappingProxyType

import psycopg
import pytest

from mnemic.state.errors import MnemicError
from mnemic.state.records import Message
from mnemic.storage import inbox
from mnemic.storage.database import Database
from tests.support.deadlocks import PATIENT, see_deadlocks_quickly
from tests.support.server import Clone
from tests.support.worlds import identity, message

ME = identity(session="s1")


async def observe_all_at_once(db: Database, rounds: int) -> list[MnemicError]:
    """Eight observers of one session with overlapping lists in any order, round after round; what they met."""
    chance = random.Random(7)
    met: list[MnemicError] = []

    async def observe(messages: Sequence[Message]) -> None:
        try:
            async with db.scoped(ME) as scoped:
                await inbox.observe(scoped, "s1", messages)
        except MnemicError as error:
            met.append(error)

    for number in range(rounds):
        talk = [message(f"round {number}, line {line}") for line in range(12)]
        await asyncio.gather(*(observe(chance.sample(talk, 10)) for _ in range(8)))
    return met


async def test_observers_of_the_same_messages_in_any_order_do_not_deadlock(fresh_db: Clone) -> None:
    see_deadlocks_quickly(fresh_db)
    async with fresh_db.database(PATIENT) as db:
        assert await observe_all_at_once(db, rounds=40) == []
        async with db.scoped(ME) as scoped:
            observed = await inbox.observe(scoped, "s1", [])
    with fresh_db.as_superuser() as connection:
        stored = connection.execute("select count(*) from mnemic.messages").fetchone()
        counted = connection.execute("select message_count from mnemic.sessions").fetchone()
    assert stored == counted == (observed.pending,)
    assert observed.pending > 40 * 10


@pytest.mark.thorough
async def test_without_the_sessions_lock_they_would(fresh_db: Clone, monkeypatch: pytest.MonkeyPatch) -> None:
    see_deadlocks_quickly(fresh_db)
    async with fresh_db.database(PATIENT) as db:
        async with db.scoped(ME) as scoped:
            await inbox.observe(scoped, "s1", [])
        unlocked = {**inbox._SQL, "enter_session": "select 1"}
        monkeypatch.setattr(inbox, "_SQL", MappingProxyType(unlocked))
        met = await observe_all_at_once(db, rounds=40)
    assert {error.sqlstate for error in met} == {"40P01"}


async def test_messages_keep_the_order_of_the_list_however_many_observe(
    clean_db: Clone, superuser: psycopg.Connection
) -> None:
    talk = [message(f"line {number}") for number in range(200)]
    async with clean_db.database(PATIENT) as db:

        async def observe(messages: Sequence[Message]) -> None:
            await db.write(ME, lambda scoped: inbox.observe(scoped, "s1", messages))

        for upto in (50, 120, 200):
            await asyncio.gather(*(observe(talk[:upto]) for _ in range(4)))
    order = superuser.execute("select content from mnemic.messages order by place").fetchall()
    assert order == [(one.content,) for one in talk]


async def test_an_observation_is_two_statements(
    db: Database, statements: Callable[[Database], AbstractContextManager[list[str]]]
) -> None:
    with statements(db) as sent:
        async with db.scoped(ME) as scoped:
            await inbox.observe(scoped, "s1", [message("line")])
    begin, enter, observe, commit = sent
    assert begin.startswith("begin; ")
    assert commit == "COMMIT"
    assert "set local mnemic.scope_keys = '{" in begin
    assert "insert into sessions" in enter
    assert "insert into messages" in observe


async def test_messages_are_numbered_within_their_session_without_gaps(
    clean_db: Clone, superuser: psycopg.Connection
) -> None:
    """Neighbours lie one apart, though hosts resend the whole list, say a line twice, and other sessions go on."""
    talk = [message(f"line {number}") for number in range(20)]
    async with clean_db.database(PATIENT) as db:

        async def observe(messages: Sequence[Message], session: str = "s1") -> None:
            await db.write(identity(session=session), lambda scoped: inbox.observe(scoped, session, messages))

        for upto in range(2, 22, 2):
            elsewhere = [message("elsewhere", session="s2")]
            said_twice = [*talk[:upto], talk[upto - 1]]
            await asyncio.gather(observe(said_twice), observe(talk[: upto - 1]), observe(elsewhere, "s2"))
    numbered = superuser.execute("select place, content from mnemic.messages where session_id = 's1' order by place")
    assert numbered.fetchall() == [(number, one.content) for number, one in enumerate(talk, start=1)]
