"""Copies of threads from another checkpointer into ours, with their whole history."""

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import WRITES_IDX_MAP, BaseCheckpointSaver, CheckpointTuple

from mnemic.storage.threads import ThreadSaver


async def copy_threads(
    source: BaseCheckpointSaver[Any], target: ThreadSaver, thread_ids: Sequence[str] | None = None
) -> int:
    """Copy threads, and return the number of their checkpoints.

    Args:
        source: Checkpointer to copy from.
        target: Checkpointer to copy into.
        thread_ids: Threads to copy; None for all of the source, which are then read twice.
    """
    if thread_ids is None:
        thread_ids = await _all_threads(source)
    checkpoints = 0
    for thread_id in thread_ids:
        checkpoints += await _copy_thread(source, target, thread_id)
    return checkpoints


async def _all_threads(source: BaseCheckpointSaver[Any]) -> list[str]:
    thread_ids: set[str] = set()
    async for item in source.alist(None):
        thread_ids.add(str(item.config["configurable"]["thread_id"]))
    return sorted(thread_ids)


async def _copy_thread(source: BaseCheckpointSaver[Any], target: ThreadSaver, thread_id: str) -> int:
    """Copy the checkpoints of a thread in all namespaces, with the writes of tasks after each.

    The thread is held in memory. Rows that the target already has stay unchanged, so a copy may be repeated.
    """
    items = [item async for item in source.alist({"configurable": {"thread_id": thread_id}})]
    # oldest first: a copy that breaks off leaves the thread at an earlier point
    for item in sorted(items, key=lambda item: item.checkpoint["id"]):
        await _copy_checkpoint(item, target)
    return len(items)


async def _copy_checkpoint(item: CheckpointTuple, target: ThreadSaver) -> None:
    config: RunnableConfig = {
        "configurable": {
            "thread_id": item.config["configurable"].get("thread_id", ""),
            "checkpoint_ns": item.config["configurable"].get("checkpoint_ns", ""),
            "checkpoint_id": item.parent_config and item.parent_config["configurable"]["checkpoint_id"],
        }
    }
    saved = await target.aput(config, item.checkpoint, item.metadata, item.checkpoint["channel_versions"])
    # errors, interrupts and the answers to them are apart for each task: their places are not counted
    by_task: defaultdict[tuple[str, bool], list[tuple[str, Any]]] = defaultdict(list)
    for task_id, channel, value in item.pending_writes or ():
        by_task[task_id, channel in WRITES_IDX_MAP].append((channel, value))
    for (task_id, _), writes in by_task.items():
        await target.aput_writes(saved, writes, task_id)
