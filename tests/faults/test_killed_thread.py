"""`kill -9` in the middle of an agent's turn: in a process started anew the thread goes on, and nothing is lost.

The agent is a host's own, over Mnemic's checkpointer: three steps, each of which can be held up by a file.
"""

import asyncio
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import psycopg
import pytest
from langchain_core.messages import AIMessage
from langgraph.graph import START, StateGraph

from mnemic.service.memory import Mnemic
from mnemic.state.identity import Identity
from tests.faults.processes import StartWorker, Worker
from tests.faults.strikes import Roadblock, await_no_transaction, wait_until
from tests.support.server import Clone
from tests.support.threads import Durability, Talk, misplaced, said, words
from tests.support.worlds import identity

pytestmark = pytest.mark.thorough

ANA = identity("ana", session="s1")
BO = identity("bo", session="s1")


STEPS = ("plan", "act", "tell")
#: Files in the host's folder: a step waits while its own one is there, and says that it does; each notes that it ran.
_HELD, _WAITING, _RUNS = "hold {}", "waiting in {}", "runs of {}"


def runs(folder: Path) -> dict[str, int]:
    """How often each step has run to its end, in all processes."""
    files = {step: folder / _RUNS.format(step) for step in STEPS}
    return {step: len(file.read_text()) if file.exists() else 0 for step, file in files.items()}


async def turn(
    memory: Mnemic, who: Identity, folder: Path, text: str | None, durability: Durability = "sync"
) -> list[str]:
    """One turn of the thread; without a text it goes on where it was broken off. What was said until then."""
    given = said(text) if text is not None else None
    return words(await _host(memory, folder).ainvoke(given, memory.threads.config(who), durability=durability))


async def saved(memory: Mnemic, who: Identity, folder: Path) -> tuple[list[str], list[str]]:
    """What the thread holds, and the steps that are not over: those that are done and wait to be applied too."""
    state = await _host(memory, folder).aget_state(memory.threads.config(who))
    return words({"messages": [], **state.values}), [task.name for task in state.tasks]


async def _step(name: str, folder: Path, state: Talk) -> Talk:
    while (folder / _HELD.format(name)).exists():
        (folder / _WAITING.format(name)).touch()
        await asyncio.sleep(0.01)
    heard = next(str(message.content) for message in reversed(state["messages"]) if message.type == "human")
    with (folder / _RUNS.format(name)).open("a") as file:
        file.write(".")
    return {"messages": [AIMessage(f"{name} {heard}")]}


def _host(memory: Mnemic, folder: Path) -> Any:
    graph = StateGraph(Talk)
    for before, step in zip((START, *STEPS), STEPS, strict=False):
        graph.add_node(step, partial(_step, step, folder))
        graph.add_edge(before, step)
    return graph.compile(checkpointer=memory.threads.checkpointer())


# -- how it is killed


def told(*texts: str) -> list[str]:
    """What a thread holds after these turns."""
    return [line for text in texts for line in (text, *(f"{step} {text}" for step in STEPS))]


#: Kills the victim somewhere after this step has begun.
Strike = Callable[[Worker, Path, str, Clone], None]


def within(victim: Worker, folder: Path, step: str, db: Clone) -> None:
    """While it works, and nothing is being saved."""
    victim.kill()
    (folder / _HELD.format(step)).unlink()


def saving(table: str) -> Strike:
    """While what the step said waits for a table."""

    def strike(victim: Worker, folder: Path, step: str, db: Clone) -> None:
        with Roadblock(db.superuser_dsn, f"lock table mnemic.{table} in access exclusive mode") as road:
            road.close()
            (folder / _HELD.format(step)).unlink()
            road.await_victim()
            victim.kill()

    return strike


STRIKES: dict[str, Strike] = {
    "at work": within,
    "saving what it wrote": saving("checkpoint_writes"),
    "saving its values": saving("checkpoint_blobs"),
    "saving its checkpoint": saving("checkpoints"),
    "saving where it stands": saving("supervisor_checkpoints"),
}


DieAndGoOn = Callable[..., None]


@pytest.fixture
def die_and_go_on(
    start_worker: StartWorker, superuser: psycopg.Connection, clean_db: Clone, tmp_path: Path
) -> DieAndGoOn:
    """One worker dies in the second turn of a thread; another goes on with it, and has a third one."""

    def run(step: str, strike: Strike, durability: Durability = "sync") -> None:
        victim, successor = start_worker(), start_worker()
        assert victim.do(turn, ANA, tmp_path, "one") == told("one")
        (tmp_path / _HELD.format(step)).touch()
        victim.ask(turn, ANA, tmp_path, "two", durability)
        wait_until((tmp_path / _WAITING.format(step)).exists, f"nobody came to {step}")
        strike(victim, tmp_path, step, clean_db)
        await_no_transaction(superuser)

        known, left = successor.do(saved, ANA, tmp_path)
        before = [*told("one"), "two", *(f"{earlier} two" for earlier in STEPS[: STEPS.index(step)])]
        assert known[: len(before)] == before, "something is lost"
        assert misplaced(superuser) == []
        if left:
            successor.do(turn, ANA, tmp_path, None)
        assert successor.do(saved, ANA, tmp_path) == (told("one", "two"), [])
        assert successor.do(turn, ANA, tmp_path, "three") == told("one", "two", "three")
        assert successor.do(saved, BO, tmp_path) == ([], [])
        assert misplaced(superuser) == []

    return run


@pytest.mark.parametrize(
    ("step", "where"),
    [*(("act", where) for where in STRIKES), ("plan", "saving what it wrote"), ("tell", "saving its checkpoint")],
)
def test_a_thread_killed_here_goes_on(die_and_go_on: DieAndGoOn, tmp_path: Path, step: str, where: str) -> None:
    die_and_go_on(step, STRIKES[where])

    counted = runs(tmp_path)
    assert {*counted.values()} <= {3, 4}  # once in each turn; once more where it was not saved in time
    assert all(counted[earlier] == 3 for earlier in STEPS[: STEPS.index(step)])


def test_control_a_turn_that_is_saved_only_at_its_end_is_lost(die_and_go_on: DieAndGoOn) -> None:
    with pytest.raises(AssertionError, match="something is lost"):
        die_and_go_on("tell", within, "exit")
