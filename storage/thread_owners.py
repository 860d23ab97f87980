"""Whose a thread is, for LangGraph Server, which names threads by their ids alone."""

from collections.abc import Mapping, Sequence
from typing import Any, LiteralString

from mnemic.storage.database import Database
from mnemic.storage.statements import load_statements
from mnemic.storage.threads import ThreadOwner

_SQL = load_statements("thread_owners")


async def owners(database: Database, thread_id: str) -> list[ThreadOwner]:
    """Everybody who has a thread of this id, who moved it last first: ids, nothing of what was said.

    Raises:
        DatabaseUnavailableError: the database cannot be reached, cut the connection, or took too long.
    """
    return await _found(database, _SQL["owners"], {"thread_id": thread_id})


async def owners_of_runs(database: Database, run_ids: Sequence[str]) -> list[ThreadOwner]:
    """Everybody who has checkpoints of these runs.

    Raises:
        DatabaseUnavailableError: as `owners`.
    """
    return await _found(database, _SQL["of_runs"], {"run_ids": list(run_ids)})


async def _found(database: Database, statement: LiteralString, values: Mapping[str, Any]) -> list[ThreadOwner]:
    async with database.catalog() as connection:
        found = await connection.execute(statement, values)
        return [ThreadOwner(*row) for row in await found.fetchall()]
