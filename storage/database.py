"""The only access to connections: transactions of one identity, of threads and of the catalogs.

No model is called while a connection is held.
"""

import asyncio
import math
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, nullcontext
from functools import partial
from time import monotonic
from typing import Any, Final, LiteralString, TypedDict, TypeVar, Unpack

from psycopg import AsyncClientCursor, AsyncConnection, AsyncCursor, Error
from psycopg.rows import DictRow, class_row, dict_row
from psycopg.sql import SQL, Composed
from psycopg_pool import AsyncConnectionPool, PoolTimeout

from mnemic.state.errors import DatabaseUnavailableError, MnemicError
from mnemic.state.identity import Identity
from mnemic.state.settings import Settings
from mnemic.state.worker_threads import in_thread
from mnemic.storage.connection import RecallQueue, TimeoutConnection, configure, connection_options
from mnemic.storage.failures import typed_error
from mnemic.storage.home_loop import HomeLoop
from mnemic.storage.transaction import Row, ScopedTransaction, array_text

Result = TypeVar("Result")

#: Longest pause between two statements of a transaction. Transactions wait for no model and take milliseconds: a longer
#: pause means a frozen process or a cut network, which must not keep the lock on an agent's head.
IDLE_SECONDS: Final = 5.0
#: The same limit for a read-only transaction on catalogs: it keeps no lock that other transactions need, and a busy
#: machine may suspend the process for seconds.
CATALOG_IDLE_SECONDS: Final = 60.0
#: Longest wait for an agent's head, longer than IDLE_SECONDS of a frozen process: a save that gives up earlier loses
#: paid answers of models.
HEAD_SECONDS: Final = 10.0
#: Maximum number of repetitions of a write that Postgres rolled back, and the longest pause before the first one, in
#: seconds.
RETRIES: Final = 3
PAUSE_SECONDS: Final = 0.05
#: Serialization failure, deadlock, lock timeout: the whole transaction is rolled back and may be repeated.
_RETRIED: Final = ("40001", "40P01", "55P03")

#: Sent in one message with BEGIN, since a round trip costs as much as a small statement. The settings end with the
#: transaction, so they also work behind a pooler.
_LIMITS: LiteralString = (
    " set local statement_timeout = %(statement)s; set local lock_timeout = %(lock)s;"
    " set local idle_in_transaction_session_timeout = %(idle)s;"
)
_SCOPE: LiteralString = (
    "begin;" + _LIMITS + " set local mnemic.agent_id = %(agent_id)s; set local mnemic.scope_keys = %(scope_keys)s;"
    " set local mnemic.categories = %(categories)s;"
    " set local timezone = 'UTC';"  # the date of a memory must not depend on the machine
    # plans do not depend on the values, and planning a search for its values takes as long as running it
    " set local plan_cache_mode = force_generic_plan"
)
#: Selects the id under which a session is stored for its user.
_STORED_SESSION: LiteralString = "; select mnemic.stored_session(%(agent_id)s, %(session_id)s, %(user_id)s)"
_STORED_KEYS: LiteralString = "set local mnemic.scope_keys = %(scope_keys)s"
#: The settings of a transaction on threads, without a BEGIN: a pipeline is one transaction. They are one column, since
#: the driver reads each column. The library's statements are planned once: their plans do not depend on the values.
_PIPELINED: LiteralString = (
    " || set_config('statement_timeout', {statement}, true) || set_config('lock_timeout', {lock}, true)"
    " || set_config('idle_in_transaction_session_timeout', {idle}, true)"
    " || set_config('plan_cache_mode', 'force_generic_plan', true))"
)
_THREADS: LiteralString = "select length(set_config('mnemic.threads', %s, true)" + _PIPELINED
#: The same for a transaction on an agent's rows.
_AGENT: LiteralString = (
    "select length(set_config('mnemic.agent_id', %s, true) || set_config('mnemic.scope_keys', %s, true)"
    " || set_config('mnemic.categories', '', true) || set_config('timezone', 'UTC', true)" + _PIPELINED
)
_THREADS_SNAPSHOT: LiteralString = (
    "begin isolation level repeatable read;" + _LIMITS + " set local mnemic.threads = %(threads)s"
)
_CATALOG: LiteralString = "begin isolation level repeatable read read only;" + _LIMITS


class TransactionScope(TypedDict, total=False):
    """Visible rows of a transaction, if they are not those of the identity's scope keys in every category."""

    #: Further scope keys: of the session's other speakers for a formation, of the users concerned for an administrator.
    also: Sequence[str]
    #: The only visible scope key, for a refinement; None: all.
    only: str | None
    #: The only visible categories of memories, for a reader with an allowlist; None: all.
    categories: Sequence[str] | None
    #: Whether the role of the administrators acts on the whole agent; it has no right to contents.
    administers: bool


class Database:
    """A pool of connections of the service's role.

    Args:
        dsn: DSN of the service role.
        settings: size of the pool and time limits.
        revive: starts the embedded server if it has ended; called in a thread before each connection is made.
    """

    def __init__(self, dsn: str, settings: Settings, *, revive: Callable[[], None] | None = None) -> None:
        async def running_dsn() -> str:
            if revive:
                await in_thread(revive)
            return dsn

        #: Returns the DSN once the server runs, for other pools.
        self.running_dsn = running_dsn
        #: The pool, for a library that needs one; its statements go through `thread_transaction`.
        self.pool: AsyncConnectionPool[Any] = AsyncConnectionPool(
            running_dsn,
            connection_class=TimeoutConnection,
            kwargs=connection_options(dsn),
            min_size=1,
            max_size=settings.pool_size,
            timeout=settings.pool_timeout_seconds,
            # The default lets the pauses between attempts grow for five minutes, past the end of an outage. A pool that
            # has given up tries again at the next request.
            reconnect_timeout=settings.pool_timeout_seconds,
            configure=partial(configure, settings.pooler),
            check=self._check_idle,
            open=False,
            name="mnemic",
        )
        self.dsn = dsn
        self.settings = settings
        #: Limits recalls to half of the pool; the other half is for writes.
        self._recalls = RecallQueue(max(1, settings.pool_size // 2), settings.pool_timeout_seconds)
        # the limits are part of the statement: as values they would slow a turn's checkpoints by a hundredth
        limits = self._limits(settings.statement_timeout_seconds)
        self._threads = SQL(_THREADS).format(**limits).as_string()
        self._agent = SQL(_AGENT).format(**limits).as_string()
        #: The event loop of the connections.
        self.home = HomeLoop()

    async def open(self) -> None:
        """Connect.

        Raises:
            DatabaseUnavailableError: if there is no connection within the time limit of the pool.
        """
        try:
            await self.pool.open(wait=True, timeout=self.settings.pool_timeout_seconds)
        except PoolTimeout:
            await self.pool.close()
            raise DatabaseUnavailableError(
                "no connection to the database: check MNEMIC_DATABASE_URL, and that `mnemic db migrate` has run"
            ) from None

    def pool_figures(self) -> dict[str, int]:
        """Return the numbers of connections, of free connections, and of requests that wait for one."""
        figures = self.pool.get_stats()
        return {
            "size": figures.get("pool_size", 0),
            "available": figures.get("pool_available", 0),
            "waiting": figures.get("requests_waiting", 0),
        }

    async def close(self) -> None:
        """Close the connections; in a fork they belong to its parent and stay open."""
        self.home.close()
        if self.home.is_own_process:
            await self.pool.close()

    @asynccontextmanager
    async def transaction(
        self, identity: Identity, *, for_recall: bool = False, **scope: Unpack[TransactionScope]
    ) -> AsyncIterator[ScopedTransaction]:
        """Open a transaction that sees only the identity's scope keys; commit at the end, roll back on an error.

        If another user has taken the session id, the session is stored under an id made of the session and the user.
        Otherwise two users whose host reuses an id would share one session's memories.

        Args:
            identity: the agent, its user, groups and session.
            for_recall: limit the wait for a connection and the duration of each statement to the time limit of a
                recall, by default two seconds, and queue behind earlier recalls.
            scope: further visible rows, or the only ones.

        Raises:
            DatabaseUnavailableError: if the database cannot be reached, cut the connection, or took too long.
            BusyError: if too many recalls came before this one.
            ConcurrentChangeError: if Postgres rolled back this transaction in favour of another one; see `write`.
            InvalidInputError: if a value cannot be stored.
            RefusedError: if a guard or a missing right forbids a change.
            ClosedError: if this database is closed.
            ForkedProcessError, OtherLoopError: if another process, or another event loop, opened it.
            MnemicError: if the database failed otherwise.
        """
        self.home.require()
        keys = _visible_keys(identity, scope)
        statement_seconds = self.settings.statement_timeout_seconds
        queued: AbstractAsyncContextManager[None] = nullcontext()
        if for_recall:
            statement_seconds = self.settings.recall_timeout_seconds
            queued = self._recalls.turn()
        categories = scope.get("categories")
        values = {
            "agent_id": identity.agent_id,
            "scope_keys": array_text(keys),
            "categories": "" if categories is None else array_text(tuple(categories)),
        }
        opening_sql = _SCOPE
        if identity.session_id and identity.user_id and not scope.get("administers"):
            opening_sql += _STORED_SESSION
            values |= {"session_id": identity.session_id, "user_id": identity.user_id}
        async with queued, self._open_transaction(statement_seconds, opening_sql, **values) as (connection, results):
            stored_session_id = results[0] if results else identity.session_id
            limits = self._limits(statement_seconds)
            tx = ScopedTransaction(connection, identity, keys, stored_session_id, limits["lock"], limits["head"])
            if stored_session_id != identity.session_id:
                stored_keys = array_text(tuple(map(tx.stored_key, keys)))
                await AsyncClientCursor(connection).execute(_STORED_KEYS, {"scope_keys": stored_keys})
            yield tx

    async def write(
        self,
        identity: Identity,
        run: Callable[[ScopedTransaction], Awaitable[Result]],
        **scope: Unpack[TransactionScope],
    ) -> Result:
        """Run a function in a transaction and return its result after the commit.

        Repeat the transaction up to three times after a deadlock, a serialization failure or a lock timeout, which have
        written nothing. The short pause before a repetition holds no connection.

        Args:
            identity: as for `transaction`.
            run: reads and writes through its `ScopedTransaction`; it has no other effect, since it may run repeatedly.
            scope: as for `transaction`.

        Raises:
            MnemicError: as `transaction` does.
        """
        return await self._write(partial(self.transaction, identity, **scope), run)

    async def write_agent_row(self, agent_id: str, run: Callable[[ScopedTransaction], Awaitable[None]]) -> None:
        """Run a function as `write` does, on the agent's own rows, and with one round trip in all.

        Args:
            agent_id: the agent.
            run: executes one statement and reads no rows; the statement runs as the transaction ends.

        Raises:
            MnemicError: as `transaction` does.
        """
        await self._write(partial(self._agent_transaction, Identity(agent_id=agent_id)), run)

    async def _write(
        self,
        transaction: Callable[[], AbstractAsyncContextManager[ScopedTransaction]],
        run: Callable[[ScopedTransaction], Awaitable[Result]],
    ) -> Result:
        attempt = 0
        while True:
            try:
                async with transaction() as tx:
                    return await run(tx)
            except MnemicError as error:
                if error.sqlstate not in _RETRIED or attempt == RETRIES:
                    raise
            await asyncio.sleep(random.uniform(0, PAUSE_SECONDS * 2**attempt))  # noqa: S311 - no secret
            attempt += 1

    @asynccontextmanager
    async def _agent_transaction(self, identity: Identity) -> AsyncIterator[ScopedTransaction]:
        limits = self._limits(self.settings.statement_timeout_seconds)
        async with self._pipelined(self._agent, [identity.agent_id, array_text(identity.scope_keys)]) as cursor:
            yield ScopedTransaction(
                cursor.connection, identity, identity.scope_keys, None, limits["lock"], limits["head"]
            )

    @asynccontextmanager
    async def thread_transaction(
        self, prefix: str, *, is_snapshot: bool = False
    ) -> AsyncIterator[AsyncCursor[DictRow]]:
        """Open a transaction that sees only the threads of one owner, and yield a cursor.

        Args:
            prefix: prefix of the thread ids.
            is_snapshot: let all statements read one snapshot, and allow savepoints.

        Raises:
            MnemicError: as `transaction` does.
        """
        statement_seconds = self.settings.statement_timeout_seconds
        if is_snapshot:
            async with self._open_transaction(statement_seconds, _THREADS_SNAPSHOT, threads=prefix) as (connection, _):
                yield connection.cursor(binary=True, row_factory=dict_row)
            return
        async with self._pipelined(self._threads, [prefix]) as cursor:
            yield cursor

    @asynccontextmanager
    async def _pipelined(self, opening_sql: str, values: Sequence[str]) -> AsyncIterator[AsyncCursor[DictRow]]:
        """Open a transaction as a pipeline, which needs no round trips for BEGIN and COMMIT."""
        async with (
            self._connected(self.settings.statement_timeout_seconds) as connection,
            connection.pipeline(),
        ):
            cursor = connection.cursor(binary=True, row_factory=dict_row)
            await cursor.execute(opening_sql, values)
            yield cursor

    @asynccontextmanager
    async def catalog(self) -> AsyncIterator[AsyncConnection]:
        """Open a read-only transaction on one snapshot, without a scope, for queries about the database itself.

        It is used by the doctor and for lists of agents, before an identity exists. Without a scope the policies hide
        the rows of every agent; Postgres' catalogs and the record of migrations remain.

        Raises:
            DatabaseUnavailableError: if the database cannot be reached, cut the connection, or took too long.
            MnemicError: as `transaction` does.
        """
        statement_seconds = self.settings.statement_timeout_seconds
        idle = _milliseconds(CATALOG_IDLE_SECONDS)
        async with self._open_transaction(statement_seconds, _CATALOG, idle=idle) as (connection, _):
            yield connection

    async def catalog_rows(
        self, record: type[Row], statement: LiteralString | Composed, values: Mapping[str, object]
    ) -> list[Row]:
        """Return the rows of one statement in a transaction of `catalog`, as records with its column names as fields.

        Raises:
            MnemicError: as `catalog` does.
        """
        async with self.catalog() as connection:
            cursor = connection.cursor(row_factory=class_row(record))
            return await (await cursor.execute(statement, values)).fetchall()

    @asynccontextmanager
    async def _open_transaction(
        self, statement_seconds: float, opening_sql: LiteralString, **values: str
    ) -> AsyncIterator[tuple[AsyncConnection, list[str]]]:
        """Open a transaction; commit at the end, while after an error the pool rolls back.

        Args:
            statement_seconds: time limit of a statement.
            opening_sql: the first statements, which begin the transaction.
            values: values of their placeholders.

        Yields:
            The connection, and the values that the last of the first statements returned.
        """
        async with self._connected(statement_seconds) as connection:
            all_values = {**self._limits(statement_seconds), **values}
            cursor = await AsyncClientCursor(connection).execute(opening_sql, all_values)
            while cursor.nextset():
                pass
            results: list[str] = []
            if cursor.description:
                for (value,) in await cursor.fetchall():
                    results.append(value)
            yield connection, results
            await connection.commit()

    @asynccontextmanager
    async def _connected(self, statement_seconds: float) -> AsyncIterator[TimeoutConnection]:
        """Borrow a connection with a time limit for each statement; raise the driver's errors as the project's own."""
        self.home.require()
        try:
            async with AsyncExitStack() as borrowed:
                connection = await self._borrow(borrowed, statement_seconds)
                with connection.within(statement_seconds):
                    yield connection
            self._recalls.served_at = monotonic()
        except (Error, UnicodeEncodeError) as error:
            raise typed_error(error) from None

    async def _borrow(self, borrowed: AsyncExitStack, seconds: float) -> TimeoutConnection:
        """Return a connection within `seconds`, or later if the database serves other requests meanwhile."""
        max_seconds = self.settings.pool_timeout_seconds
        deadline = monotonic() + max_seconds
        while True:
            started_at = monotonic()
            try:
                return await borrowed.enter_async_context(self.pool.connection(min(seconds, max_seconds)))
            except PoolTimeout:
                if monotonic() >= deadline or not self._recalls.has_served_since(started_at):
                    raise

    async def _check_idle(self, connection: TimeoutConnection) -> None:
        """Remove the idle connections that the server has closed, if the server has closed this connection.

        After a restart of the server each of them would fail one transaction, and a failed run would lose its lease.
        """
        if connection.has_unread:
            # check all at once: the pool pauses longer after each dead connection
            await self.pool.check()
            await AsyncConnectionPool.check_connection(connection)

    def _limits(self, statement_seconds: float) -> dict[str, str]:
        """Return the time limits of a transaction as values of its first statements."""
        lock_seconds = self.settings.lock_timeout_seconds
        return {
            "statement": _milliseconds(statement_seconds),
            "lock": _milliseconds(lock_seconds),
            "head": _milliseconds(max(lock_seconds, HEAD_SECONDS)),
            "idle": _milliseconds(IDLE_SECONDS),
        }


def _visible_keys(identity: Identity, scope: TransactionScope) -> tuple[str, ...]:
    """Return the scope keys that a transaction sees, each once."""
    also = scope.get("also", ())
    only = scope.get("only")
    if scope.get("administers"):
        return tuple(also)
    if only:
        return (only,)
    return tuple(dict.fromkeys([*identity.scope_keys, *also]))


def _milliseconds(seconds: float) -> str:
    """Return a time limit in the notation of Postgres, rounded up, since zero means no limit."""
    return f"{math.ceil(seconds * 1000)}ms"
