"""Messages: observed once, at the same moment and of many speakers too; formed once, kept or emptied."""

import asyncio
import random
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from datetime import timedelta
from types import MappingProxyType
from typing import Any

import psycopg
import pytest

from mnemic.state.errors import ConcurrentChangeError, MnemicError
from mnemic.state.records import Message
from mnemic.storage import inbox
from mnemic.storage.database import Database
from tests.support.mutating import worsen
from tests.support.scripted import scripted_memory, scripted_model
from tests.support.server import PATIENT, Clone, recorded_statements, see_deadlocks_quickly
from tests.support.worlds import MORNING, identity, message

ME = identity(session="s1")


async def observe(db: Database, *messages: Message) -> tuple[int, int]:
    async with db.transaction(ME) as tx:
        observed = await inbox.observe(tx, "s1", messages)
    return observed.accepted, observed.pending


async def pending(db: Database) -> list[str]:
    async with db.transaction(ME) as tx:
        return [item.content for item in (await inbox.read_inbox(tx, "s1", limit=9)).messages]


async def test_a_message_edited_by_its_speaker_replaces_the_first_while_it_waits(
    db: Database, superuser: psycopg.Connection
) -> None:
    first, next_ = message("I live in Porto"), message("I row")
    await observe(db, first, next_)
    edited = replace(first, content="I live in Lisbon")
    for said in ([edited, next_], [edited, first], [edited]):
        assert await observe(db, *said) == (0, 2)
        assert await pending(db) == ["I live in Lisbon", "I row"]
    edits = [replace(first, content=f"I live at {number}") for number in range(4)]
    assert await asyncio.gather(*(observe(db, edit) for edit in edits)) == [(0, 2)] * 4
    (left, _) = await pending(db)
    assert left in [edit.content for edit in edits]
    await settle_read(db, replace(first, content=left), next_)
    assert await observe(db, first) == (0, 0)  # from now on it stays as it was formed
    formed = superuser.execute("select content from mnemic.messages order by place").fetchall()
    assert formed == [(left,), ("I row",)]


@pytest.mark.parametrize("other", [{"user_id": "bob"}, {"role": "assistant"}, {"role": "assistant", "user_id": None}])
async def test_a_message_of_another_speaker_under_its_id_changes_nothing(db: Database, other: Any) -> None:
    first = message("I live in Porto")
    await observe(db, first)
    await observe(db, replace(first, content="I live in Lisbon", **other))
    assert await pending(db) == ["I live in Porto"]


async def settle_read(db: Database, *read: Message) -> None:
    async with db.transaction(ME) as tx:
        await inbox.settle(tx, await tx.begin_operation("formation"), read, read_revision=0)


@pytest.mark.parametrize("held", [True, pytest.param(False, id="control", marks=pytest.mark.thorough)])
async def test_a_message_edited_while_it_is_formed_is_formed_anew(
    db: Database, monkeypatch: pytest.MonkeyPatch, held: bool
) -> None:
    if not held:
        worsen(monkeypatch, inbox, settle=("= r.digest", "is not null"))
    first = message("I live in Porto")
    await observe(db, first)
    await observe(db, replace(first, content="I live in Lisbon"))
    with pytest.raises(ConcurrentChangeError, match="edited") if held else nullcontext():
        await settle_read(db, first)
    assert await pending(db) == (["I live in Lisbon"] if held else [])


async def test_inbox_is_read_in_arrival_order_and_counts_the_messages_beyond(db: Database) -> None:
    talk = [message(f"line {number}", said_at=MORNING - timedelta(minutes=number)) for number in range(5)]
    await observe(db, *talk)
    async with db.transaction(ME) as tx:
        box = await inbox.read_inbox(tx, "s1", limit=3)
    assert box.messages == tuple(talk[:3])
    assert box.pending == 5
    assert timedelta(0) < box.idle < timedelta(minutes=5)


async def test_resending_old_messages_does_not_wake_the_session(db: Database, superuser: psycopg.Connection) -> None:
    talk = [message("line")]
    last = "select last_activity_at from mnemic.sessions"
    await observe(db, *talk)
    before = superuser.execute(last).fetchone()
    await observe(db, *talk)
    assert superuser.execute(last).fetchone() == before
    await observe(db, message("next line"))
    assert superuser.execute(last).fetchone() != before


async def observe_all_at_once(db: Database, rounds: int) -> list[MnemicError]:
    """Eight observers of one session with overlapping lists in any order, round after round; what they met."""
    chance = random.Random(7)
    met: list[MnemicError] = []

    async def observe(messages: Sequence[Message]) -> None:
        try:
            async with db.transaction(ME) as tx:
                await inbox.observe(tx, "s1", messages)
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
        async with db.transaction(ME) as tx:
            observed = await inbox.observe(tx, "s1", [])
    with fresh_db.as_superuser() as connection:
        stored = connection.execute("select count(*) from mnemic.messages").fetchone()
        counted = connection.execute("select message_count from mnemic.sessions").fetchone()
    assert stored == counted == (observed.pending,)
    assert observed.pending > 40 * 10


@pytest.mark.thorough
async def test_without_the_sessions_lock_they_would(fresh_db: Clone, monkeypatch: pytest.MonkeyPatch) -> None:
    see_deadlocks_quickly(fresh_db)
    async with fresh_db.database(PATIENT) as db:
        async with db.transaction(ME) as tx:
            await inbox.observe(tx, "s1", [])
        unlocked = {**inbox._SQL, "enter_session": "select 1"}
        monkeypatch.setattr(inbox, "_SQL", MappingProxyType(unlocked))
        met = await observe_all_at_once(db, rounds=40)
    assert {error.sqlstate for error in met} == {"40P01"}


async def test_messages_are_numbered_within_their_session_without_gaps(
    clean_db: Clone, superuser: psycopg.Connection
) -> None:
    """Neighbours lie one apart, though hosts resend the whole list, say a line twice, and other sessions go on."""
    talk = [message(f"line {number}") for number in range(20)]
    async with clean_db.database(PATIENT) as db:

        async def observe(messages: Sequence[Message], session: str = "s1") -> None:
            await db.write(identity(session=session), lambda tx: inbox.observe(tx, session, messages))

        for upto in range(2, 22, 2):
            elsewhere = [message("elsewhere", session="s2")]
            said_twice = [*talk[:upto], talk[upto - 1]]
            await asyncio.gather(observe(said_twice), observe(talk[: upto - 1]), observe(elsewhere, "s2"))
    numbered = superuser.execute("select place, content from mnemic.messages where session_id = 's1' order by place")
    assert numbered.fetchall() == [(number, item.content) for number, item in enumerate(talk, start=1)]


SPEAKERS = 30
TALK = [{"role": "user", "user": f"user-{place}", "content": f"hello {place}"} for place in range(SPEAKERS)]


async def test_the_speakers_of_a_list_are_no_scope_keys_of_its_transaction(clean_db: Clone) -> None:
    with scripted_model() as model, recorded_statements(clean_db) as sent:
        async with scripted_memory(clean_db, model) as memory:
            observed = [(await memory.observe(ME, TALK, several_speakers=True)).accepted for _ in range(2)]
    assert observed == [SPEAKERS, 0]
    begun = [statement for statement in sent if statement.startswith("begin; ") and "user:ana" in statement]
    assert len(begun) >= 2
    assert [statement for statement in begun if "user:user-" in statement] == []
