"""The pool and `scoped()`, the only way to a connection. No model is called while one is held."""

from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any, LiteralString, TypeVar
from uuid import UUID, uuid4

from pgvector.psycopg import register_vector_async
from psycopg import AsyncConnection, AsyncCursor, OperationalError, ProgrammingError
from psycopg.errors import DeadlockDetected, SerializationFailure
from psycopg.rows import class_row, tuple_row
from psycopg.types.json import Jsonb
from psycopg_pool import AsyncConnectionPool, PoolTimeout

from mnemic.state.errors import ConcurrentChangeError, DatabaseUnavailableError
from mnemic.state.identity import Identity
from mnemic.state.settings import Settings

Row = TypeVar("Row")

_SCOPE: LiteralString = (
    "select set_config('mnemic.agent_id', %(agent_id)s, true),"
    " set_config('mnemic.scope_keys', %(scope_keys)s::text[]::text, true),"
    " set_config('timezone', 'UTC', true)"  # the day a message is shown with must not depend on the machine
)
_BEGIN: LiteralString = (
    "select begin_operation(%(op_id)s, %(actor)s, %(actor_kind)s, %(reason)s, %(session_id)s, %(run_id)s, %(meta)s)"
)


@dataclass(frozen=True)
class Scoped:
    """One open transaction that sees the scope keys of one identity and nothing else."""

    connection: AsyncConnection
    identity: Identity
    #: Every scope key the transaction may touch; statements name them too.
    scope_keys: tuple[str, ...]

    async def execute(self, statement: LiteralString, values: Mapping[str, Any]) -> AsyncCursor[tuple[Any, ...]]:
        """Runs one statement; `agent_id` and `scope_keys` are always among its values."""
        cursor = self.connection.cursor(row_factory=tuple_row)
        return await cursor.execute(statement, self._values(values))

    async def rows(self, record: type[Row], statement: LiteralString, values: Mapping[str, Any]) -> list[Row]:
        """The rows of one statement as records, or as dicts; its column names are the fields."""
        cursor = self.connection.cursor(row_factory=class_row(record))
        await cursor.execute(statement, self._values(values), binary=True)
        return await cursor.fetchall()

    async def begin_operation(
        self, reason: str, *, run_id: str | None = None, meta: Mapping[str, Any] | None = None
    ) -> UUID:
        """Opens an operation: locks the agent's head first, then sets what the audit triggers record.

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
                "actor_kind": "agent",
                "reason": reason,
                "session_id": who.session_id,
                "run_id": run_id,
                "meta": Jsonb(dict(meta or {})),
            },
        )
        return op_id

    def _values(self, values: Mapping[str, Any]) -> dict[str, Any]:
        return {"agent_id": self.identity.agent_id, "scope_keys": list(self.scope_keys), **values}


class Database:
    """A pool of connections of the service's own role."""

    def __init__(self, dsn: str, settings: Settings) -> None:
        self._pool = AsyncConnectionPool(
            dsn,
            kwargs={"client_encoding": "UTF8"},  # an SQL_ASCII database would answer in bytes, even the doctor
            min_size=1,
            max_size=settings.pool_size,
            timeout=settings.pool_timeout_seconds,
            configure=_configure,
            open=False,
            name="mnemic",
        )
        self._timeout = settings.pool_timeout_seconds

    async def open(self) -> None:
        """Connects.

        Raises:
            DatabaseUnavailableError: no connection within the pool's time limit.
        """
        try:
            await self._pool.open(wait=True, timeout=self._timeout)
        except PoolTimeout as error:
            await self._pool.close()
            raise DatabaseUnavailableError(
                "no connection to the database: check MNEMIC_DATABASE_URL, and that `mnemic db migrate` has run"
            ) from error

    async def close(self) -> None:
        """Gives the connections back."""
        await self._pool.close()

    @asynccontextmanager
    async def scoped(self, identity: Identity, *, also: Iterable[str] = ()) -> AsyncIterator[Scoped]:
        """A transaction in which only the identity's scope keys exist; commits at the end, rolls back on an error.

        Args:
            also: further scope keys, for a formation: those of the session's other speakers.

        Raises:
            DatabaseUnavailableError: the database cannot be reached or cut the connection.
            ConcurrentChangeError: Postgres gave up this transaction in favour of another.
        """
        keys = tuple(dict.fromkeys([*identity.scope_keys, *also]))
        async with self._transaction() as connection:
            await connection.execute(_SCOPE, {"agent_id": identity.agent_id, "scope_keys": list(keys)})
            yield Scoped(connection, identity, keys)

    @asynccontextmanager
    async def catalog(self) -> AsyncIterator[AsyncConnection]:
        """A read-only transaction without a scope, for questions about the database itself.

        The set-up has to be checked before anybody's scope is trusted. Without a scope the policies show no row of any
        agent, so what is left to read are Postgres' catalogs and the record of migrations.

        Raises:
            DatabaseUnavailableError: the database cannot be reached or cut the connection.
        """
        async with self._transaction() as connection:
            await connection.execute("set transaction read only")
            yield connection

    @asynccontextmanager
    async def _transaction(self) -> AsyncIterator[AsyncConnection]:
        try:
            async with self._pool.connection() as connection, connection.transaction():
                yield connection
        except (DeadlockDetected, SerializationFailure) as error:
            raise ConcurrentChangeError from error
        except (OperationalError, PoolTimeout) as error:
            raise DatabaseUnavailableError from error


async def _configure(connection: AsyncConnection) -> None:
    await connection.set_autocommit(True)  # a transaction lasts exactly as long as scoped()
    with suppress(ProgrammingError):  # without pgvector the pool opens all the same, so that the doctor can say so
        await register_vector_async(connection)
