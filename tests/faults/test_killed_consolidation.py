"""`kill -9` at six points of a consolidation: every reflection is taken in once, and the text holds just these."""

from collections.abc import Callable, Mapping

import psycopg
import pytest

from tests.faults.checker import check_exactly_once, pending, unabsorbed
from tests.faults.jobs import job
from tests.faults.processes import StartWorker
from tests.faults.strikes import UNWRITTEN_CONSOLIDATION, Command, Scene, Strike, at_lock, in_request, repeat
from tests.faults.traps import TrappedModel
from tests.support.scripted import CONSOLIDATION
from tests.support.server import Clone
from tests.support.worlds import expire_leases

pytestmark = pytest.mark.thorough

#: The first is in the text before anything fails; the last is only told by then, and makes a consolidation due.
JOBS = [job(number) for number in range(1, 5)]
LAST = JOBS[-1]
CONSOLIDATE = Command("consolidate", (LAST.who, "user:ana"))
#: Forms the last session, and consolidates on the way.
FORM = Command("form", (LAST.who,))
#: What the next formation reads first, and a consolidation never.
AFTER_COMMIT = at_lock("lock table mnemic.messages in access exclusive mode", FORM, after=CONSOLIDATION, nth=2)

STRIKES: Mapping[str, Strike] = {
    "reading": at_lock("lock table mnemic.memories in access exclusive mode", CONSOLIDATE),
    "writing": in_request(CONSOLIDATION, CONSOLIDATE),
    "revising": in_request(CONSOLIDATION, CONSOLIDATE, nth=2),
    "noting what it cost": at_lock(
        "lock table mnemic.token_usage in access exclusive mode", CONSOLIDATE, after=CONSOLIDATION
    ),
    "absorbing, the text written": at_lock(
        "select from mnemic.memories where kind = 'reflection' and state = 'active' for update",
        CONSOLIDATE,
        after=CONSOLIDATION,
        nth=2,
    ),
    "saved, not acknowledged": AFTER_COMMIT,
}

DieAndFinish = Callable[..., None]


@pytest.fixture
def die_and_finish(
    start_worker: StartWorker, model: TrappedModel, clean_db: Clone, superuser: psycopg.Connection
) -> DieAndFinish:
    """One worker dies of a strike; others, one or two at once, do its work again."""

    def run(strike: Strike, *, others: int = 1, sabotage: Mapping[str, str] | None = None) -> None:
        victim = start_worker(sabotage=sabotage, user_threshold=3, lock_timeout_seconds=60)
        successors = [start_worker(user_threshold=3) for _ in range(others)]
        for told in JOBS:
            successors[0].do("observe", told.who, told.messages)
        for told in JOBS[:-1]:
            successors[0].do("form", told.who)
            if told is JOBS[0]:
                successors[0].do("consolidate", told.who, "user:ana", force=True)
        strike(Scene(victim, model, clean_db, superuser))
        expire_leases(superuser)
        repeat(successors, CONSOLIDATE, until=lambda: unabsorbed(superuser) == 0)
        repeat(successors, FORM, until=lambda: pending(superuser) == 0)

    return run


@pytest.mark.parametrize("others", [1, 2], ids=["again", "again twice at once"])
@pytest.mark.parametrize("strike", STRIKES.values(), ids=STRIKES)
def test_a_consolidation_killed_here_is_done_once(
    die_and_finish: DieAndFinish, superuser: psycopg.Connection, strike: Strike, others: int
) -> None:
    die_and_finish(strike, others=others)

    check_exactly_once(superuser, JOBS)
    assert superuser.execute(
        "select count(*), count(distinct memory_id) from mnemic.history where event = 'ABSORB'"
    ).fetchone() in [(3, 3), (4, 4)]


def test_control_a_consolidation_that_loses_its_text_is_noticed(
    die_and_finish: DieAndFinish, superuser: psycopg.Connection
) -> None:
    die_and_finish(AFTER_COMMIT, sabotage=UNWRITTEN_CONSOLIDATION)

    with pytest.raises(AssertionError, match="does not hold just what it absorbed"):
        check_exactly_once(superuser, JOBS)
