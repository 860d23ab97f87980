"""A host's own agent in a worker process, over Mnemic's checkpointer: three steps, each of which can be held up."""

import asyncio
from functools import partial
from pathlib import Path
from typing import Any

from langchain_core.messages import AIMessage
from langgraph.graph import START, StateGraph

from mnemic.service.memory import Mnemic
from mnemic.state.identity import Identity
from tests.support.savers import Durability
from tests.support.threads import Talk, said, words

STEPS = ("plan", "act", "tell")
#: Files in the host's folder: a step waits while its own one is there, and says that it does; each notes that it ran.
_HELD, _WAITING, _RUNS = "hold {}", "waiting in {}", "runs of {}"


def hold(folder: Path, step: str) -> None:
    """The step will wait."""
    (folder / _HELD.format(step)).touch()


def let_go(folder: Path, step: str) -> None:
    """It waits no longer."""
    (folder / _HELD.format(step)).unlink()


def is_waiting(folder: Path, step: str) -> bool:
    """Whether it has come that far."""
    return (folder / _WAITING.format(step)).exists()


def runs(folder: Path) -> dict[str, int]:
    """How often each step has run to its end, in all processes."""
    files = {step: folder / _RUNS.format(step) for step in STEPS}
    return {step: len(file.read_text()) if file.exists() else 0 for step, file in files.items()}


async def turn(
    memory: Mnemic, who: Identity, folder: Path, text: str | None, durability: Durability = "sync"
) -> list[str]:
    """One turn of the thread; without a text it goes on where it was broken off. What was said until then."""
    given = said(text) if text is not None else None
    return words(await _host(memory, folder).ainvoke(given, memory.thread(who), durability=durability))


async def saved(memory: Mnemic, who: Identity, folder: Path) -> tuple[list[str], list[str]]:
    """What the thread holds, and the steps that are not over: those that are done and wait to be applied too."""
    state = await _host(memory, folder).aget_state(memory.thread(who))
    return words({"messages": [], **state.values}), [task.name for task in state.tasks]


async def _step(name: str, folder: Path, state: Talk) -> Talk:
    while (folder / _HELD.format(name)).exists():
        (folder / _WAITING.format(name)).touch()
        await asyncio.sleep(0.01)
    heard = next(str(one.content) for one in reversed(state["messages"]) if one.type == "human")
    with (folder / _RUNS.format(name)).open("a") as file:
        file.write(".")
    return {"messages": [AIMessage(f"{name} {heard}")]}


def _host(memory: Mnemic, folder: Path) -> Any:
    graph = StateGraph(Talk)
    for before, step in zip((START, *STEPS), STEPS, strict=False):
        graph.add_node(step, partial(_step, step, folder))
        graph.add_edge(before, step)
    return graph.compile(checkpointer=memory.checkpointer())
