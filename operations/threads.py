"""Whose a thread is, and threads of any other checkpointer, copied into ours with their whole history."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import groupby
from typing import Any, Final

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import WRITES_IDX_MAP, BaseCheckpointSaver, CheckpointTuple

from mnemic.state.errors import MissingIdentityError, RefusedIdentityError
from mnemic.state.identity import Identity, to_identity
from mnemic.storage.threads import ThreadOwner, ThreadSaver

#: Where LangGraph puts the runtime of a run, with its context, for whoever is given the run's config.
RUNTIME: Final = "__pregel_runtime"


def owner_of_identity(who: Identity) -> ThreadOwner:
    """Whose the identity's threads are: its agent's with its user, or with nobody in particular."""
    return ThreadOwner(who.agent_id, who.user_id or "")


def owner_of_run(config: RunnableConfig | None) -> ThreadOwner:
    """Whose thread a run is about: as its config says, else its context.

    Raises:
        MissingIdentityError: neither says so.
        RefusedIdentityError: they name different people.
        InvalidInputError: an id in it cannot be used.
    """
    named = _named(config)
    if not named:
        raise MissingIdentityError(
            "nobody's thread: run the graph with memory.thread(identity) as its config, or with context=identity, or"
            " compile it with memory.checkpointer(identity)"
        )
    if len(named) > 1:
        raise RefusedIdentityError("configurable: agent_id and user_id are not those of the run's context")
    return named.pop()


def require_owner(owner: ThreadOwner, config: RunnableConfig | None) -> ThreadOwner:
    """The owner whose threads a checkpointer keeps, whatever the run; one for somebody else would read the thread.

    Raises:
        RefusedIdentityError: the run names somebody else.
        InvalidInputError: an id in it cannot be used.
    """
    if _named(config) - {owner}:
        raise RefusedIdentityError("the run is not for whom this checkpointer is: compile with memory.checkpointer()")
    return owner


def _named(config: RunnableConfig | None) -> set[ThreadOwner]:
    """Whom a run's config and its context name."""
    configurable: Mapping[str, Any] = (config or {}).get("configurable", {})
    context = getattr(configurable.get(RUNTIME), "context", None)
    named = set[ThreadOwner]()
    with suppress(MissingIdentityError):  # a host's own context may name nobody
        named.add(owner_of_identity(to_identity(context)))
    if configurable.get("agent_id") is not None:
        who = Identity(agent_id=configurable["agent_id"], user_id=configurable.get("user_id"))
        named.add(owner_of_identity(who))
    return named


async def copy_threads(
    source: BaseCheckpointSaver[Any], target: ThreadSaver, thread_ids: Sequence[str] | None = None
) -> int:
    """Copies these threads, or all of the source's, which has to read them twice; how many checkpoints they have."""
    ids = await _all_thread_ids(source) if thread_ids is None else thread_ids
    return sum([await _copy_thread(source, target, thread_id) for thread_id in ids])


async def _all_thread_ids(source: BaseCheckpointSaver[Any]) -> list[str]:
    return sorted({str(found.config["configurable"]["thread_id"]) async for found in source.alist(None)})


async def _copy_thread(source: BaseCheckpointSaver[Any], target: ThreadSaver, thread_id: str) -> int:
    """Copies checkpoints in all namespaces, with what tasks wrote after each.

    The thread is in memory meanwhile. What the target has already stays as it is, so that a copy may be done again.
    """
    found = [item async for item in source.alist({"configurable": {"thread_id": thread_id}})]
    # the oldest first: a copy that breaks off leaves the thread at an earlier point of itself
    for item in sorted(found, key=lambda item: item.checkpoint["id"]):
        versions = item.checkpoint["channel_versions"]
        saved = await target.aput(_parent_config(item), item.checkpoint, item.metadata, versions)
        for task_id, writes in _by_task(item.pending_writes or ()):
            await target.aput_writes(saved, writes, task_id)
    return len(found)


def _parent_config(item: CheckpointTuple) -> RunnableConfig:
    """The config under which a checkpoint was saved."""
    here = {name: item.config["configurable"].get(name, "") for name in ("thread_id", "checkpoint_ns")}
    parent = item.parent_config
    return {"configurable": {**here, "checkpoint_id": parent["configurable"]["checkpoint_id"] if parent else None}}


def _by_task(writes: Sequence[tuple[str, str, Any]]) -> Iterator[tuple[str, list[tuple[str, Any]]]]:
    """What each task wrote, its errors, interrupts and answers to them apart: their places are not counted."""
    ordered = sorted(writes, key=_task_and_sort)  # which keeps the order within a task
    for (task_id, _), group in groupby(ordered, _task_and_sort):
        yield task_id, [(channel, value) for _, channel, value in group]


def _task_and_sort(write: tuple[str, str, Any]) -> tuple[str, bool]:
    task_id, channel, _ = write
    return task_id, channel in WRITES_IDX_MAP
