"""Checkpoints of agents' threads: LangGraph's Postgres checkpointer over the service's pool, one owner at a time.

The statements of the library run unchanged. Row-level security limits them to the threads of one owner. A trigger keeps
one row per thread in `supervisor_checkpoints`, in the transaction of its checkpoint.
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
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from psycopg import AsyncCursor
from psycopg.rows import DictRow
from psycopg.types.json import Jsonb

from mnemic.state.errors import MissingIdentityError, RefusedIdentityError
from mnemic.state.identity import Identity, to_identity
from mnemic.state.supervisor import ThreadStatus
from mnemic.storage.database import Database
from mnemic.storage.thread_calls import AnyLoopSaver, on_home_loop
from mnemic.storage.transaction import load_statements

_SQL = load_statements("threads")
#: Key of a run's config under which LangGraph passes the runtime of the run, with its context.
RUNTIME: Final = "__pregel_runtime"


class ThreadOwner(NamedTuple):
    """The owner of threads: an agent with one user, or without a user."""

    agent_id: str
    #: Empty for threads without a user.
    user_id: str = ""

    @classmethod
    def of(cls, identity: Identity) -> Self:
        """Return the owner of the identity's threads."""
        return cls(identity.agent_id, identity.user_id or "")

    @property
    def prefix(self) -> str:
        """Prefix of the ids of these threads in the saver's tables."""
        prefix = ""
        for part in self:
            prefix += part.replace("%", "%25").replace("/", "%2F") + "/"
        return prefix


def owner_of_run(config: RunnableConfig | None, *, only: ThreadOwner | None = None) -> ThreadOwner:
    """Return the owner of a run's thread, from the run's config or its context.

    Args:
        config: of the run.
        only: the one owner of a checkpointer, which then serves no run of another owner.

    Raises:
        MissingIdentityError: if neither config nor context has an identity.
        RefusedIdentityError: if they have different identities, or another one than `only`.
        InvalidInputError: if an id cannot be used.
    """
    owners = _owners_in(config)
    if only is not None and owners - {only}:
        raise RefusedIdentityError(
            "the run has another identity than its checkpointer: compile the graph with memory.threads.checkpointer()"
        )
    if only is not None:
        return only
    if not owners:
        raise MissingIdentityError(
            "the thread has no owner: run the graph with context=identity or with memory.threads.config(identity) as"
            " its config, or compile it with memory.threads.checkpointer(identity)"
        )
    if len(owners) > 1:
        raise RefusedIdentityError("configurable: agent_id and user_id differ from the identity of the run's context")
    return owners.pop()


def _owners_in(config: RunnableConfig | None) -> set[ThreadOwner]:
    """Return the owners in the context and in the config of a run."""
    configurable: Mapping[str, Any] = (config or {}).get("configurable", {})
    context = getattr(configurable.get(RUNTIME), "context", None)
    owners = set[ThreadOwner]()
    with suppress(MissingIdentityError):  # the context of a host may have no identity
        owners.add(ThreadOwner.of(to_identity(context)))
    if configurable.get("agent_id") is not None:
        identity = Identity(agent_id=configurable["agent_id"], user_id=configurable.get("user_id"))
        owners.add(ThreadOwner.of(identity))
    return owners


class _Call(NamedTuple):
    """Owner and isolation of one call of the saver."""

    #: Prefix of the ids of the owner's threads.
    prefix: str
    #: Whether all statements of the call read one snapshot.
    is_snapshot: bool


#: The saver's call in this context; the library passes it to none of its own methods.
_CALL: Final[ContextVar[_Call]] = ContextVar("mnemic_threads")


class ThreadSaver(AnyLoopSaver):
    """A checkpointer for agents with many users; concurrent calls use a connection each.

    Threads of other owners do not exist for it: it neither finds nor lists them, and deletes or prunes none. A type
    that is not allowed is read as plain data, so that no checkpoint creates objects that its reader does not expect.

    In addition to the errors of LangGraph's checkpointers, every call raises `MissingIdentityError` if the thread has
    no owner, and the errors of `Database.transaction`.

    Args:
        database: provides the pool.
        owner: of the threads; None: the owner of each run. Listing all threads, deletion and pruning need an owner,
            since they belong to no run.
    """

    def __init__(self, database: Database, owner: ThreadOwner | None = None) -> None:
        # a type that is not allowed is read as plain data
        super().__init__(database.pool, serde=JsonPlusSerializer(allowed_msgpack_modules=None))
        self.home = database.home
        self._database = database
        self._only = owner

    async def setup(self) -> None:
        """Do nothing: `mnemic db migrate` creates the tables, as the library's set-up would."""

    @on_home_loop
    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """Return a checkpoint by its id, or the latest of the thread; None if there is none."""
        async with self._as_owner(config) as stored:
            return await super().aget_tuple(stored)

    async def alist(self, config: RunnableConfig | None, **options: Any) -> AsyncIterator[CheckpointTuple]:
        """Yield checkpoints of a thread, or of all threads of the owner, newest first; the options are LangGraph's."""
        for checkpoint in await self._read_all(config, options):
            yield checkpoint

    @on_home_loop
    async def _read_all(self, config: RunnableConfig | None, options: dict[str, Any]) -> Sequence[CheckpointTuple]:
        """Return the checkpoints at once: a slow reader must not keep a connection."""
        async with self._as_owner(config) as stored:
            return [item async for item in super().alist(stored if config else None, **options)]

    @on_home_loop
    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Store a checkpoint, its new values and the status of its thread in one transaction."""
        async with self._as_owner(config) as stored:
            saved = await super().aput(stored, checkpoint, metadata, new_versions)
        return _with_thread_id(saved, str(config["configurable"]["thread_id"]))

    @on_home_loop
    async def aput_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """Store the writes of a task after a checkpoint, in one transaction.

        Unlike the library, serialize on the event loop: a thread costs more than the few messages of a step.
        """
        is_replaced = all(channel in WRITES_IDX_MAP for channel, _ in writes)
        statement = self.UPSERT_CHECKPOINT_WRITES_SQL if is_replaced else self.INSERT_CHECKPOINT_WRITES_SQL
        async with self._as_owner(config) as stored:
            place = stored["configurable"]
            ids = place["thread_id"], place["checkpoint_ns"], place["checkpoint_id"]
            rows = self._dump_writes(*ids, task_id, task_path, writes)
            async with self._cursor(pipeline=True) as cursor:
                await cursor.executemany(statement, rows)

    @on_home_loop
    async def aget_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """Return the writes to channels that are stored as changes, up to a checkpoint."""
        async with self._as_owner(config) as stored:
            return await super().aget_delta_channel_history(config=stored, channels=channels)

    @on_home_loop
    async def adelete_thread(self, thread_id: str) -> None:
        """Delete a thread."""
        await self.aprune([thread_id], strategy="delete")

    @on_home_loop
    async def adelete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Delete the checkpoints of these runs, and restore the status that their threads had before."""
        values = {"run_ids": list(map(str, run_ids))}
        async with self._owned_cursor() as (cursor, _):
            await cursor.execute(_SQL["delete_of_runs"], values)
            threads = {"threads": [row["thread_id"] for row in await cursor.fetchall()]}
            for statement in ("delete_unused", "delete_statuses", "restore_statuses"):
                await cursor.execute(_SQL[statement], threads)

    @on_home_loop
    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Copy a thread with its whole history to another id of the same owner, in one transaction."""
        async with self._owned_cursor() as (cursor, owner):
            renamed = Jsonb({"thread_id": f"{owner.prefix}{target_thread_id}"})
            await cursor.execute(_SQL["copy"], {"source": f"{owner.prefix}{source_thread_id}", "renamed": renamed})

    @on_home_loop
    async def aprune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """Delete threads, or all of their checkpoints except the latest one and its pending writes.

        Raises:
            ConcurrentChangeError: if a thread is changed meanwhile; the threads before it in the list are done.
            NotImplementedError: if a thread has channels that are stored as changes, which need its history.
        """
        owner = await self._owner(None)
        stored_ids = thread_ids
        if not isinstance(thread_ids, str):
            stored_ids = [f"{owner.prefix}{thread_id}" for thread_id in thread_ids]
            if strategy == "delete":
                await self._delete(owner, list(map(str, thread_ids)), stored_ids)
                return
        async with self._as_owner(None, is_snapshot=True):
            await super().aprune(stored_ids, strategy=strategy)

    async def _delete(self, owner: ThreadOwner, thread_ids: list[str], stored_ids: Sequence[str]) -> None:
        async with self._owned_cursor() as (cursor, _):
            values = {**owner._asdict(), "thread_ids": thread_ids, "threads": stored_ids}
            await cursor.execute(_SQL["delete"], values)

    @on_home_loop
    async def statuses(self) -> list[ThreadStatus]:
        """Return the status of each of the owner's threads, the most recently changed first."""
        async with self._owned_cursor() as (cursor, owner):
            await cursor.execute(_SQL["statuses"], owner._asdict())
            return [ThreadStatus(**row) for row in await cursor.fetchall()]

    async def _owner(self, config: RunnableConfig | None) -> ThreadOwner:
        return owner_of_run(config, only=self._only)

    @asynccontextmanager
    async def _as_owner(
        self, config: RunnableConfig | None, *, is_snapshot: bool = False
    ) -> AsyncIterator[RunnableConfig]:
        """Limit the library's cursors to the threads of the config's owner; yield the config with the stored thread id.

        The stored id begins with the prefix of the owner. A call that the library makes within another one already has
        such a config.
        """
        if _CALL.get(None):
            yield config or {}
            return
        prefix = (await self._owner(config)).prefix
        token = _CALL.set(_Call(prefix, is_snapshot))
        try:
            if config:
                yield _with_thread_id(config, f"{prefix}{config['configurable']['thread_id']}")
            else:
                yield {}
        finally:
            _CALL.reset(token)

    @asynccontextmanager
    async def _owned_cursor(self) -> AsyncIterator[tuple[AsyncCursor[DictRow], ThreadOwner]]:
        """Open a transaction on the owner's threads, for statements that the library does not have."""
        owner = await self._owner(None)
        async with self._database.thread_transaction(owner.prefix) as cursor:
            yield cursor, owner

    async def _load_checkpoint_tuple(self, value: DictRow) -> CheckpointTuple:
        """Override the library's construction of a result: the thread id is the owner's, without the prefix."""
        unprefixed = {**value, "thread_id": value["thread_id"].removeprefix(_CALL.get().prefix)}
        return await super()._load_checkpoint_tuple(unprefixed)

    @asynccontextmanager
    async def _cursor(self, *, pipeline: bool = False) -> AsyncIterator[AsyncCursor[DictRow]]:
        """Override the library's cursor: a transaction on a connection of its own, without the library's lock."""
        call = _CALL.get()
        async with self._database.thread_transaction(call.prefix, is_snapshot=call.is_snapshot) as cursor:
            yield cursor


async def find_owners(
    database: Database, *, thread_id: str | None = None, run_ids: Sequence[str] = ()
) -> list[ThreadOwner]:
    """Return the owners of the threads with this id, the most recently changed first, or of checkpoints of these runs.

    Raises:
        DatabaseUnavailableError: if the database cannot be reached, cut the connection, or took too long.
    """
    async with database.catalog() as connection:
        if thread_id is None:
            rows = await connection.execute("select * from owners_of_runs(%s)", (list(run_ids),))
        else:
            rows = await connection.execute("select * from owners_of_thread(%s)", (thread_id,))
        return [ThreadOwner(*row) for row in await rows.fetchall()]


def _with_thread_id(config: RunnableConfig, thread_id: str) -> RunnableConfig:
    return {**config, "configurable": {**config["configurable"], "thread_id": thread_id}}
