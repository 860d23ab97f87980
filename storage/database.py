"""`scoped()` and its like, the only ways to a connection. No model is called while one is held."""

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager, nullcontext
from typing import Final, LiteralString, TypeVar

from psycopg import AsyncConnection, AsyncCursor
from psycopg.rows import DictRow, dict_row
from psycopg.sql import SQL
from psycopg_pool import PoolTimeout

from mnemic.state.errors import DatabaseUnavailableError, MnemicError
from mnemic.state.identity import Identity
from mnemic.state.settings import Settings
from mnemic.storage.pool import Pool
from mnemic.storage.transaction import ScopedTransaction, array_text

Result = TypeVar("Result")

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
_AGENT: LiteralString = _LIMITS + " set local mnemic.agent_id = %(agent_id)s; set local timezone = 'UTC'"
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
_CATALOG: LiteralString = _LIMITS + " set local transaction_read_only = on"


class Database:
    """A pool of connections of the service's own role.

    Args:
        dsn: of that role.
        settings: its limits.
        revive: sees to it that a server of our own runs; called in a thread before each connection is made.
    """

    def __init__(self, dsn: str, settings: Settings, *, revive: Callable[[], None] | None = None) -> None:
        self._pool = Pool(dsn, settings, revive=revive)
        #: The pool itself, for a library that insists on one; what it does with it goes through `threads`.
        self.pool = self._pool.connections
        self.dsn = dsn
        self.settings = settings
        # the limits stand in the statement: as values they would cost a turn's checkpoints a hundredth
        limits = self._pool.limits(settings.statement_timeout_seconds)
        self._threads = SQL(_THREADS).format(**limits).as_string()
        #: The event loop that its connections belong to; None: not opened yet.
        self.loop: asyncio.AbstractEventLoop | None = None

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

    async def close(self) -> None:
        """Gives the connections back."""
        await self.pool.close()

    @asynccontextmanager
    async def scoped(
        self,
        identity: Identity,
        *,
        also: Iterable[str] = (),
        only: str | None = None,
        categories: Sequence[str] | None = None,
        for_recall: bool = False,
        administers: bool = False,
    ) -> AsyncIterator[ScopedTransaction]:
        """A transaction in which only the identity's scope keys exist; commits at the end, rolls back on an error.

        Args:
            also: further scope keys, for a formation: those of the session's other speakers.
            only: the one scope key that exists in it, for a refinement; None: all of them.
            categories: the only ones of which memories exist in it, for whoever has an allowlist; None: all.
            for_recall: somebody waits for the answer: two seconds for a connection and for each statement, by default,
                behind the recalls that came before.
            administers: one of the administrators' role on the whole agent, whose contents it has no right to.

        Raises:
            DatabaseUnavailableError: the database cannot be reached, cut the connection, or took too long.
            BusyError: too many recalls came before this one.
            ConcurrentChangeError: Postgres gave up this transaction in favour of another; see `write`.
            InvalidInputError: a value that cannot be stored.
            RefusedError: a guard or a missing right stands against a change.
            MnemicError: the database failed otherwise.
        """
        keys = (only,) if only else tuple(dict.fromkeys([*identity.scope_keys, *also]))
        if administers:
            keys = ()
        patience = self.settings.recall_timeout_seconds if for_recall else self.settings.statement_timeout_seconds
        limits = self._pool.limits(patience)
        allowed = "" if categories is None else array_text(tuple(categories))
        scope = {"agent_id": identity.agent_id, "scope_keys": array_text(keys), "categories": allowed}
        queued = self._pool.recalls.turn() if for_recall else nullcontext()
        begin = _AGENT if administers else _SCOPE
        async with queued, self._pool.transaction(patience, begin, {**limits, **scope}) as connection:
            yield ScopedTransaction(connection, identity, keys, limits["lock"], limits["head"])

    async def write(
        self,
        identity: Identity,
        act: Callable[[ScopedTransaction], Awaitable[Result]],
        *,
        also: Iterable[str] = (),
        only: str | None = None,
        categories: Sequence[str] | None = None,
        administers: bool = False,
    ) -> Result:
        """What `act` returns, once its transaction is committed.

        After a deadlock, a serialization failure, or a lock that could not be had in time, nothing was written, and it
        is done again up to three times, after a short pause that holds no connection.

        Args:
            act: reads and writes through its `ScopedTransaction` and does nothing else, for it may run more than once.
            also: as for `scoped`.
            only: as for `scoped`.
            categories: as for `scoped`.
            administers: as for `scoped`.

        Raises:
            MnemicError: as `scoped` does.
        """
        keys, tried = tuple(also), 0
        while True:
            try:
                async with self.scoped(
                    identity, also=keys, only=only, categories=categories, administers=administers
                ) as scoped:
                    return await act(scoped)
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
            MnemicError: as `scoped` does.
        """
        patience = self.settings.statement_timeout_seconds
        if at_once:
            values = {**self._pool.limits(patience), "threads": prefix}
            async with self._pool.transaction(patience, _THREADS_AT_ONCE, values) as connection:
                yield connection.cursor(binary=True, row_factory=dict_row)
            return
        # up to its end a pipeline is one transaction, which costs no exchange for its BEGIN and COMMIT
        async with self._pool.connected(patience) as connection, connection.pipeline():
            cursor = connection.cursor(binary=True, row_factory=dict_row)
            await cursor.execute(self._threads, [prefix])
            yield cursor

    @asynccontextmanager
    async def catalog(self) -> AsyncIterator[AsyncConnection]:
        """A read-only transaction without a scope, for questions about the database itself.

        The set-up has to be checked before anybody's scope is trusted. Without a scope the policies show no row of any
        agent, so what is left to read are Postgres' catalogs and the record of migrations.

        Raises:
            DatabaseUnavailableError: the database cannot be reached, cut the connection, or took too long.
            MnemicError: as `scoped` does.
        """
        patience = self.settings.statement_timeout_seconds
        async with self._pool.transaction(patience, _CATALOG, self._pool.limits(patience)) as connection:
            yield connection
