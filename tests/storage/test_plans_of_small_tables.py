"""A plan made while a table was small serves until it is analysed: messages are looked up by key, however few."""

import json
import uuid
from typing import LiteralString

import pytest

from mnemic.storage import inbox
from mnemic.storage.database import Database
from tests.storage.test_plans import Explaining
from tests.support.worlds import identity

WHO = identity("ana", session="s1")
OBSERVE = inbox._SQL["observe"]
SAID = {
    "id": str(uuid.uuid4()),
    "scope_key": "user:ana",
    "role": "user",
    "author": "Ana",
    "user_id": "ana",
    "content": "I keep bees.",
    "said_at": "2026-03-02T09:00:00Z",
}


async def looks_up_by_key(db: Database, statement: LiteralString) -> bool:
    """Whether a message is read by its id alone; the count of what is pending has an index of its own."""
    async with db.scoped(WHO) as scoped:
        await inbox.observe(scoped, "s1", [])
        explaining = Explaining(**vars(scoped))
        await explaining.tuples(statement, {"session_id": "s1", "messages": json.dumps([SAID])})
    scans = [node for node in explaining.scans("messages") if node["Node Type"].endswith("Scan")]
    keyed = [node for node in scans if node.get("Index Name") != "messages_pending"]
    # `= any (...)` of as many as there may be is planned by the table's size, too
    conditions = [node.get("Index Cond", "") for node in keyed]
    return bool(keyed) and all(" AND (id = " in one and " ANY " not in one for one in conditions)


async def test_observed_messages_are_looked_up_by_their_key_in_an_empty_table_too(db: Database) -> None:
    assert await looks_up_by_key(db, OBSERVE)


@pytest.mark.thorough
async def test_control_without_the_fence_all_of_them_would_be_read(db: Database) -> None:
    assert "offset 0" in OBSERVE
    assert not await looks_up_by_key(db, OBSERVE.replace(" offset 0", ""))
