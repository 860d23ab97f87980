"""Threads of any other checkpointer, copied into ours with their whole history."""

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import WRITES_IDX_MAP, BaseCheckpointSaver

from mnemic.storage.threads import ThreadSaver


async def copy_threads(
    source: BaseCheckpointSaver[Any], target: ThreadSaver, thread_ids: Sequence[str] | None = None
) -> int:
    """Copies these threads, or all of the source's, which has to read them twice; how many checkpoints they have."""
    if thread_ids is None:
        thread_ids = sorted({str(found.config["configurable"]["thread_id"]) async for found in source.alist(None)})
    return sum([await _copy_thread(source, target, thread_id) for thread_id in thread_ids])


async def _copy_thread(source: BaseCheckpointSaver[Any], target: ThreadSaver, thread_id: str) -> int:
    """Copies checkpoints in all namespaces, with what tasks wrote after each.

    The thread is in memory meanwhile. What the target has already stays as it is, so that a copy may be done again.
    """
    found = [item async for item in source.alist({"configurable": {"thread_id": thread_id}})]
    # the oldest first: a copy that breaks off leaves the thread at an earlier point of itself
    for item in sorted(found, key=lambda item: item.checkpoint["id"]):
        place = {name: item.config["configurable"].get(name, "") for name in ("thread_id", "checkpoint_ns")}
        parent = item.parent_config["configurable"]["checkpoint_id"] if item.parent_config else None
        config: RunnableConfig = {"configurable": {**place, "checkpoint_id": parent}}
        saved = await target.aput(config, item.checkpoint, item.metadata, item.checkpoint["channel_versions"])
        # each task's errors, interrupts and answers to them apart: their places are not counted
        by_task: defaultdict[tuple[str, bool], list[tuple[str, Any]]] = defaultdict(list)
        for task_id, channel, value in item.pending_writes or ():
            by_task[task_id, channel in WRITES_IDX_MAP].append((channel, value))
        for (task_id, _), writes in by_task.items():
            await target.aput_writes(saved, writes, task_id)
    return len(found)
