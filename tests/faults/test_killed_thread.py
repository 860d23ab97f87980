"""`kill -9` in the middle of an agent's turn: in a process started anew the thread goes on, and nothing is lost."""

import time
from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest

from tests.faults.hosts import STEPS, hold, is_waiting, let_go, runs, saved, turn
from tests.faults.processes import PATIENCE_SECONDS, StartWorker, Worker
from tests.faults.traps import Roadblock, await_no_transaction
from tests.support.savers import Durability
from tests.support.server import Clone
from tests.support.threads import misplaced
from tests.support.worlds import identity

pytestmark = pytest.mark.thorough

ANA = identity("ana", session="s1")
BO = identity("bo", session="s1")


def told(*texts: str) -> list[str]:
    """What a thread holds after these turns."""
    return [said for text in texts for said in (text, *(f"{step} {text}" for step in STEPS))]


def await_step(folder: Path, step: str) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not is_waiting(folder, step):
        assert time.monotonic() < deadline, f"nobody came to {step}"
        time.sleep(0.01)


#: Kills the victim somewhere after this step has begun.
Strike = Callable[[Worker, Path, str, Clone], None]


def within(victim: Worker, folder: Path, step: str, db: Clone) -> None:
    """While it works, and nothing is being saved."""
    victim.kill()
    let_go(folder, step)


def saving(table: str) -> Strike:
    """While what the step said waits for a table."""

    def strike(victim: Worker, folder: Path, step: str, db: Clone) -> None:
        with Roadblock(db.superuser_dsn, f"lock table mnemic.{table} in access exclusive mode") as road:
            road.close()
            let_go(folder, step)
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
        hold(tmp_path, step)
        victim.ask(turn, ANA, tmp_path, "two", durability)
        await_step(tmp_path, step)
        strike(victim, tmp_path, step, clean_db)
        await_no_transaction(superuser)

        known, left = successor.do(saved, ANA, tmp_path)
        before = [*told("one"), "two", *(f"{one} two" for one in STEPS[: STEPS.index(step)])]
        assert known[: len(before)] == before, "something is lost"
        assert misplaced(superuser) == []
        if left:
            successor.do(turn, ANA, tmp_path, None)
        assert successor.do(saved, ANA, tmp_path) == (told("one", "two"), [])
        assert successor.do(turn, ANA, tmp_path, "three") == told("one", "two", "three")
        assert successor.do(saved, BO, tmp_path) == ([], [])
        assert misplaced(superuser) == []

    return run


@pytest.mark.parametrize("strike", STRIKES.values(), ids=STRIKES)
@pytest.mark.parametrize("step", STEPS)
def test_a_thread_killed_here_goes_on(die_and_go_on: DieAndGoOn, tmp_path: Path, step: str, strike: Strike) -> None:
    die_and_go_on(step, strike)

    counted = runs(tmp_path)
    assert {*counted.values()} <= {3, 4}  # once in each turn; once more where it was not saved in time
    assert all(counted[one] == 3 for one in STEPS[: STEPS.index(step)])


def test_control_of_a_turn_that_is_saved_at_its_end_alone_everything_is_lost(die_and_go_on: DieAndGoOn) -> None:
    with pytest.raises(AssertionError, match="something is lost"):
        die_and_go_on("tell", within, "exit")


def test_a_turn_killed_before_its_message_was_saved_is_told_again(
    start_worker: StartWorker, superuser: psycopg.Connection, clean_db: Clone, tmp_path: Path
) -> None:
    victim, successor = start_worker(), start_worker()
    assert victim.do(turn, ANA, tmp_path, "one") == told("one")
    with Roadblock(clean_db.superuser_dsn, "lock table mnemic.supervisor_checkpoints in exclusive mode") as road:
        road.close()
        victim.ask(turn, ANA, tmp_path, "two")
        road.await_victim()
        victim.kill()
        superuser.execute("select pg_terminate_backend(pid) from pg_stat_activity where usename = 'mnemic_app'"
                          " and cardinality(pg_blocking_pids(pid)) > 0")  # fmt: skip
        await_no_transaction(superuser)

    assert successor.do(saved, ANA, tmp_path) == (told("one"), [])
    assert successor.do(turn, ANA, tmp_path, "two") == told("one", "two")
    assert misplaced(superuser) == []
