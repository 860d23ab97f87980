"""The checkpointer of LangGraph Server, which asks for threads by their ids alone: whose they are is found out here."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import CheckpointTuple

from mnemic.operations.run.identity import bind_identity
from mnemic.operations.threads import RUNTIME, owner_of_identity, owner_of_run
from mnemic.service.server.auth import CALLER
from mnemic.state.errors import MissingIdentityError
from mnemic.state.identity import to_identity
from mnemic.storage.database import Database
from mnemic.storage.threads import ThreadOwner, ThreadSaver, owners


class ServerThreads(ThreadSaver):
    """Threads over the service's own pool, each on behalf of its owner.

    In a run that is the run's identity. Everywhere else the server has let the caller at the thread already, and names
    it by its id; a thread of somebody else than the caller is not there all the same. A checkpoint of a new thread,
    and of no run of anybody's, is refused with `MissingIdentityError`.
    """

    def __init__(self, database: Database) -> None:
        super().__init__(database, owner_of_run)

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """A checkpoint by its id, or the thread's latest; None where there is none."""
        try:
            return await super().aget_tuple(config)
        except MissingIdentityError:
            return None

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,  # noqa: A002 - the library's name
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        """The checkpoints of a thread, newest first; of no thread none."""
        with suppress(MissingIdentityError):
            async for found in super().alist(config, filter=filter, before=before, limit=limit):
                yield found

    async def aprune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """Deletes threads, or all of them but what they need to go on."""
        kept = "delete" if strategy == "delete_all" else strategy  # the server's word
        for thread_id in thread_ids:
            for owner in await self._owners(thread_id=str(thread_id)):
                await self._saver(owner).aprune([thread_id], strategy=kept)

    async def adelete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Deletes the checkpoints of runs, so that their threads stand where they stood before."""
        for owner in await self._owners(run_ids=[str(run_id) for run_id in run_ids]):
            await self._saver(owner).adelete_for_runs(run_ids)

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Copies a thread with its whole history."""
        for owner in await self._owners(thread_id=str(source_thread_id)):
            await self._saver(owner).acopy_thread(source_thread_id, target_thread_id)

    async def _owner(self, config: RunnableConfig | None) -> ThreadOwner:
        """Whose thread it is: the run's identity, else who has moved it last."""
        configurable: Mapping[str, Any] = (config or {}).get("configurable", {})
        runtime, thread_id = configurable.get(RUNTIME), configurable.get("thread_id")
        if context := getattr(runtime, "context", None):
            user = runtime.server_info.user if runtime and runtime.server_info else None
            return owner_of_identity(bind_identity(to_identity(context), user, thread_id))
        # a run that is nobody's must not take up somebody's thread for having its id
        owner = (
            next(iter(await self._owners(thread_id=str(thread_id))), None) if runtime is None and thread_id else None
        )
        if owner is None:
            raise MissingIdentityError("nobody's thread: begin it with a run whose context names agent_id")
        return owner

    def _saver(self, owner: ThreadOwner) -> ThreadSaver:
        """Costs nothing: it is the pool that is shared."""
        return ThreadSaver(self._database, lambda _: owner)

    async def _owners(self, **found_by: Any) -> list[ThreadOwner]:
        """Those whose threads they are, but for everybody whose threads the caller may not see."""
        found, claims = await owners(self._database, **found_by), CALLER.get()
        return [owner for owner in found if claims is None or claims.admits(owner.user_id, owner.agent_id)]
