"""Threads of any other checkpointer, copied into ours with their whole history."""

from collections.abc import AsyncIterator, Iterator, Sequence
from itertools import groupby
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import WRITES_IDX_MAP, BaseCheckpointSaver, CheckpointTuple

from mnemic.storage.threads import ThreadSaver


async def copy_thread(source: BaseCheckpointSaver[Any], target: ThreadSaver, thread_id: str) -> int:
    """Copies a thread's checkpoints in all namespaces, with what tasks wrote after each; how many there are.

    The thread is in memory meanwhile. What the target has already stays as it is, so that a copy may be done again.
    """
    found = [one async for one in source.alist({"configurable": {"thread_id": thread_id}})]
    # the oldest first: a copy that breaks off leaves the thread at an earlier point of itself
    for one in sorted(found, key=lambda one: one.checkpoint["id"]):
        saved = await target.aput(_from_parent(one), one.checkpoint, one.metadata, one.checkpoint["channel_versions"])
        for task_id, writes in _by_task(one.pending_writes or ()):
            await target.aput_writes(saved, writes, task_id)
    return len(found)


async def thread_ids(source: BaseCheckpointSaver[Any]) -> list[str]:
    """Every thread that a checkpointer has."""
    found: AsyncIterator[CheckpointTuple] = source.alist(None)
    return sorted({str(one.config["configurable"]["thread_id"]) async for one in found})


def _from_parent(one: CheckpointTuple) -> RunnableConfig:
    """The config under which a checkpoint was saved."""
    here = {name: one.config["configurable"].get(name, "") for name in ("thread_id", "checkpoint_ns")}
    parent = one.parent_config
    return {"configurable": {**here, "checkpoint_id": parent["configurable"]["checkpoint_id"] if parent else None}}


def _by_task(writes: Sequence[tuple[str, str, Any]]) -> Iterator[tuple[str, list[tuple[str, Any]]]]:
    """What each task wrote, its errors, interrupts and answers to them apart: their places are not counted."""
    ordered = sorted(writes, key=_task_and_sort)  # which keeps the order within a task
    for (task_id, _), group in groupby(ordered, _task_and_sort):
        yield task_id, [(channel, value) for _, channel, value in group]


def _task_and_sort(write: tuple[str, str, Any]) -> tuple[str, bool]:
    task_id, channel, _ = write
    return task_id, channel in WRITES_IDX_MAP
