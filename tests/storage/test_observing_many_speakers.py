"""A list with many speakers: the cost of each of its rows does not grow with their number."""

import json
from collections.abc import Sequence
from datetime import UTC, datetime

import pytest

from mnemic.operations.messages.incoming import to_messages
from mnemic.state.errors import RefusedError
from mnemic.storage import inbox
from mnemic.storage.database import Database
from tests.support.scripted import scripted_memory, scripted_model
from tests.support.server import Clone
from tests.support.worlds import identity, message

ME = identity("ana", session="s1")
SPEAKERS = 30
TALK = [{"role": "user", "user": f"user-{place}", "content": f"hello {place}"} for place in range(SPEAKERS)]

_NOTE = """
create table public.seen (scope_keys text[]);
create function public.note() returns trigger language plpgsql security definer as $$
begin
    insert into public.seen values (current_setting('mnemic.scope_keys')::text[]);
    return null;
end $$;
create trigger note after insert on mnemic.messages for each statement execute function public.note();
"""


def scope_keys_while_storing(clone: Clone) -> Sequence[list[str]]:
    """The scope keys of each statement that stored messages: what the policy compares every row with."""
    with clone.as_superuser() as connection:
        return [keys for (keys,) in connection.execute("select scope_keys from public.seen")]


@pytest.fixture
def noting_db(fresh_db: Clone) -> Clone:
    with fresh_db.as_superuser() as connection:
        connection.execute(_NOTE)
    return fresh_db


async def test_the_speakers_of_a_list_are_no_scope_keys_of_its_transaction(noting_db: Clone) -> None:
    with scripted_model() as model:
        async with scripted_memory(noting_db, model) as memory:
            observed = [(await memory.observe(ME, TALK, several_speakers=True)).accepted for _ in range(2)]
    assert observed == [SPEAKERS, 0]
    assert scope_keys_while_storing(noting_db) == [list(ME.scope_keys)] * 2


@pytest.mark.thorough
async def test_where_they_were_the_check_would_notice(noting_db: Clone) -> None:
    new = to_messages(TALK, ME, now=datetime.now(UTC), several_speakers=True)
    async with noting_db.database() as db:
        keys = [one.scope_key for one in new]
        await db.write(ME, lambda scoped: inbox.observe(scoped, "s1", new), also=keys)
    assert [len(keys) for keys in scope_keys_while_storing(noting_db)] == [len(ME.scope_keys) + SPEAKERS]


async def test_without_the_session_a_speakers_message_is_refused(db: Database) -> None:
    """The session is what lets them through, so another session's are not."""
    foreign = identity("bo", session="s2")
    async with db.scoped(ME) as scoped:
        await inbox.observe(scoped, "s1", [])
    greeting = message("hi")
    rows = [{**vars(greeting), "scope_key": greeting.scope_key}]
    values = {"session_id": "s1", "messages": json.dumps(rows, default=str)}
    with pytest.raises(RefusedError, match="row-level security"):
        async with db.scoped(foreign) as scoped:
            await scoped.execute(inbox._SQL["observe"], values)
