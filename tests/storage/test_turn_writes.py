"""The count of what was written for a user's turns: added up, begun anew each day, and each user's own."""

import psycopg
import pytest

from mnemic.state.identity import Identity
from mnemic.storage import scopes
from mnemic.storage.database import Database
from tests.support.worlds import identity

ANA = identity("ana")


@pytest.fixture
async def db(db: Database) -> Database:
    """The database, with the agents that count."""
    for agent in ("harbor", "lighthouse"):
        async with db.scoped(identity(agent=agent)) as scoped:
            await scopes.configure_agent(scoped, {})
    return db


async def count(db: Database, written: int, who: Identity = ANA) -> int:
    """The day's total after so many more."""
    async with db.scoped(who) as scoped:
        return await scopes.count_turn_writes(scoped, f"user:{who.user_id}", written)


async def today(db: Database, who: Identity = ANA) -> int:
    async with db.scoped(who) as scoped:
        return await scopes.turn_writes_today(scoped, f"user:{who.user_id}")


async def test_a_days_writes_are_added_up(db: Database) -> None:
    assert await today(db) == 0
    assert [await count(db, 3), await count(db, 0), await count(db, 2)] == [3, 3, 5]
    assert await today(db) == 5


async def test_a_new_day_begins_with_none(db: Database, superuser: psycopg.Connection) -> None:
    await count(db, 20)
    superuser.execute("update mnemic.scopes set turn_writes_on = turn_writes_on - 1")

    assert await today(db) == 0
    assert await count(db, 2) == 2
    assert await today(db) == 2


async def test_every_user_of_every_agent_has_a_count_of_their_own(db: Database) -> None:
    await count(db, 20)

    assert await today(db, identity("bo")) == 0
    assert await today(db, identity("ana", agent="lighthouse")) == 0
    assert await count(db, 1, identity("bo")) == 1
    assert await today(db) == 20


async def test_nobody_else_can_see_a_users_count(db: Database) -> None:
    await count(db, 20)
    async with db.scoped(identity("bo")) as scoped:
        assert await scopes.turn_writes_today(scoped, "user:ana") == 0


async def test_other_settings_of_the_scope_stay_as_they_are(db: Database, superuser: psycopg.Connection) -> None:
    superuser.execute("insert into mnemic.scopes (agent_id, scope_key, name) values ('harbor', 'user:ana', 'Ana Lind')")
    await count(db, 1)
    async with db.scoped(ANA) as scoped:
        await scopes.touch(scoped, ["user:ana"])

    row = superuser.execute("select name, turn_writes from mnemic.scopes").fetchone()
    assert row == ("Ana Lind", 1)
