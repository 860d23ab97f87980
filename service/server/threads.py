"""The checkpointer of LangGraph Server. The server passes thread ids alone, so the owners are looked up here."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import CheckpointTuple

from mnemic.memory.runtime.identity import bind_identity
from mnemic.service.server.auth import CALLER
from mnemic.state.errors import MissingIdentityError
from mnemic.state.identity import to_identity
from mnemic.storage.threads import RUNTIME, ThreadOwner, ThreadSaver, find_owners


class ServerThreads(ThreadSaver):
    """Saver that reads and writes each thread in the name of its owner.

    In a run the owner is the run's identity. Elsewhere the owner is looked up by the thread's id, and threads that the
    caller may not see do not exist for it. A checkpoint of a new thread outside of a run raises `MissingIdentityError`.
    """

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """Return a checkpoint by its id, or the thread's latest one; None if there is none."""
        with suppress(MissingIdentityError):
            return await super().aget_tuple(config)
        return None

    async def alist(self, config: RunnableConfig | None, **options: Any) -> AsyncIterator[CheckpointTuple]:
        """Yield the checkpoints of a thread, newest first."""
        with suppress(MissingIdentityError):
            async for checkpoint in super().alist(config, **options):
                yield checkpoint

    async def aprune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """Delete threads, or all of their checkpoints but the latest."""
        if strategy == "delete_all":  # the server's word
            strategy = "delete"
        for thread_id in thread_ids:
            for owner in await self._owners(thread_id=str(thread_id)):
                await ThreadSaver(self._database, owner).aprune([thread_id], strategy=strategy)

    async def adelete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Delete the checkpoints of runs, so that their threads are as before these runs."""
        for owner in await self._owners(run_ids=[str(run_id) for run_id in run_ids]):
            await ThreadSaver(self._database, owner).adelete_for_runs(run_ids)

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Copy a thread with its whole history."""
        for owner in await self._owners(thread_id=str(source_thread_id)):
            await ThreadSaver(self._database, owner).acopy_thread(source_thread_id, target_thread_id)

    async def _owner(self, config: RunnableConfig | None) -> ThreadOwner:
        """Return the owner of a thread: the run's identity, else the last owner who wrote it.

        Raises:
            MissingIdentityError: if the thread has no owner.
        """
        configurable: Mapping[str, Any] = (config or {}).get("configurable", {})
        runtime, thread_id = configurable.get(RUNTIME), configurable.get("thread_id")
        if context := getattr(runtime, "context", None):
            server = getattr(runtime, "server_info", None)
            user = server.user if server else None
            return ThreadOwner.of(bind_identity(to_identity(context), user, thread_id))
        found: list[ThreadOwner] = []
        if runtime is None and thread_id:  # a run without an identity must not get a thread by its id alone
            found = await self._owners(thread_id=str(thread_id))
        if not found:
            raise MissingIdentityError("the thread has no owner: begin it with a run whose context names agent_id")
        return found[0]

    async def _owners(self, **found_by: Any) -> list[ThreadOwner]:
        """Return the owners of threads, without those whose threads the caller may not see."""
        found, claims = await find_owners(self._database, **found_by), CALLER.get()
        if claims is None:
            return found
        return [owner for owner in found if claims.admits(owner.user_id, owner.agent_id)]
