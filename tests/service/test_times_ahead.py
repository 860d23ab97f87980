"""A message may carry a time far ahead: it is kept as said, and does not win over what is said later."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import pytest

from mnemic import Mnemic
from mnemic.operations.messages.incoming import HostMessage
from tests.support.scripted import contents
from tests.support.server import Clone
from tests.support.worlds import MORNING, identity

FAR = datetime(2150, 1, 1, tzinfo=UTC)
NOW = datetime.now(UTC)
ANA = identity("ana", session="s1")
LISBON, PORTO, GHENT = "I live in Lisbon.", "I live in Porto.", "I live in Ghent."


@pytest.fixture
async def memory(clean_db: Clone) -> AsyncIterator[Mnemic]:
    """The service with its offline rules, for they go by the time alone."""
    async with Mnemic.open(database_url=clean_db.service_dsn, embedder="hash") as opened:
        yield opened


def said(content: str, time: datetime | None) -> HostMessage:
    return {"role": "user", "content": content, **({"time": time.isoformat()} if time else {})}


async def lives_in(memory: Mnemic, *batches: list[HostMessage]) -> list[str]:
    """Where Ana lives once batch after batch was observed and formed."""
    for batch in batches:
        await memory.observe(ANA, batch)
        await memory.form(ANA)
    known = " ".join(await contents(memory, ANA))
    return [town for town in ("Lisbon", "Porto", "Ghent") if town in known]


@pytest.mark.parametrize("together", [True, False], ids=["one batch", "batch by batch"])
@pytest.mark.parametrize(
    "later",
    [None, NOW, NOW - timedelta(hours=1), NOW + timedelta(hours=1), MORNING],
    ids=["now", "its own time", "an hour ago", "in an hour", "an old conversation"],
)
async def test_what_is_said_later_wins_over_a_time_far_ahead(
    memory: Mnemic, later: datetime | None, together: bool
) -> None:
    day_before = later - timedelta(days=1) if later else None
    messages = [said(PORTO, day_before), said(LISBON, FAR), said(GHENT, later)]
    assert await lives_in(memory, *([messages] if together else [messages[:2], messages[2:]])) == ["Ghent"]


async def test_it_still_wins_over_what_was_said_before_it(memory: Mnemic) -> None:
    assert await lives_in(memory, [said(PORTO, None)], [said(LISBON, FAR)]) == ["Lisbon"]


async def test_two_times_far_ahead_go_by_the_order_in_which_they_were_said(memory: Mnemic) -> None:
    assert await lives_in(memory, [said(LISBON, FAR), said(GHENT, FAR - timedelta(days=300))]) == ["Ghent"]


@pytest.mark.parametrize(
    ("earlier", "later"),
    [(MORNING, MORNING - timedelta(days=90)), (NOW + timedelta(hours=20), None)],
    ids=["an old conversation after a newer one", "some hours ahead"],
)
async def test_any_other_time_is_believed(memory: Mnemic, earlier: datetime, later: datetime | None) -> None:
    """What its time says was said before does not close what was said after it."""
    assert await lives_in(memory, [said(LISBON, earlier)], [said(PORTO, later)]) == ["Lisbon", "Porto"]


async def test_the_message_keeps_the_time_it_was_given(memory: Mnemic) -> None:
    await lives_in(memory, [said(PORTO, MORNING), said(LISBON, FAR)])
    found = await memory.query(ANA, LISBON)
    assert [item.dated for item in found if item.kind == "message" and "Lisbon" in item.content] == [FAR]
