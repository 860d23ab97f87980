"""A checkpointer for any thread and any event loop: its methods run on the loop of its connections."""

from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from functools import partial, wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import CheckpointTuple, DeltaChannelHistory
from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver

from mnemic.storage.home_loop import HomeLoop

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")
Saver = TypeVar("Saver", bound="AnyLoopSaver")


def on_home_loop(
    method: Callable[Concatenate[Saver, Parameters], Coroutine[Any, Any, Result]],
) -> Callable[Concatenate[Saver, Parameters], Coroutine[Any, Any, Result]]:
    """Return the asynchronous method of a saver, which runs on its home loop."""

    @wraps(method)
    async def call(self: Saver, /, *args: Parameters.args, **kwargs: Parameters.kwargs) -> Result:
        return await self.home.run_async(partial(method, self, *args, **kwargs))

    return call


class AnyLoopSaver(AsyncPostgresSaver):
    """LangGraph's asynchronous saver with synchronous methods that wait for its home loop.

    Those of the library wait forever if the loop has ended or is blocked. The arguments are the library's.
    """

    home: HomeLoop

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """Wait for `aget_tuple`."""
        return self.home.run(partial(self.aget_tuple, config))

    def list(self, config: RunnableConfig | None, **options: Any) -> Iterator[CheckpointTuple]:
        """Wait for `alist`."""
        yield from self.home.run(partial(self._listed, config, options))

    async def _listed(self, config: RunnableConfig | None, options: dict[str, Any]) -> Sequence[CheckpointTuple]:
        return [checkpoint async for checkpoint in self.alist(config, **options)]

    def put(self, *args: Any, **kwargs: Any) -> RunnableConfig:
        """Wait for `aput`."""
        return self.home.run(partial(self.aput, *args, **kwargs))

    def put_writes(self, *args: Any, **kwargs: Any) -> None:
        """Wait for `aput_writes`."""
        self.home.run(partial(self.aput_writes, *args, **kwargs))

    def delete_thread(self, thread_id: str) -> None:
        """Wait for `adelete_thread`."""
        self.home.run(partial(self.adelete_thread, thread_id))

    def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Wait for `adelete_for_runs`."""
        self.home.run(partial(self.adelete_for_runs, run_ids))

    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Wait for `acopy_thread`."""
        self.home.run(partial(self.acopy_thread, source_thread_id, target_thread_id))

    def prune(self, *args: Any, **kwargs: Any) -> None:
        """Wait for `aprune`."""
        self.home.run(partial(self.aprune, *args, **kwargs))

    def get_delta_channel_history(self, **kwargs: Any) -> Mapping[str, DeltaChannelHistory]:
        """Wait for `aget_delta_channel_history`."""
        return self.home.run(partial(self.aget_delta_channel_history, **kwargs))
