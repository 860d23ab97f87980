"""Behind a pooler no statement is prepared by name, and without one they are."""

from typing import Any

import pytest

from mnemic.state.settings import Settings
from mnemic.storage import connection as connection_module
from mnemic.storage.doctor import check
from tests.support.server import Clone
from tests.support.threads import answering, at, said, saver_of
from tests.support.worlds import identity, memory, remember

#: One more than psycopg sends before it prepares.
TIMES = 6


async def _of_a_pooler(connection: Any) -> int:
    """Another process than the client was told of at its connect, and the same one each time."""
    return int(connection.info.backend_pid) + 1


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
    clean_db: Clone, monkeypatch: pytest.MonkeyPatch, poses: bool, pooler: str, prepares: bool
) -> None:
    if poses:
        monkeypatch.setattr(connection_module, "_process", _of_a_pooler)
    async with clean_db.database(Settings(pooler=pooler, pool_size=1)) as db:
        for number in range(TIMES):  # reads, writes and talks often enough that the driver would prepare it
            await remember(db, identity(), memory(f"Ana has {number} hives."))
            await answering(saver_of(db)).ainvoke(said("hello"), at("t"))
        async with db.catalog() as connection:
            prepared = await connection.execute("select name from pg_prepared_statements where not from_sql")
            assert bool(await prepared.fetchall()) == prepares
        (found,) = [finding for finding in await check(db) if finding.name == "pooler"]
    assert found.ok
    assert ("session" in found.note) == poses
    assert found.note.endswith("on" if prepares else "off")
