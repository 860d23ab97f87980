"""Messages: observed once, formed once, kept or emptied."""

import asyncio
from dataclasses import replace
from datetime import timedelta
from typing import Any

import psycopg
import pytest

from mnemic.state.errors import ConcurrentChangeError
from mnemic.state.query import MemoryQuery
from mnemic.state.records import IndexedText, Message
from mnemic.state.settings import Settings
from mnemic.storage import inbox, memories
from mnemic.storage.database import Database
from tests.faults.chaos import worsen
from tests.support.asking import searched
from tests.support.server import Clone
from tests.support.worlds import MODEL, MORNING, identity, memory, message

ME = identity(session="s1")


async def observe(db: Database, *messages: Message) -> tuple[int, int]:
    async with db.scoped(ME) as scoped:
        observed = await inbox.observe(scoped, "s1", messages)
    return observed.accepted, observed.pending


async def test_a_list_observed_twice_is_stored_once(db: Database, superuser: psycopg.Connection) -> None:
    talk = [message(f"line {number}") for number in range(3)]
    assert await observe(db, *talk) == (3, 3)
    assert await observe(db, *talk, message("line 3")) == (1, 4)
    assert superuser.execute("select message_count from mnemic.sessions").fetchone() == (4,)


async def test_the_same_list_from_four_requests_at_once_is_stored_once(db: Database) -> None:
    talk = [message(f"line {number}") for number in range(20)]
    answers = await asyncio.gather(*(observe(db, *talk) for _ in range(4)))
    assert sum(accepted for accepted, _ in answers) == 20


async def pending(db: Database) -> list[str]:
    async with db.scoped(ME) as scoped:
        return [one.content for one in (await inbox.read_inbox(scoped, "s1", most=9)).messages]


async def test_a_message_edited_by_its_speaker_replaces_the_first_while_it_waits(db: Database) -> None:
    first, next_ = message("I live in Porto"), message("I row")
    await observe(db, first, next_)
    edited = replace(first, content="I live in Lisbon")
    for said in ([edited, next_], [edited, first], [edited]):
        assert await observe(db, *said) == (0, 2)
        assert await pending(db) == ["I live in Lisbon", "I row"]


async def test_edits_of_the_same_message_at_once_leave_one_of_them(db: Database) -> None:
    first = message("I live in Porto")
    await observe(db, first)
    edits = [replace(first, content=f"I live at {number}") for number in range(4)]
    assert await asyncio.gather(*(observe(db, edit) for edit in edits)) == [(0, 1)] * 4
    (left,) = await pending(db)
    assert left in [edit.content for edit in edits]


@pytest.mark.parametrize("other", [{"user_id": "bob"}, {"role": "assistant"}, {"role": "assistant", "user_id": None}])
async def test_a_message_of_another_speaker_under_its_id_changes_nothing(db: Database, other: Any) -> None:
    first = message("I live in Porto")
    await observe(db, first)
    await observe(db, replace(first, content="I live in Lisbon", **other))
    assert await pending(db) == ["I live in Porto"]


async def settle_read(db: Database, *read: Message) -> None:
    async with db.scoped(ME) as scoped:
        await inbox.settle(scoped, await scoped.begin_operation("formation"), read, read_seq=0)


async def edit_while_it_is_formed(db: Database) -> None:
    first = message("I live in Porto")
    await observe(db, first)
    await observe(db, replace(first, content="I live in Lisbon"))
    with pytest.raises(ConcurrentChangeError, match="edited"):
        await settle_read(db, first)
    assert await pending(db) == ["I live in Lisbon"]


async def test_a_message_edited_while_it_is_formed_is_formed_anew(db: Database) -> None:
    await edit_while_it_is_formed(db)


async def test_control_a_run_that_settles_whatever_stands_there_loses_the_edit(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    worsen(monkeypatch, inbox, settle=("= r.digest", "is not null"))
    with pytest.raises(pytest.fail.Exception):
        await edit_while_it_is_formed(db)


async def test_a_message_that_was_formed_stays_as_it_was_formed(db: Database, superuser: psycopg.Connection) -> None:
    first = message("I live in Porto")
    await observe(db, first)
    await settle_read(db, first)
    assert await observe(db, replace(first, content="I live in Lisbon")) == (0, 0)
    assert superuser.execute("select content from mnemic.messages").fetchall() == [("I live in Porto",)]


async def test_the_inbox_is_read_in_the_order_of_arrival_and_counts_what_is_beyond(db: Database) -> None:
    talk = [message(f"line {number}", said_at=MORNING - timedelta(minutes=number)) for number in range(5)]
    await observe(db, *talk)
    async with db.scoped(ME) as scoped:
        box = await inbox.read_inbox(scoped, "s1", most=3)
    assert box.messages == tuple(talk[:3])
    assert box.pending == 5
    assert timedelta(0) < box.idle < timedelta(minutes=5)


async def test_a_session_without_messages_has_an_empty_inbox(db: Database) -> None:
    async with db.scoped(ME) as scoped:
        box = await inbox.read_inbox(scoped, "s1", most=3)
    assert (box.messages, box.pending) == ((), 0)


async def test_resending_old_messages_does_not_wake_the_session(db: Database, superuser: psycopg.Connection) -> None:
    talk = [message("line")]
    last = "select last_activity_at from mnemic.sessions"
    await observe(db, *talk)
    before = superuser.execute(last).fetchone()
    await observe(db, *talk)
    assert superuser.execute(last).fetchone() == before
    await observe(db, message("next line"))
    assert superuser.execute(last).fetchone() != before


async def test_messages_are_formed_by_one_run_and_the_second_writes_nothing(db: Database) -> None:
    talk = [message(f"line {number}") for number in range(3)]
    await observe(db, *talk)

    async def form(content: str) -> None:
        async with db.scoped(ME) as scoped:
            op_id = await scoped.begin_operation("formation")
            await memories.insert(scoped, [memory(content)], model=MODEL, vectors={}, run_id=None)
            await inbox.settle(scoped, op_id, talk, read_seq=0)

    await form("Ana spoke.")
    with pytest.raises(ConcurrentChangeError, match="formed by another run"):
        await form("Ana spoke again.")
    async with db.scoped(ME) as scoped:
        assert [one.content for one in await memories.living(scoped, ["fact"], most=9)] == ["Ana spoke."]
        assert (await inbox.read_inbox(scoped, "s1", most=9)).pending == 0


async def test_of_runs_at_the_same_moment_one_wins(clean_db: Clone) -> None:
    talk = [message(f"line {number}") for number in range(6)]
    async with clean_db.database(Settings(pool_size=6)) as db:
        await observe(db, *talk)

        async def form(number: int) -> bool:
            try:
                async with db.scoped(ME) as scoped:
                    op_id = await scoped.begin_operation("formation")
                    await memories.insert(scoped, [memory(f"run {number}")], model=MODEL, vectors={}, run_id=None)
                    await inbox.settle(scoped, op_id, talk, read_seq=0)
            except ConcurrentChangeError:
                return False
            return True

        won = await asyncio.gather(*(form(number) for number in range(6)))
        async with db.scoped(ME) as scoped:
            stored = [one.content for one in await memories.living(scoped, ["fact"], most=9)]
    assert won.count(True) == 1
    assert stored == [f"run {won.index(True)}"]


async def test_a_run_that_formed_only_some_of_them_is_refused_too(db: Database) -> None:
    talk = [message(f"line {number}") for number in range(3)]
    await observe(db, *talk)
    async with db.scoped(ME) as scoped:
        await inbox.settle(scoped, await scoped.begin_operation("formation"), [talk[0]], read_seq=0)
    with pytest.raises(ConcurrentChangeError):
        async with db.scoped(ME) as scoped:
            await inbox.settle(scoped, await scoped.begin_operation("formation"), talk, read_seq=0)
    async with db.scoped(ME) as scoped:
        assert (await inbox.read_inbox(scoped, "s1", most=9)).pending == 2


async def test_an_emptied_message_stays_as_a_skeleton(db: Database, superuser: psycopg.Connection) -> None:
    talk = [message("my secret is out")]
    await observe(db, *talk)
    async with db.scoped(ME) as scoped:
        op_id = await scoped.begin_operation("formation")
        await inbox.settle(scoped, op_id, [talk[0]], read_seq=0)
        await inbox.forget_later(scoped, [talk[0].id], timedelta(0))
        await inbox.forget_due(scoped)
    assert await observe(db, *talk) == (0, 0)
    assert superuser.execute("select content from mnemic.messages").fetchall() == [(None,)]


async def test_a_kept_message_is_found_by_its_speaker_alone_piece_by_piece(db: Database) -> None:
    spoken = message("The ferry was late. " * 60 + "The lighthouse keeper sang.", user="bob")
    async with db.scoped(ME, also=["user:bob"]) as scoped:
        await inbox.observe(scoped, "s1", [spoken])
        pieces = [
            IndexedText(item_id=spoken.id, piece=0, text=f"Bob: {spoken.content[:1000]}"),
            IndexedText(item_id=spoken.id, piece=1, text=f"Bob: {spoken.content[1000:]}"),
        ]
        await inbox.index_messages(scoped, MODEL, pieces)
    for who, seen in ((identity("bob"), [spoken.id]), (identity("ana", session="s1"), []), (identity("carl"), [])):
        async with db.scoped(who) as scoped:
            found = await searched(scoped, MemoryQuery(query="lighthouse"), None, ["message"])
        assert [one.item_id for one in found] == seen
        assert all((one.kind, one.subject, one.content) == ("message", "Bob", spoken.content) for one in found)
