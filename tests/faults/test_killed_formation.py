"""`kill -9` at each point of a formation and of a consolidation, and SIGSTOP past a lease: all of it is done once."""

from collections.abc import Mapping

import psycopg
import pytest

from tests.faults.checker import check_exactly_once, pending, unabsorbed
from tests.faults.jobs import job
from tests.faults.processes import StartWorker, Worker
from tests.faults.strikes import (
    EMBEDDINGS,
    UNFENCED_CONSOLIDATION,
    UNFENCED_FORMATION,
    UNSETTLED_FORMATION,
    UNWRITTEN_CONSOLIDATION,
    Command,
    Strike,
    Survive,
    TrappedModel,
    at_lock,
    freeze_in,
    in_request,
    repeat,
)
from tests.support.scripted import CONSOLIDATION, DECISIONS, FACTS, REFLECTIONS, decision, decisions
from tests.support.worlds import expire_leases

pytestmark = pytest.mark.thorough

#: The first is formed, and for a consolidation in the text, before anything fails. The last is formed by who dies.
JOBS = [job(number) for number in range(1, 5)]
EARLIER, JOB = JOBS[:2]
LAST = JOBS[-1]
FORM = Command("form", (JOB.who,))
#: Forms the last session, and consolidates on the way.
FORM_LAST = Command("form", (LAST.who,))
CONSOLIDATE = Command("admin.consolidate", (LAST.who, "user:ana"))
UNHEARD = "saved, not acknowledged"
FORMED_UNHEARD = in_request(CONSOLIDATION, FORM)
#: What the next formation reads first, and a consolidation never.
ABSORBED_UNHEARD = at_lock("lock table mnemic.messages in access exclusive mode", FORM_LAST, after=CONSOLIDATION, nth=2)

FORMATION: Mapping[str, Strike] = {
    "extracting facts": in_request(FACTS, FORM),
    "embedding": in_request(EMBEDDINGS, FORM),
    "deciding": in_request(DECISIONS, FORM),
    "extracting reflections": in_request(REFLECTIONS, FORM),
    "saving": at_lock("lock table mnemic.scopes in access exclusive mode", FORM, after=REFLECTIONS),
    UNHEARD: FORMED_UNHEARD,
}
ABSORPTION: Mapping[str, Strike] = {
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
    UNHEARD: ABSORBED_UNHEARD,
}

FORMED = (FORM, lambda superuser: pending(superuser) == 0)
FORMED_LAST = (FORM_LAST, FORMED[1])
ABSORBED = (CONSOLIDATE, lambda superuser: unabsorbed(superuser) == 0)


def told_twice(worker: Worker) -> None:
    """The first session is formed, the second one waits."""
    for telling in JOBS[:2]:
        worker.do("observe", telling.who, telling.messages)
    worker.do("form", EARLIER.who)


def told_often(worker: Worker) -> None:
    """All but the last session are formed, and the first is in the text."""
    for telling in JOBS:
        worker.do("observe", telling.who, telling.messages)
    for telling in JOBS[:-1]:
        worker.do("form", telling.who)
        if telling is EARLIER:
            worker.do("admin.consolidate", telling.who, "user:ana", force=True)


@pytest.mark.parametrize(
    ("where", "others"), [*((where, 1) for where in FORMATION), ("deciding", 2), ("saving", 2), (UNHEARD, 2)]
)
def test_a_formation_killed_here_is_done_once(
    survive: Survive, model: TrappedModel, superuser: psycopg.Connection, where: str, others: int
) -> None:
    def settle(worker: Worker) -> None:
        told_twice(worker)
        model.answer(DECISIONS, decisions(decision(1, "DELETE", 1)))

    survive(FORMATION[where], FORMED, settle=settle, others=others, user_threshold=2)

    check_exactly_once(superuser, [EARLIER, JOB])
    closed = superuser.execute(
        "select content ~ 'crate 1 ' from mnemic.memories where state = 'superseded' and kind = 'fact'"
    ).fetchall()
    assert closed == [(True,)]


@pytest.mark.parametrize(
    ("where", "others"), [*((where, 1) for where in ABSORPTION), ("writing", 2), ("absorbing, the text written", 2)]
)
def test_a_consolidation_killed_here_is_done_once(
    survive: Survive, superuser: psycopg.Connection, where: str, others: int
) -> None:
    survive(ABSORPTION[where], ABSORBED, FORMED_LAST, settle=told_often, others=others, user_threshold=3)

    check_exactly_once(superuser, JOBS)
    assert superuser.execute(
        "select count(*), count(distinct memory_id) from mnemic.history where event = 'ABSORB'"
    ).fetchone() in [(3, 3), (4, 4)]


def test_control_a_formation_settled_apart_from_its_save_runs_twice(
    survive: Survive, superuser: psycopg.Connection
) -> None:
    survive(FORMED_UNHEARD, FORMED, settle=told_twice, sabotage=UNSETTLED_FORMATION, user_threshold=2)

    with pytest.raises(AssertionError, match="what a session told is not stored exactly once"):
        check_exactly_once(superuser, [EARLIER, JOB])


def test_control_a_consolidation_that_loses_its_text_is_noticed(
    survive: Survive, superuser: psycopg.Connection
) -> None:
    finishes = (ABSORBED, FORMED_LAST)
    survive(ABSORBED_UNHEARD, *finishes, settle=told_often, sabotage=UNWRITTEN_CONSOLIDATION, user_threshold=3)

    with pytest.raises(AssertionError, match="does not hold just what it absorbed"):
        check_exactly_once(superuser, JOBS)


# -- frozen past its lease: who wakes up after others have done the work writes nothing

FORM_FIRST = Command("form", (EARLIER.who,))
CONSOLIDATE_FIRST = Command("admin.consolidate", (EARLIER.who, "user:ana"))


@pytest.mark.parametrize("sabotage", [None, UNFENCED_FORMATION], ids=["", "control: unfenced"])
def test_a_formation_frozen_past_its_lease_stores_nothing(
    start_worker: StartWorker, model: TrappedModel, superuser: psycopg.Connection, sabotage: Mapping[str, str] | None
) -> None:
    sleeper, other = start_worker(sabotage=sabotage), start_worker()
    sleeper.do("observe", EARLIER.who, EARLIER.messages)
    freeze_in(model, REFLECTIONS, FORM_FIRST, sleeper)
    expire_leases(superuser)
    repeat([other], FORM_FIRST, until=lambda: pending(superuser) == 0)
    sleeper.thaw()
    woken = sleeper.answer()

    if sabotage is None:
        assert (woken.error, woken.result) == (None, [])  # it looked again, and nothing was left
        check_exactly_once(superuser, [EARLIER])
    else:
        assert woken.error is None
        with pytest.raises(AssertionError, match="what a session told is not stored exactly once"):
            check_exactly_once(superuser, [EARLIER])


@pytest.mark.parametrize("sabotage", [None, UNFENCED_CONSOLIDATION], ids=["", "control: unfenced"])
def test_a_consolidation_frozen_past_its_lease_writes_nothing(
    start_worker: StartWorker, model: TrappedModel, superuser: psycopg.Connection, sabotage: Mapping[str, str] | None
) -> None:
    sleeper, other = start_worker(sabotage=sabotage), start_worker()
    for told in JOBS[:2]:
        other.do("observe", told.who, told.messages)
        other.do("form", told.who)
        if told is EARLIER:
            other.do("admin.consolidate", told.who, "user:ana", force=True)
    freeze_in(model, CONSOLIDATION, CONSOLIDATE_FIRST, sleeper, nth=2)
    expire_leases(superuser)
    other.do("observe", JOBS[2].who, JOBS[2].messages)
    other.do("form", JOBS[2].who)
    repeat([other], CONSOLIDATE_FIRST, until=lambda: unabsorbed(superuser) == 0)
    sleeper.thaw()
    outcome = sleeper.answer().result.outcome

    if sabotage is None:
        assert outcome == "stale"
        check_exactly_once(superuser, JOBS[:3])
    else:
        assert outcome == "saved"
        with pytest.raises(AssertionError, match="does not hold just what it absorbed"):
            check_exactly_once(superuser, JOBS[:3])
