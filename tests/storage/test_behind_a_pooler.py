"""Behind a pooler no statement is prepared by name, and without one they are."""

import pytest

from mnemic.state.settings import Settings
from mnemic.storage.database import Database
from mnemic.storage.doctor import check
from tests.support.relay import relay
from tests.support.server import Clone
from tests.support.threads import answering, at, said, saver_of
from tests.support.worlds import identity, memory, remember

#: One more than psycopg sends before it prepares.
TIMES = 6


async def use(db: Database) -> None:
    """Reads, writes and talks, each often enough that the driver would prepare it."""
    for number in range(TIMES):
        await remember(db, identity(), memory(f"Ana has {number} hives."))
        await answering(saver_of(db)).ainvoke(said("hello"), at("t"))


@pytest.mark.parametrize(
    ("poses", "pooler", "prepares"),
    [
        (True, "auto", False),
        (True, "none", True),
        (True, "transaction", False),
        (False, "auto", True),
        (False, "transaction", False),
    ],
)
async def test_statements_are_prepared_only_where_a_connection_stays_the_same(
    clean_db: Clone, poses: bool, pooler: str, prepares: bool
) -> None:
    with relay(clean_db, poses=poses) as between:
        async with between.clone.database(Settings(pooler=pooler)) as db:
            await use(db)
            (found,) = [finding for finding in await check(db) if finding.name == "pooler"]
    assert bool(between.prepared) == prepares
    assert found.ok
    assert ("session" in found.note) == poses
    assert found.note.endswith("on" if prepares else "off")
