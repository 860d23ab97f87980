"""`transaction()` and its like, the only ways to a connection. No model is called while one is held."""

import asyncio
import math
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, nullcontext
from functools import partial
from time import monotonic
from typing import Any, Final, LiteralString, TypedDict, TypeVar, Unpack

from psycopg import AsyncClientCursor, AsyncConnection, AsyncCursor, Error
from psycopg.rows import DictRow, dict_row
from psycopg.sql import SQL
from psycopg_pool import AsyncConnectionPool, PoolTimeout

from mnemic.state.errors import DatabaseUnavailableError, MnemicError
from mnemic.state.identity import Identity
from mnemic.state.process import OwnProcess
from mnemic.state.settings import Settings
from mnemic.storage.connection import RecallQueue, TimeoutConnection, configure, connection_options
from mnemic.storage.failures import typed_error
from mnemic.storage.transaction import ScopedTransaction, array_text

Result = TypeVar("Result")

#: Our transactions wait for no model and last milliseconds: one that stands still for so long belongs to a frozen
#: process or a cut network, and must not keep an agent's head from everybody else.
IDLE_SECONDS: Final = 5.0
#: The same limit for a read-only transaction on catalogs: it keeps no lock that other transactions need, and a busy
#: machine may suspend the process for seconds.
CATALOG_IDLE_SECONDS: Final = 60.0
#: The wait for an agent's head, which such a process may keep for IDLE_SECONDS; a save that gave up before would throw
#: away what models were paid for.
HEAD_SECONDS: Final = 10.0
#: How often a write is done again when Postgres gave it up for another's sake, and the longest first pause before that.
RETRIES: Final = 3
PAUSE_SECONDS: Final = 0.05
#: Serialization failure, deadlock, a lock not had in time: the whole transaction is rolled back and may come again.
_RETRIED: Final = ("40001", "40P01", "55P03")

#: One message with BEGIN: an exchange costs as much as a small statement. They end with the transaction, so they hold
#: behind a pooler too.
_WITHIN: LiteralString = (
    " set local statement_timeout = %(statement)s; set local lock_timeout = %(lock)s;"
    " set local idle_in_transaction_session_timeout = %(idle)s;"
)
_LIMITS: LiteralString = "begin;" + _WITHIN
_SCOPE: LiteralString = (
    _LIMITS + " set local mnemic.agent_id = %(agent_id)s; set local mnemic.scope_keys = %(scope_keys)s;"
    " set local mnemic.categories = %(categories)s;"
    " set local timezone = 'UTC';"  # the day a message is shown with must not depend on the machine
    # the values decide nothing about the plan, and to plan a search for its values takes as long as to run it
    " set local plan_cache_mode = force_generic_plan"
)
#: The id under which a session is stored for its user.
_STORED_SESSION: LiteralString = "; select mnemic.stored_session(%(agent_id)s, %(session_id)s, %(user_id)s)"
_STORED_KEYS: LiteralString = "set local mnemic.scope_keys = %(scope_keys)s"
#: The same without a BEGIN, for the one transaction that a pipeline is; in one column, for each would be read. The
#: library's statements are planned once, since their values decide nothing.
_THREADS: LiteralString = (
    "select length(set_config('mnemic.threads', %s, true) || set_config('statement_timeout', {statement}, true)"
    " || set_config('lock_timeout', {lock}, true) || set_config('idle_in_transaction_session_timeout', {idle}, true)"
    " || set_config('plan_cache_mode', 'force_generic_plan', true))"
)
_THREADS_AT_ONCE: LiteralString = (
    "begin isolation level repeatable read;" + _WITHIN + " set local mnemic.threads = %(threads)s"
)
_CATALOG: LiteralString = "begin isolation level repeatable read read only;" + _WITHIN


class TransactionScope(TypedDict, total=False):
    """What exists in a transaction, where that is not the identity's scope keys with every category."""

    #: Further scope keys, for a formation: those of the session's other speakers; for an administrator those concerned.
    also: Sequence[str]
    #: The one scope key that exists in it, for a refinement; None: all of them.
    only: str | None
    #: The only ones of which memories exist in it, for whoever has an allowlist; None: all.
    categories: Sequence[str] | None
    #: One of the administrators' role on the whole agent, whose contents it has no right to.
    administers: bool


class Database:
    """A pool of connections of the service's own role.

    Args:
        dsn: of that role.
        settings: its limits.
        revive: sees to it that a server of our own runs; called in a thread before each connection is made.
    """

    def __init__(self, dsn: str, settings: Settings, *, revive: Callable[[], None] | None = None) -> None:
        async def revived() -> str:
            if revive:
                await asyncio.to_thread(revive)
            return dsn

        #: Returns the DSN once the server runs, for a pool beside this one.
        self.conninfo = revived
        #: For a library that insists on one; what it does with it goes through `threads`.
        self.pool: AsyncConnectionPool[Any] = AsyncConnectionPool(
            revived,
            connection_class=TimeoutConnection,
            kwargs=connection_options(dsn),
            min_size=1,
            max_size=settings.pool_size,
            timeout=settings.pool_timeout_seconds,
            # by default the pauses between two attempts grow for five minutes, past the end of an outage; a pool that
            # has given up tries again at once for the next who asks
            reconnect_timeout=settings.pool_timeout_seconds,
            configure=partial(configure, settings.pooler),
            check=self._still_there,
            open=False,
            name="mnemic",
        )
        self.dsn = dsn
        self.settings = settings
        #: Recalls wait here for their turn: the other half of the pool is for writes.
        self._recalls = RecallQueue(max(1, settings.pool_size // 2), settings.pool_timeout_seconds)
        # the limits stand in the statement: as values they would cost a turn's checkpoints a hundredth
        limits = self._limits(settings.statement_timeout_seconds)
        self._threads = SQL(_THREADS).format(**limits).as_string()
        #: The event loop that its connections belong to; None: not opened yet.
        self.loop: asyncio.AbstractEventLoop | None = None
        self._process = OwnProcess()

    async def open(self) -> None:
        """Connects.

        Raises:
            DatabaseUnavailableError: no connection within the pool's time limit.
        """
        self.loop = asyncio.get_running_loop()
        try:
            await self.pool.open(wait=True, timeout=self.settings.pool_timeout_seconds)
        except PoolTimeout:
            await self.pool.close()
            raise DatabaseUnavailableError(
                "no connection to the database: check MNEMIC_DATABASE_URL, and that `mnemic db migrate` has run"
            ) from None

    def pool_figures(self) -> dict[str, int]:
        """Return how many connections there are, how many are free, and how many requests wait for one."""
        figures = self.pool.get_stats()
        names = {"size": "pool_size", "available": "pool_available", "waiting": "requests_waiting"}
        return {name: figures.get(key, 0) for name, key in names.items()}

    async def close(self) -> None:
        """Give the connections back; in a fork they are its parent's and stay open."""
        if self._process.is_current:
            await self.pool.close()

    @asynccontextmanager
    async def transaction(
        self, identity: Identity, *, for_recall: bool = False, **within: Unpack[TransactionScope]
    ) -> AsyncIterator[ScopedTransaction]:
        """A transaction in which only the identity's scope keys exist; commits at the end, rolls back on an error.

        Args:
            for_recall: somebody waits for the answer: two seconds for a connection and for each statement, by default,
                behind the recalls that came before.
            within: what else exists in it, or what alone.

        Raises:
            DatabaseUnavailableError: the database cannot be reached, cut the connection, or took too long.
            BusyError: too many recalls came before this one.
            ConcurrentChangeError: Postgres gave up this transaction in favour of another; see `write`.
            InvalidInputError: a value that cannot be stored.
            RefusedError: a guard or a missing right stands against a change.
            ForkedProcessError: another process opened this database.
            MnemicError: the database failed otherwise.
        """
        self._process.require()
        administers, only, categories = within.get("administers"), within.get("only"), within.get("categories")
        all_keys = tuple(dict.fromkeys([*identity.scope_keys, *within.get("also", ())]))
        keys = tuple(within.get("also", ())) if administers else (only,) if only else all_keys
        patience = self.settings.recall_timeout_seconds if for_recall else self.settings.statement_timeout_seconds
        limits = self._limits(patience)
        allowed = "" if categories is None else array_text(tuple(categories))
        scope = {"agent_id": identity.agent_id, "scope_keys": array_text(keys), "categories": allowed}
        queued = self._recalls.turn() if for_recall else nullcontext()
        begin, answers = _SCOPE, list[str]()
        if identity.session_id and identity.user_id and not administers:
            begin += _STORED_SESSION
            scope |= {"session_id": identity.session_id, "user_id": identity.user_id}
        async with queued, self._open_transaction(patience, begin, answers, **scope) as connection:
            stored = answers[0] if answers else identity.session_id
            tx = ScopedTransaction(connection, identity, keys, stored, limits["lock"], limits["head"])
            if stored != identity.session_id:
                stored_keys = array_text(tuple(map(tx.stored_key, keys)))
                await AsyncClientCursor(connection).execute(_STORED_KEYS, {"scope_keys": stored_keys})
            yield tx

    async def write(
        self,
        identity: Identity,
        act: Callable[[ScopedTransaction], Awaitable[Result]],
        **within: Unpack[TransactionScope],
    ) -> Result:
        """What `act` returns, once its transaction is committed.

        After a deadlock, a serialization failure, or a lock that could not be had in time, nothing was written, and it
        is done again up to three times, after a short pause that holds no connection.

        Args:
            act: reads and writes through its `ScopedTransaction` and does nothing else, for it may run more than once.
            within: as for `tx`.

        Raises:
            MnemicError: as `tx` does.
        """
        tried = 0
        while True:
            try:
                async with self.transaction(identity, **within) as tx:
                    return await act(tx)
            except MnemicError as error:
                if error.sqlstate not in _RETRIED or tried == RETRIES:
                    raise
            await asyncio.sleep(random.uniform(0, PAUSE_SECONDS * 2**tried))  # noqa: S311 - no secret
            tried += 1

    @asynccontextmanager
    async def threads(self, prefix: str, *, at_once: bool = False) -> AsyncIterator[AsyncCursor[DictRow]]:
        """A cursor of a transaction in which the threads of one owner exist and nothing else.

        Args:
            prefix: how the ids of these threads begin.
            at_once: all statements see the same moment; for whoever opens transactions in it, which are savepoints.

        Raises:
            MnemicError: as `tx` does.
        """
        patience = self.settings.statement_timeout_seconds
        if at_once:
            async with self._open_transaction(patience, _THREADS_AT_ONCE, threads=prefix) as connection:
                yield connection.cursor(binary=True, row_factory=dict_row)
            return
        # up to its end a pipeline is one transaction, which costs no exchange for its BEGIN and COMMIT
        async with self._connected(patience) as connection, connection.pipeline():
            cursor = connection.cursor(binary=True, row_factory=dict_row)
            await cursor.execute(self._threads, [prefix])
            yield cursor

    def catalog(self) -> AbstractAsyncContextManager[AsyncConnection]:
        """A read-only transaction of one moment and without a scope, for questions about the database itself.

        The set-up has to be checked before anybody's scope is trusted. Without a scope the policies show no row of any
        agent, so what is left to read are Postgres' catalogs and the record of migrations.

        Raises:
            DatabaseUnavailableError: the database cannot be reached, cut the connection, or took too long.
            MnemicError: as `tx` does.
        """
        patience = self.settings.statement_timeout_seconds
        return self._open_transaction(patience, _CATALOG, idle=_milliseconds(CATALOG_IDLE_SECONDS))

    @asynccontextmanager
    async def _open_transaction(
        self, patience: float, begin: LiteralString, answers: list[str] | None = None, **values: str
    ) -> AsyncIterator[AsyncConnection]:
        """Commit at the end; after an error the pool rolls back.

        Args:
            patience: seconds that a statement may take.
            begin: the first statements.
            answers: receives the values that the last of these statements returns.
            values: of these statements.
        """
        async with self._connected(patience) as connection:
            cursor = await AsyncClientCursor(connection).execute(begin, {**self._limits(patience), **values})
            while cursor.nextset():
                pass
            if answers is not None and cursor.description:
                answers += [value for (value,) in await cursor.fetchall()]
            yield connection
            await connection.commit()

    @asynccontextmanager
    async def _connected(self, patience: float) -> AsyncIterator[TimeoutConnection]:
        """A connection whose statements take so many seconds at most; its errors are typed."""
        self._process.require()
        try:
            async with AsyncExitStack() as borrowed:
                connection = await self._borrow(borrowed, patience)
                with connection.within(patience):
                    yield connection
            self._recalls.served_at = monotonic()
        except (Error, UnicodeEncodeError) as error:
            raise typed_error(error) from None

    async def _borrow(self, borrowed: AsyncExitStack, patience: float) -> TimeoutConnection:
        """A connection, waited for longer than patience where others are served meanwhile: the database is not away."""
        longest = self.settings.pool_timeout_seconds
        last = monotonic() + longest
        while True:
            asked_at = monotonic()
            try:
                return await borrowed.enter_async_context(self.pool.connection(min(patience, longest)))
            except PoolTimeout:
                if monotonic() >= last or not self._recalls.has_served_since(asked_at):
                    raise

    async def _still_there(self, connection: TimeoutConnection) -> None:
        """Keeps connections that the server has ended from the next transaction; asks only where a goodbye can be read.

        Each idle connection of a restarted server would cost somebody an error otherwise, and a failed run its lease.
        """
        if connection.has_unread:
            # the others at once, for the pool pauses longer after each that it finds dead
            await self.pool.check()
            await AsyncConnectionPool.check_connection(connection)

    def _limits(self, patience: float) -> dict[str, str]:
        """The time limits of a transaction, as its first statements set them."""
        lock = self.settings.lock_timeout_seconds
        limits = {"statement": patience, "lock": lock, "head": max(lock, HEAD_SECONDS), "idle": IDLE_SECONDS}
        return {name: _milliseconds(seconds) for name, seconds in limits.items()}


def _milliseconds(seconds: float) -> str:
    """Return a time limit as Postgres reads it, rounded up, since zero would be no limit."""
    return f"{math.ceil(seconds * 1000)}ms"
