"""`kill -9` at six points of a formation: what was told is formed once, whoever comes after and however often."""

from collections.abc import Callable, Mapping

import psycopg
import pytest

from tests.faults.checker import check_exactly_once, pending
from tests.faults.jobs import job
from tests.faults.processes import StartWorker
from tests.faults.strikes import UNSETTLED_FORMATION, Command, Scene, Strike, at_lock, in_request, repeat
from tests.faults.traps import EMBEDDINGS, TrappedModel
from tests.support.scripted import CONSOLIDATION, DECISIONS, FACTS, REFLECTIONS, decision, decisions
from tests.support.server import Clone
from tests.support.worlds import expire_leases

pytestmark = pytest.mark.thorough

#: Formed before anything fails: the other one finds a fact to close, and makes a consolidation due.
EARLIER, JOB = job(1), job(2)
FORM = Command("form", (JOB.who,))
AFTER_COMMIT = in_request(CONSOLIDATION, FORM)

STRIKES: Mapping[str, Strike] = {
    "extracting facts": in_request(FACTS, FORM),
    "embedding": in_request(EMBEDDINGS, FORM),
    "deciding": in_request(DECISIONS, FORM),
    "extracting reflections": in_request(REFLECTIONS, FORM),
    "saving": at_lock("lock table mnemic.scopes in access exclusive mode", FORM, after=REFLECTIONS),
    "saved, not acknowledged": AFTER_COMMIT,
}

DieAndFinish = Callable[..., None]


@pytest.fixture
def die_and_finish(
    start_worker: StartWorker, model: TrappedModel, clean_db: Clone, superuser: psycopg.Connection
) -> DieAndFinish:
    """One worker dies of a strike; others, one or two at once, do its work again."""

    def run(strike: Strike, *, others: int = 1, sabotage: Mapping[str, str] | None = None) -> None:
        victim = start_worker(sabotage=sabotage, user_threshold=2, lock_timeout_seconds=60)
        successors = [start_worker(user_threshold=2) for _ in range(others)]
        successors[0].do("observe", EARLIER.who, EARLIER.messages)
        successors[0].do("form", EARLIER.who)
        victim.do("observe", JOB.who, JOB.messages)
        model.answer(DECISIONS, decisions(decision(1, "DELETE", 1)))
        strike(Scene(victim, model, clean_db, superuser))
        expire_leases(superuser)
        if others > 1:
            for worker in successors:
                worker.ask("observe", JOB.who, JOB.messages)
            assert [worker.answer().result.accepted for worker in successors] == [0] * others
        repeat(successors, FORM, until=lambda: pending(superuser) == 0)

    return run


@pytest.mark.parametrize("others", [1, 2], ids=["again", "again twice at once, delivered anew"])
@pytest.mark.parametrize("strike", STRIKES.values(), ids=STRIKES)
def test_a_formation_killed_here_is_done_once(
    die_and_finish: DieAndFinish, superuser: psycopg.Connection, strike: Strike, others: int
) -> None:
    die_and_finish(strike, others=others)

    check_exactly_once(superuser, [EARLIER, JOB])
    closed = superuser.execute("select content ~ 'crate 1 ' from mnemic.memories where state = 'superseded'").fetchall()
    assert closed == [(True,)]


def test_who_does_not_insist_waits_for_the_lease_of_the_dead(
    start_worker: StartWorker, model: TrappedModel, clean_db: Clone, superuser: psycopg.Connection
) -> None:
    victim, other = (start_worker(lease_seconds=600, formation_messages=len(JOB.messages)) for _ in range(2))
    victim.do("observe", JOB.who, JOB.messages)
    STRIKES["extracting reflections"](Scene(victim, model, clean_db, superuser))
    waiting = other.do("form", JOB.who, force=False)
    expire_leases(superuser)
    runs = other.do("form", JOB.who, force=False)

    assert [run["waits"] for run in waiting] == ["leased"]
    assert [run["reason"] for run in runs] == ["messages"]
    check_exactly_once(superuser, [JOB])


def test_control_a_formation_that_settles_apart_from_its_save_is_done_twice(
    die_and_finish: DieAndFinish, superuser: psycopg.Connection
) -> None:
    die_and_finish(AFTER_COMMIT, sabotage=UNSETTLED_FORMATION)

    with pytest.raises(AssertionError, match="what a session told is not stored exactly once"):
        check_exactly_once(superuser, [EARLIER, JOB])
