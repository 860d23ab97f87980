"""One open transaction: the statements that run in it, and the operations that it opens."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, LiteralString, TypeVar
from uuid import UUID, uuid4

from psycopg import AsyncConnection, AsyncCursor, AsyncRawCursor
from psycopg.rows import class_row, tuple_row
from psycopg.types.json import Jsonb

from mnemic.state.identity import Identity
from mnemic.storage.statements import Numbered, numbered

Row = TypeVar("Row")

#: Rows that become records in one go: of memories they take the event loop 8 ms.
_ROWS_AT_ONCE: Final = 1000
#: Each part reads the one before, so the longer wait is set before the head is asked for, and ends with it.
_BEGIN: LiteralString = (
    "with patient as materialized (select set_config('lock_timeout', %(head)s, true)), begun as materialized (select"
    " begin_operation(%(op_id)s, %(actor)s, %(reason)s, %(session_id)s, %(run_id)s, %(meta)s)"
    " from patient) select set_config('lock_timeout', %(lock)s, true) from begun"
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

    async def wait_for_head(self) -> None:
        """From here on the agent's head is waited for as long as `begin_operation` does, which some functions call."""
        await self.execute("select set_config('lock_timeout', %(head)s, true)", {"head": self.head})

    async def begin_operation(
        self, reason: str, *, run_id: str | None = None, meta: Mapping[str, Any] | None = None
    ) -> UUID:
        """Opens an operation: locks the agent's head, and writes into it what the audit triggers record.

        The head is waited for longer than for any other row: a frozen process may have it until the server ends that.

        Args:
            reason: a code such as `formation`; never text from a conversation.
            run_id: the graph run, if any.
            meta: figures about the operation, without contents.
        """
        op_id = uuid4()
        who = self.identity
        await self.execute(
            _BEGIN,
            {
                "op_id": op_id,
                "actor": who.actor,
                "reason": reason,
                "session_id": who.session_id,
                "run_id": run_id,
                "meta": Jsonb(dict(meta or {})),
                "lock": self.lock,
                "head": self.head,
            },
        )
        return op_id

    def _values(self, statement: Numbered, values: Mapping[str, Any]) -> list[Any]:
        named = {"agent_id": self.identity.agent_id, "scope_keys": list(self.scope_keys), **values}
        return [named[name] for name in statement.names]


async def _all(cursor: AsyncCursor[Row]) -> list[Row]:
    """All rows; where they are many, the loop's other work gets its turn in between."""
    found = await cursor.fetchmany(_ROWS_AT_ONCE)
    while len(found) < cursor.rowcount:
        await asyncio.sleep(0)
        found += await cursor.fetchmany(_ROWS_AT_ONCE)
    return found
