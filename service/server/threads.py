"""The checkpointer of LangGraph Server, which asks for threads by their ids alone: whose they are is found out here."""

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
    """Threads over the service's own pool, each on behalf of its owner.

    In a run that is the run's identity. Everywhere else the server has let the caller at the thread already, and names
    it by its id; a thread of somebody else than the caller is not there all the same. A checkpoint of a new thread,
    and of no run of anybody's, is refused with `MissingIdentityError`.
    """

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """A checkpoint by its id, or the thread's latest; None where there is none."""
        with suppress(MissingIdentityError):
            return await super().aget_tuple(config)
        return None

    async def alist(self, config: RunnableConfig | None, **options: Any) -> AsyncIterator[CheckpointTuple]:
        """The checkpoints of a thread, newest first; of no thread none."""
        with suppress(MissingIdentityError):
            async for found in super().alist(config, **options):
                yield found

    async def aprune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """Deletes threads, or all of them but what they need to go on."""
        kept = "delete" if strategy == "delete_all" else strategy  # the server's word
        for thread_id in thread_ids:
            for owner in await self._owners(thread_id=str(thread_id)):
                await ThreadSaver(self._database, owner).aprune([thread_id], strategy=kept)

    async def adelete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Deletes the checkpoints of runs, so that their threads stand where they stood before."""
        for owner in await self._owners(run_ids=[str(run_id) for run_id in run_ids]):
            await ThreadSaver(self._database, owner).adelete_for_runs(run_ids)

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Copies a thread with its whole history."""
        for owner in await self._owners(thread_id=str(source_thread_id)):
            await ThreadSaver(self._database, owner).acopy_thread(source_thread_id, target_thread_id)

    async def _owner(self, config: RunnableConfig | None) -> ThreadOwner:
        """Whose thread it is: the run's identity, else who has moved it last."""
        configurable: Mapping[str, Any] = (config or {}).get("configurable", {})
        runtime, thread_id = configurable.get(RUNTIME), configurable.get("thread_id")
        if context := getattr(runtime, "context", None):
            user = runtime.server_info.user if runtime and runtime.server_info else None
            return ThreadOwner.of(bind_identity(to_identity(context), user, thread_id))
        # a run that is nobody's must not take up somebody's thread for having its id
        found = await self._owners(thread_id=str(thread_id)) if runtime is None and thread_id else []
        if not found:
            raise MissingIdentityError("nobody's thread: begin it with a run whose context names agent_id")
        return found[0]

    async def _owners(self, **found_by: Any) -> list[ThreadOwner]:
        """Those whose threads they are, but for everybody whose threads the caller may not see."""
        found, claims = await find_owners(self._database, **found_by), CALLER.get()
        return [owner for owner in found if claims is None or claims.admits(owner.user_id, owner.agent_id)]
