"""A message may carry a time far ahead: it is kept as said, and does not win over what is said later."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import pytest

from mnemic import Mnemic
from mnemic.memory.messages.incoming import HostMessage
from tests.support.scripted import contents
from tests.support.server import Clone
from tests.support.worlds import MORNING, identity

FAR = datetime(2150, 1, 1, tzinfo=UTC)
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


@pytest.mark.parametrize("later", [None, MORNING], ids=["now", "an old conversation"])
@pytest.mark.parametrize("together", [True, False], ids=["one batch", "batch by batch"])
async def test_what_is_said_later_wins_over_a_time_far_ahead(
    memory: Mnemic, later: datetime | None, together: bool
) -> None:
    messages = [said(PORTO, later and later - timedelta(days=1)), said(LISBON, FAR), said(GHENT, later)]
    assert await lives_in(memory, *([messages] if together else [messages[:2], messages[2:]])) == ["Ghent"]
    found = await memory.query(ANA, LISBON)
    assert [item.dated for item in found if item.kind == "message" and "Lisbon" in item.content] == [FAR]


async def test_any_other_time_is_believed(memory: Mnemic) -> None:
    """What its time says was said before does not close what was said after it."""
    in_some_hours = datetime.now(UTC) + timedelta(hours=20)
    assert await lives_in(memory, [said(LISBON, in_some_hours)], [said(PORTO, None)]) == ["Lisbon", "Porto"]
