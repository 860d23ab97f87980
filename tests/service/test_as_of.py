"""The memories of a scope key as they were: the person's view, under the allowlist of the role that asks."""

from dataclasses import replace
from datetime import datetime

import psycopg
import pytest

from mnemic import Mnemic
from mnemic.operations.run.resources import Resources
from mnemic.state.errors import InvalidInputError
from mnemic.storage.database import Database
from tests.support.rollbacks import ANA, forgotten, saved
from tests.support.worlds import memory as new_memory
from tests.support.worlds import remember

BEES, PORTO, BOAT = "Ana keeps bees.", "Ana lives in Porto.", "Ana has a boat."
ROLES = ("owner", "supervisor", "executor")


@pytest.fixture
def db(resources: Resources) -> Database:
    return resources.database


async def test_a_person_sees_their_memories_as_they_were(
    memory: Mnemic, db: Database, superuser: psycopg.Connection
) -> None:
    (bees,) = await saved(db, BEES)
    await saved(db, PORTO)
    await forgotten(db, bees)
    await saved(db, BOAT, key="group:crew")

    async def then(moment: int | datetime, key: str = "user:ana", **switches: bool) -> list[tuple[str, str]]:
        return [(one.content, one.state) for one in await memory.as_of(ANA, key, moment, **switches)]

    assert await then(0) == []
    assert await then(1) == [(BEES, "active")]
    assert sorted(await then(2)) == [(BEES, "active"), (PORTO, "active")]
    assert await then(3) == [(PORTO, "active")]
    assert sorted(await then(3, with_closed=True)) == [(BEES, "soft_deleted"), (PORTO, "active")]
    (saved_at,) = superuser.execute("select ts from mnemic.history where seq = 1").fetchone() or (None,)
    assert await then(saved_at) == [(BEES, "active")]
    assert await then(4, "group:crew") == [(BOAT, "active")]
    for key in ("user:bo", "group:club", "session:s2", "agent:museum"):
        with pytest.raises(InvalidInputError, match="none of this identity's"):
            await memory.as_of(ANA, key, 1)
    await memory.erase(ANA, bees.id)
    assert sorted(await then(2)) == [("", "purged"), (PORTO, "active")]


async def test_a_role_sees_the_past_of_its_categories_alone(memory: Mnemic, db: Database) -> None:
    await remember(db, ANA, new_memory(BEES), replace(new_memory("1. Ring the bell."), category="procedural"))
    seen = {role: len(await memory.as_of(ANA.model_copy(update={"role": role}), "user:ana", 2)) for role in ROLES}
    assert seen == {"owner": 2, "supervisor": 1, "executor": 1}
