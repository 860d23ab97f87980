"""`Mnemic.messages` and `count_messages`: what the agent has stored of what a person said."""

from typing import Any

import pytest

from mnemic import Mnemic
from mnemic.state.errors import InvalidInputError
from mnemic.state.identity import Identity
from tests.support.loopback import LoopbackModel
from tests.support.scripted import say, scripted_memory, turns
from tests.support.server import Clone
from tests.support.worlds import identity

MONDAY, TUESDAY = identity("ana", session="monday"), identity("ana", session="tuesday")


async def contents(memory: Mnemic, who: Identity, **options: Any) -> list[str]:
    return [message.content for message in await memory.privacy.messages(who, **options)]


async def test_a_person_lists_and_counts_their_own_messages(clean_db: Clone, model: LoopbackModel) -> None:
    async with scripted_memory(clean_db, model, keep_messages="all") as memory:
        await say(memory, MONDAY, "I keep bees.", "assistant: How many?", "Forty.")
        await memory.observe(TUESDAY, turns("I sold the bees.", minutes=24 * 60))  # it waits for formation

        assert await contents(memory, TUESDAY) == ["I sold the bees.", "Forty.", "I keep bees."]
        assert await contents(memory, MONDAY, session_id="monday") == ["Forty.", "How many?", "I keep bees."]
        assert await contents(memory, TUESDAY, limit=1) == ["I sold the bees."]
        assert await memory.privacy.count_messages(TUESDAY) == 3
        assert await memory.privacy.count_messages(TUESDAY, session_id="tuesday") == 1
        (newest, *_) = await memory.privacy.messages(TUESDAY)
        assert (newest.role, newest.user_id, newest.session_id) == ("user", "ana", "tuesday")
        with pytest.raises(InvalidInputError):
            await memory.privacy.messages(TUESDAY, limit=0)


async def test_another_person_finds_none_of_them(clean_db: Clone, model: LoopbackModel) -> None:
    async with scripted_memory(clean_db, model, keep_messages="all") as memory:
        await say(memory, MONDAY, "I keep bees.")
        other = identity("bo", session="elsewhere")
        assert await contents(memory, other) == await contents(memory, other, session_id="monday") == []
        assert (
            await memory.privacy.count_messages(other)
            == await memory.privacy.count_messages(other, session_id="monday")
            == 0
        )
        assert await contents(memory, MONDAY) == ["I keep bees."]  # the control


async def test_an_erased_person_has_no_messages(clean_db: Clone, model: LoopbackModel) -> None:
    async with scripted_memory(clean_db, model, keep_messages="all") as memory:
        await say(memory, MONDAY, "I keep bees.", "assistant: How many?")
        await memory.privacy.erase_person(MONDAY)
        assert (await memory.privacy.count_messages(MONDAY), await contents(memory, MONDAY)) == (0, [])
