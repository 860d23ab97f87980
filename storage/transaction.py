"""One open transaction: the statements that run in it, and the operations that it opens."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, LiteralString, TypeVar
from uuid import UUID, uuid4

from psycopg import AsyncConnection, AsyncCursor, AsyncRawCursor
from psycopg.rows import class_row, tuple_row
from psycopg.sql import SQL, Identifier
from psycopg.types.json import Jsonb

from mnemic.state.identity import Identity
from mnemic.storage.statements import Numbered, numbered

Row = TypeVar("Row")

#: Rows that become records in one go: of memories they take the event loop 8 ms.
_ROWS_AT_ONCE: Final = 1000
_CALL: Final = SQL("select f.* from {}({}) as f")
#: Each part reads the one before, so the longer wait is set before the head is asked for, and ends with it.
_CALL_WITH_HEAD: Final = SQL(
    "with patient as materialized (select set_config('lock_timeout', $1, true)), found as materialized (select f.*"
    " from patient cross join lateral {}({}) as f) select set_config('lock_timeout', $2, true), found.* from found"
)


@dataclass(frozen=True)
class ScopedTransaction:
    """One open transaction that sees the scope keys of one identity and nothing else."""

    connection: AsyncConnection
    identity: Identity
    #: Every scope key the transaction may touch; statements name them too.
    scope_keys: tuple[str, ...]
    #: How long it waits for another transaction's row, and for the agent's head.
    lock: str
    head: str

    async def execute(self, statement: LiteralString, values: Mapping[str, Any]) -> AsyncCursor[tuple[Any, ...]]:
        """Runs one statement; `agent_id` and `scope_keys` are always among its values."""
        cursor = AsyncRawCursor(self.connection, row_factory=tuple_row)
        sent = numbered(statement)
        return await cursor.execute(sent.text, self._values(sent, values))

    async def rows(self, record: type[Row], statement: LiteralString, values: Mapping[str, Any]) -> list[Row]:
        """The rows of one statement as records, or as dicts; its column names are the fields."""
        cursor = AsyncRawCursor(self.connection, row_factory=class_row(record))
        sent = numbered(statement)
        await cursor.execute(sent.text, self._values(sent, values), binary=True)
        return await _all(cursor)

    async def tuples(self, statement: LiteralString, values: Mapping[str, Any]) -> list[tuple[Any, ...]]:
        """The rows of one statement as they come, for many rows of many columns: dicts cost four times as much."""
        cursor = AsyncRawCursor(self.connection, row_factory=tuple_row)
        sent = numbered(statement)
        await cursor.execute(sent.text, self._values(sent, values), binary=True)
        return await _all(cursor)

    async def call(self, function: LiteralString, *values: object) -> list[tuple[Any, ...]]:
        """The rows that one of the database's functions returns for these values, in the order of its parameters."""
        return await self._call(_CALL, function, [], values)

    async def call_with_head(self, function: LiteralString, *values: object) -> list[tuple[Any, ...]]:
        """As `call`, of a function that opens an operation or locks the agent's head by itself.

        The head is waited for longer than for any other row: a frozen process may have it until the server ends that.
        """
        return [row[1:] for row in await self._call(_CALL_WITH_HEAD, function, [self.head, self.lock], values)]

    async def _call(
        self, form: SQL, function: LiteralString, before: list[object], values: Sequence[object]
    ) -> list[tuple[Any, ...]]:
        sent = [*before, *_lists(values)]
        places = SQL(", ").join(SQL(f"${place + 1}") for place in range(len(before), len(sent)))
        cursor = AsyncRawCursor(self.connection, row_factory=tuple_row)
        await cursor.execute(form.format(Identifier(function), places), sent, binary=True)
        return await _all(cursor)

    async def begin_operation(
        self, reason: str, *, run_id: str | None = None, meta: Mapping[str, Any] | None = None
    ) -> UUID:
        """Opens an operation: locks the agent's head, and writes into it what the audit triggers record.

        Args:
            reason: a code such as `formation`; never text from a conversation.
            run_id: the graph run, if any.
            meta: figures about the operation, without contents.
        """
        op_id = uuid4()
        who = self.identity
        await self.call_with_head(
            "begin_operation", op_id, who.actor, reason, who.session_id, run_id, Jsonb(dict(meta or {}))
        )
        return op_id

    def _values(self, statement: Numbered, values: Mapping[str, Any]) -> list[object]:
        named = {"agent_id": self.identity.agent_id, "scope_keys": self.scope_keys, **values}
        return _lists(named[name] for name in statement.names)


def _lists(values: Iterable[object]) -> list[object]:
    """Values as the driver takes them: a tuple it would send as a row."""
    return [list(value) if isinstance(value, tuple) else value for value in values]


async def _all(cursor: AsyncCursor[Row]) -> list[Row]:
    """All rows; where they are many, the loop's other work gets its turn in between."""
    found = await cursor.fetchmany(_ROWS_AT_ONCE)
    while len(found) < cursor.rowcount:
        await asyncio.sleep(0)
        found += await cursor.fetchmany(_ROWS_AT_ONCE)
    return found
