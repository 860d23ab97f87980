"""The entrances to threads, with a place for one bad value in each; part of `entrances.METHODS`."""

from collections.abc import Awaitable, Callable
from typing import Any

from langgraph.checkpoint.memory import InMemorySaver

from mnemic import Identity, Mnemic
from tests.support.threads import answering, at, said

_Act = Callable[[Mnemic, Identity, Any], Awaitable[object]]


def _of(method: str, **given: Any) -> Callable[..., Awaitable[object]]:
    """A method that is no coroutine, or one with its arguments by name."""

    async def act(memory: Mnemic, **more: Any) -> object:
        done = getattr(memory, method)(**given, **more)
        return await done if isinstance(done, Awaitable) else done

    return act


def _host(memory: Mnemic, context: Any = None, **configurable: Any) -> Awaitable[object]:
    """A run of a host over the checkpointer that takes its owner from the run."""
    return answering(memory.checkpointer()).ainvoke(said("I keep bees."), at("t", **configurable), context=context)


_copy, _thread, _checkpointer = _of("copy_threads"), _of("thread"), _of("checkpointer")

THREADS: dict[str, _Act] = {
    "thread: identity": lambda memory, _, value: _thread(memory, identity=value),
    "thread: thread_id": lambda memory, who, value: _thread(memory, identity=who, thread_id=value),
    "checkpointer: identity": lambda memory, _, value: _checkpointer(memory, identity=value),
    "checkpointer: context": lambda memory, _, value: _host(memory, value),
    "checkpointer: agent_id": lambda memory, _, value: _host(memory, agent_id=value),
    "checkpointer: user_id": lambda memory, _, value: _host(memory, agent_id="harbor", user_id=value),
    "threads: identity": lambda memory, _, value: memory.threads(value),
    "copy_threads: identity": lambda memory, _, value: _copy(memory, source=InMemorySaver(), identity=value),
    "copy_threads: source": lambda memory, who, value: _copy(memory, source=value, identity=who),
    "copy_threads: thread_ids": lambda memory, who, value: _copy(
        memory, source=InMemorySaver(), identity=who, thread_ids=value
    ),
    "copy_threads: a thread's id": lambda memory, who, value: _copy(
        memory, source=InMemorySaver(), identity=who, thread_ids=["t", value]
    ),
    "prune_threads: identity": lambda memory, _, value: memory.prune_threads(value, "t"),
    "prune_threads: thread_ids": lambda memory, who, value: memory.prune_threads(who, value),
    "prune_threads: one of several": lambda memory, who, value: memory.prune_threads(who, "t", value),
    "prune_threads: keep_latest": lambda memory, who, value: memory.prune_threads(who, "t", keep_latest=value),
}
