"""`kill -9` at every point of a refinement: the next run ends the session, and nothing was done twice or halfway."""

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import LiteralString

import psycopg
import pytest

from mnemic.state.errors import ConcurrentChangeError, RefinementRunningError
from tests.faults.processes import PATIENCE_SECONDS, StartWorker
from tests.faults.refining import REFINING, all_ended, check_refined_once, happened, script_refinement, settle_in
from tests.faults.strikes import Scene, Strike, at_lock, in_request, repeat
from tests.faults.traps import EMBEDDINGS, REFINE, TrappedModel, await_no_transaction
from tests.support.server import Clone
from tests.support.worlds import expire_leases

pytestmark = pytest.mark.thorough


def ended_unheard(scene: Scene) -> None:
    """The victim dies once its session has ended, and nobody hears of it."""
    REFINING.ask(scene.victim)
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not all_ended(scene.superuser):
        assert time.monotonic() < deadline, "the session does not end"
        time.sleep(0.005)
    scene.victim.kill()
    await_no_transaction(scene.superuser)


def at_memory(said: LiteralString) -> Strike:
    """The victim dies in the operation that changes memories which say this."""
    return at_lock(f"select from mnemic.memories where content like '%{said}%' for update", REFINING)


#: Where, and how many changes of memories are committed by then.
STRIKES: Mapping[str, tuple[Strike, int]] = {
    "beginning": (at_lock("lock table mnemic.refinements in access exclusive mode", REFINING), 0),
    "removing duplicates": (at_memory("crate 61"), 0),
    "in the first turn": (in_request(REFINE, REFINING), 1),
    "noting what it cost": (
        at_lock("lock table mnemic.token_usage in access exclusive mode", REFINING, after=REFINE),
        1,
    ),
    "merging": (at_memory("alpha"), 1),
    "merging again": (at_memory("beta"), 3),
    "embedding an update": (in_request(EMBEDDINGS, REFINING), 6),
    "updating": (at_memory("length"), 6),
    "in the second turn": (in_request(REFINE, REFINING, nth=2), 7),
    "deleting": (at_memory("obsolete"), 7),
    "protecting": (at_memory("promise"), 8),
    "about to complete": (in_request(EMBEDDINGS, REFINING, nth=2), 9),
    "completing": (
        at_lock("lock table mnemic.entries in access exclusive mode", REFINING, after=EMBEDDINGS, nth=2),
        9,
    ),
    "ended, not acknowledged": (ended_unheard, 9),
}
#: Puts memories together without closing what it put together.
UNCLOSED_MERGE = {
    "refinements.close_merged": (
        "select m.id from memories m where m.agent_id = %(agent_id)s and m.id = any(%(ids)s)"
        " and cardinality(%(versions)s::integer[]) > 0"
    )
}

DieAndFinish = Callable[..., int]


@pytest.fixture
def die_and_finish(
    start_worker: StartWorker, model: TrappedModel, clean_db: Clone, superuser: psycopg.Connection
) -> DieAndFinish:
    """One worker dies of a strike; others, one or two at once, are asked for the same. How much the first had done."""

    def run(strike: Strike, *, others: int = 1, sabotage: Mapping[str, str] | None = None) -> int:
        async def prepare() -> None:
            async with clean_db.database() as database:
                await settle_in(database)

        victim = start_worker(sabotage=sabotage, lock_timeout_seconds=60)
        successors = [start_worker() for _ in range(others)]
        script_refinement(model)
        asyncio.run(prepare())
        strike(Scene(victim, model, clean_db, superuser))
        done = sum(happened(superuser).values())
        expire_leases(superuser)
        repeat(
            successors,
            REFINING,
            until=lambda: all_ended(superuser),
            expected=(ConcurrentChangeError, RefinementRunningError),
        )
        return done

    return run


@pytest.mark.parametrize(
    ("where", "others"),
    [*((where, 1) for where in STRIKES), ("in the first turn", 2), ("merging", 2), ("completing", 2)],
)
def test_a_refinement_killed_here_is_ended_by_the_next_and_does_everything_once(
    die_and_finish: DieAndFinish, clean_db: Clone, where: str, others: int
) -> None:
    strike, done = STRIKES[where]

    assert die_and_finish(strike, others=others) == done
    check_refined_once(clean_db)


def test_control_a_merge_that_leaves_the_merged_is_noticed(die_and_finish: DieAndFinish, clean_db: Clone) -> None:
    die_and_finish(STRIKES["embedding an update"][0], sabotage=UNCLOSED_MERGE)

    with pytest.raises(AssertionError, match="a merge is not one operation with all that belongs to it"):
        check_refined_once(clean_db)
