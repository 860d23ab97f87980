"""Whose a thread is, and threads of any other checkpointer, copied into ours with their whole history."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import WRITES_IDX_MAP, BaseCheckpointSaver

from mnemic.state.errors import MissingIdentityError, RefusedIdentityError
from mnemic.state.identity import Identity, to_identity
from mnemic.storage.threads import ThreadOwner, ThreadSaver

#: Where LangGraph puts the runtime of a run, with its context, for whoever is given the run's config.
RUNTIME: Final = "__pregel_runtime"


def owner_of_identity(who: Identity) -> ThreadOwner:
    """Whose the identity's threads are: its agent's with its user, or with nobody in particular."""
    return ThreadOwner(who.agent_id, who.user_id or "")


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
        named.add(owner_of_identity(to_identity(context)))
    if configurable.get("agent_id") is not None:
        who = Identity(agent_id=configurable["agent_id"], user_id=configurable.get("user_id"))
        named.add(owner_of_identity(who))
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
