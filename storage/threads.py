"""Checkpoints of agents' threads: LangGraph's own Postgres checkpointer over the service's pool, one owner at a time.

The library's statements run as they are. What is added is whose threads exist for them, by row-level security; a
trigger keeps one row for each thread in `supervisor_checkpoints`, in the transaction of its checkpoint.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from contextvars import ContextVar
from typing import Any, Final, NamedTuple, Self

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    WRITES_IDX_MAP,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    DeltaChannelHistory,
)
from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from psycopg import AsyncCursor
from psycopg.rows import DictRow
from psycopg.types.json import Jsonb

from mnemic.state.errors import MissingIdentityError, RefusedIdentityError
from mnemic.state.identity import Identity, to_identity
from mnemic.state.supervisor import ThreadStatus
from mnemic.storage.database import Database
from mnemic.storage.transaction import load_statements

_SQL = load_statements("threads")
#: Where LangGraph puts the runtime of a run, with its context, for whoever is given the run's config.
RUNTIME: Final = "__pregel_runtime"


class ThreadOwner(NamedTuple):
    """Whose threads they are: an agent's with one user, or with nobody in particular."""

    agent_id: str
    #: Empty for nobody.
    user_id: str = ""

    @classmethod
    def of(cls, who: Identity) -> Self:
        """Whose the identity's threads are: its agent's with its user, or with nobody in particular."""
        return cls(who.agent_id, who.user_id or "")

    @property
    def prefix(self) -> str:
        """How the ids of these threads begin in the saver's tables."""
        return "".join(f"{part.replace('%', '%25').replace('/', '%2F')}/" for part in self)


def owner_of_run(config: RunnableConfig | None, *, only: ThreadOwner | None = None) -> ThreadOwner:
    """Whose thread a run is about: as its config says, else its context.

    Args:
        config: of the run.
        only: whose threads a checkpointer keeps, whatever the run; one for somebody else would read the thread.

    Raises:
        MissingIdentityError: neither says so.
        RefusedIdentityError: they name different people, or another one than `only`.
        InvalidInputError: an id in it cannot be used.
    """
    configurable: Mapping[str, Any] = (config or {}).get("configurable", {})
    context = getattr(configurable.get(RUNTIME), "context", None)
    named = set[ThreadOwner]()
    with suppress(MissingIdentityError):  # a host's own context may name nobody
        named.add(ThreadOwner.of(to_identity(context)))
    if configurable.get("agent_id") is not None:
        named.add(ThreadOwner.of(Identity(agent_id=configurable["agent_id"], user_id=configurable.get("user_id"))))
    if only is not None and named - {only}:
        raise RefusedIdentityError("the run is not for whom this checkpointer is: compile with memory.checkpointer()")
    if only is not None:
        return only
    if not named:
        raise MissingIdentityError(
            "nobody's thread: run the graph with memory.thread(identity) as its config, or with context=identity, or"
            " compile it with memory.checkpointer(identity)"
        )
    if len(named) > 1:
        raise RefusedIdentityError("configurable: agent_id and user_id are not those of the run's context")
    return named.pop()


#: What the saver's call in this context is about, for the library passes it on to no method of its own:
#: how the ids of the threads begin, and whether its statements have to see one moment.
_CALL: Final[ContextVar[tuple[str, bool]]] = ContextVar("mnemic_threads")


class ThreadSaver(AsyncPostgresSaver):
    """A checkpointer for agents of many users; any number of calls go on side by side, each on a connection of its own.

    Threads of others are not there: they are neither found nor listed, and to delete or prune them does nothing. A type
    that was not allowed comes back as plain data, so that no checkpoint makes objects that its reader did not ask for.
    Beside what LangGraph's checkpointers raise, every call raises `MissingIdentityError` where nobody's thread is asked
    for, and the errors of `Database.transaction`.

    Args:
        database: whose pool it works over.
        owner: whose threads it keeps; None: those of whoever each run is for. A listing of everything, a deletion and a
            pruning are about no run.
    """

    def __init__(self, database: Database, owner: ThreadOwner | None = None) -> None:
        # a type that was not allowed comes back as plain data
        super().__init__(database.pool, serde=JsonPlusSerializer(allowed_msgpack_modules=None))
        self._database = database
        self._only = owner

    async def setup(self) -> None:
        """Does nothing: `mnemic db migrate` makes the tables, as the library's own set-up would."""

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """A checkpoint by its id, or the thread's latest; None where there is none."""
        async with self._about(config) as inside:
            return await super().aget_tuple(inside)

    async def alist(self, config: RunnableConfig | None, **options: Any) -> AsyncIterator[CheckpointTuple]:
        """Checkpoints of a thread, or of all the owner's, newest first; the options are LangGraph's."""
        async with self._about(config) as inside:
            listed = super().alist(inside if config else None, **options)
            # all at once: whoever reads them slowly must not keep a connection meanwhile
            found = [item async for item in listed]
        for item in found:
            yield item

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Saves a checkpoint, its new values and where its thread stands in one transaction."""
        async with self._about(config) as inside:
            saved = await super().aput(inside, checkpoint, metadata, new_versions)
        return _of_thread(saved, str(config["configurable"]["thread_id"]))

    async def aput_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """Saves what a task wrote after a checkpoint, in one transaction.

        As the library does, but for the thread in which it serialises: that costs more than the few messages of a step.
        """
        is_replaced = all(channel in WRITES_IDX_MAP for channel, _ in writes)
        statement = self.UPSERT_CHECKPOINT_WRITES_SQL if is_replaced else self.INSERT_CHECKPOINT_WRITES_SQL
        async with self._about(config) as inside:
            place = inside["configurable"]
            ids = place["thread_id"], place["checkpoint_ns"], place["checkpoint_id"]
            rows = self._dump_writes(*ids, task_id, task_path, writes)
            async with self._cursor(pipeline=True) as cursor:
                await cursor.executemany(statement, rows)

    async def aget_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """What was written to channels that are kept as changes, up to a checkpoint."""
        async with self._about(config) as inside:
            return await super().aget_delta_channel_history(config=inside, channels=channels)

    async def adelete_thread(self, thread_id: str) -> None:
        """Deletes a thread."""
        await self.aprune([thread_id], strategy="delete")

    async def adelete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Deletes the checkpoints that these runs made, so that their threads stand where they stood before."""
        values = {"run_ids": [str(run_id) for run_id in run_ids]}
        async with self._own() as (cursor, _):
            await cursor.execute(_SQL["delete_of_runs"], values)
            threads = {"threads": [row["thread_id"] for row in await cursor.fetchall()]}
            for statement in ("delete_unused", "delete_standings", "stand_again"):
                await cursor.execute(_SQL[statement], threads)

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Copies a thread with its whole history under another id of the same owner, in one transaction."""
        async with self._own() as (cursor, owner):
            renamed = Jsonb({"thread_id": f"{owner.prefix}{target_thread_id}"})
            await cursor.execute(_SQL["copy"], {"source": f"{owner.prefix}{source_thread_id}", "renamed": renamed})

    async def aprune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """Deletes threads, or all of them but what they need to go on: the latest checkpoint, its pending writes.

        Raises:
            ConcurrentChangeError: a thread was changed meanwhile; those before it in the list are done.
            NotImplementedError: a thread has channels that are kept as changes, which rest on its history.
        """
        owner = await self._owner(None)
        named = (
            thread_ids if isinstance(thread_ids, str) else [f"{owner.prefix}{thread_id}" for thread_id in thread_ids]
        )
        if strategy == "delete" and not isinstance(thread_ids, str):
            async with self._own() as (cursor, _):
                ids = [str(thread_id) for thread_id in thread_ids]
                await cursor.execute(_SQL["delete"], {**owner._asdict(), "thread_ids": ids, "threads": named})
            return
        async with self._about(None, at_once=True):
            await super().aprune(named, strategy=strategy)

    async def statuses(self) -> list[ThreadStatus]:
        """Where the owner's threads stand, the one that moved last first."""
        async with self._own() as (cursor, owner):
            await cursor.execute(_SQL["standings"], owner._asdict())
            return [ThreadStatus(**row) for row in await cursor.fetchall()]

    async def _owner(self, config: RunnableConfig | None) -> ThreadOwner:
        return owner_of_run(config, only=self._only)

    @asynccontextmanager
    async def _about(self, config: RunnableConfig | None, *, at_once: bool = False) -> AsyncIterator[RunnableConfig]:
        """While it lasts, the library's cursors see the threads of the config's owner; yields the config inside.

        There the thread's id begins with its owner. A call that the library makes of another has such a config already.
        """
        if _CALL.get(None):
            yield config or {}
            return
        prefix = (await self._owner(config)).prefix
        token = _CALL.set((prefix, at_once))
        try:
            yield _of_thread(config, f"{prefix}{config['configurable']['thread_id']}") if config else {}
        finally:
            _CALL.reset(token)

    @asynccontextmanager
    async def _own(self) -> AsyncIterator[tuple[AsyncCursor[DictRow], ThreadOwner]]:
        """A transaction in which the owner's threads exist, for what the library has no statement for."""
        owner = await self._owner(None)
        async with self._database.threads(owner.prefix) as cursor:
            yield cursor, owner

    async def _load_checkpoint_tuple(self, value: DictRow) -> CheckpointTuple:
        """The library's own way to build what it returns; here with the thread's id as its owner knows it."""
        outside = {**value, "thread_id": value["thread_id"].removeprefix(_CALL.get()[0])}
        return await super()._load_checkpoint_tuple(outside)

    @asynccontextmanager
    async def _cursor(self, *, pipeline: bool = False) -> AsyncIterator[AsyncCursor[DictRow]]:
        """The library's own way to a cursor; here a transaction on a connection of its own, without its lock."""
        prefix, at_once = _CALL.get()
        async with self._database.threads(prefix, at_once=at_once) as cursor:
            yield cursor


async def find_owners(
    database: Database, *, thread_id: str | None = None, run_ids: Sequence[str] = ()
) -> list[ThreadOwner]:
    """Everybody who has a thread of this id, who moved it last first, or checkpoints of these runs.

    Ids, nothing of what was said.

    Raises:
        DatabaseUnavailableError: the database cannot be reached, cut the connection, or took too long.
    """
    async with database.catalog() as connection:
        if thread_id is None:
            found = await connection.execute("select * from owners_of_runs(%s)", (list(run_ids),))
        else:
            found = await connection.execute("select * from owners_of_thread(%s)", (thread_id,))
        return [ThreadOwner(*row) for row in await found.fetchall()]


def _of_thread(config: RunnableConfig, thread_id: str) -> RunnableConfig:
    return {**config, "configurable": {**config["configurable"], "thread_id": thread_id}}
