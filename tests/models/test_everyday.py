"""Sixty everyday conversations: the rules that stand in without a model hold nothing wrong and close nothing right."""

from typing import Any

import pytest

from benchmarks.corpus.everyday import Everyday, Held, conversations, held_after
from mnemic import Mnemic
from tests.support.scripted import turns
from tests.support.server import Clone
from tests.support.worlds import identity

everyday = pytest.mark.parametrize(
    "conversation", [pytest.param(conversation, id=conversation.id) for conversation in conversations()]
)


@everyday
def test_of_a_whole_conversation_nothing_wrong_is_remembered(conversation: Everyday) -> None:
    held = held_after([conversation.said])
    assert (conversation.wrong(held), conversation.outdated(held)) == ([], [])


@everyday
def test_formed_message_by_message_nothing_wrong_is_remembered_but_what_nothing_has_closed(
    conversation: Everyday,
) -> None:
    held = held_after([[text] for text in conversation.said])
    assert set(conversation.wrong(held)) <= set(conversation.outdated(held))


def test_the_check_sees_what_is_wrong() -> None:
    (moved,) = (conversation for conversation in conversations() if conversation.id == "moved-to-braga")
    assert moved.wrong(Held(["Ana lives in Lisbon."], [])) == ["Ana lives in Lisbon."]
    assert moved.wrong(Held(["Ana lives in Braga."], ["Ana works at a dental clinic."])) != []
    assert held_after([[text] for text in moved.said]).closed == ["Ana lives in Lisbon."]


@pytest.mark.parametrize("together", [True, False])
async def test_a_sister_stays_where_she_is_and_a_move_closes_the_home_before(clean_db: Clone, together: bool) -> None:
    texts = ["I live in Porto.", "I have a sister called Rita who lives in Lisbon.", "I moved to Braga."]
    ana = identity("ana", session="s1")
    settings: dict[str, Any] = {"database_url": clean_db.service_dsn}
    async with Mnemic.open(**settings) as memory:
        for minutes, batch in enumerate([texts] if together else [[text] for text in texts]):
            await memory.observe(ana, turns(*batch, minutes=10 * minutes))
            await memory.form(ana)
        facts = await memory.memories(ana, ["fact"], with_closed=True)
        found = await memory.query(ana, "Where does Rita live?")
    assert [fact.content for fact in facts if fact.state == "active"] == ["Ana lives in Braga."]
    assert [fact.content for fact in facts if fact.state != "active"] == ([] if together else ["Ana lives in Porto."])
    assert any("Lisbon" in item.content for item in found)
