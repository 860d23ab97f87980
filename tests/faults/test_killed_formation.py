"""`kill -9` at each point of a formation and of a consolidation, and SIGSTOP past a lease: all of it is done once."""

from collections.abc import Callable, Mapping

import psycopg
import pytest

from mnemic.state.errors import ConcurrentChangeError, DatabaseUnavailableError
from tests.faults.checker import check_exactly_once, pending, unabsorbed
from tests.faults.jobs import job
from tests.faults.processes import StartWorker
from tests.faults.strikes import (
    EMBEDDINGS,
    UNFENCED_CONSOLIDATION,
    UNFENCED_FORMATION,
    UNSETTLED_FORMATION,
    UNWRITTEN_CONSOLIDATION,
    Command,
    Roadblock,
    Scene,
    Strike,
    TrappedModel,
    at_lock,
    await_no_transaction,
    freeze_in,
    in_request,
    repeat,
)
from tests.support.scripted import CONSOLIDATION, DECISIONS, FACTS, REFLECTIONS, decision, decisions
from tests.support.server import Clone
from tests.support.worlds import expire_leases

pytestmark = pytest.mark.thorough

#: The first is formed, and for a consolidation in the text, before anything fails. The last is formed by who dies.
JOBS = [job(number) for number in range(1, 5)]
EARLIER, JOB = JOBS[:2]
LAST = JOBS[-1]
FORM = Command("form", (JOB.who,))
#: Forms the last session, and consolidates on the way.
FORM_LAST = Command("form", (LAST.who,))
CONSOLIDATE = Command("consolidate", (LAST.who, "user:ana"))
FORMED_UNHEARD = in_request(CONSOLIDATION, FORM)
#: What the next formation reads first, and a consolidation never.
ABSORBED_UNHEARD = at_lock("lock table mnemic.messages in access exclusive mode", FORM_LAST, after=CONSOLIDATION, nth=2)

FORMATION: Mapping[str, Strike] = {
    "extracting facts": in_request(FACTS, FORM),
    "embedding": in_request(EMBEDDINGS, FORM),
    "deciding": in_request(DECISIONS, FORM),
    "extracting reflections": in_request(REFLECTIONS, FORM),
    "saving": at_lock("lock table mnemic.scopes in access exclusive mode", FORM, after=REFLECTIONS),
    "saved, not acknowledged": FORMED_UNHEARD,
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
    "saved, not acknowledged": ABSORBED_UNHEARD,
}

Work = Callable[..., None]


@pytest.fixture
def form_in_spite(
    start_worker: StartWorker, model: TrappedModel, clean_db: Clone, superuser: psycopg.Connection
) -> Work:
    """One worker dies of a strike while it forms; others, one or two at once, do its work again."""

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


@pytest.fixture
def consolidate_in_spite(
    start_worker: StartWorker, model: TrappedModel, clean_db: Clone, superuser: psycopg.Connection
) -> Work:
    """One worker dies of a strike while it consolidates; others, one or two at once, do its work again."""

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
        repeat(successors, FORM_LAST, until=lambda: pending(superuser) == 0)

    return run


@pytest.mark.parametrize("others", [1, 2], ids=["again", "again twice at once, delivered anew"])
@pytest.mark.parametrize("strike", FORMATION.values(), ids=FORMATION)
def test_a_formation_killed_here_is_done_once(
    form_in_spite: Work, superuser: psycopg.Connection, strike: Strike, others: int
) -> None:
    form_in_spite(strike, others=others)

    check_exactly_once(superuser, [EARLIER, JOB])
    closed = superuser.execute("select content ~ 'crate 1 ' from mnemic.memories where state = 'superseded'").fetchall()
    assert closed == [(True,)]


def test_who_does_not_insist_waits_for_the_lease_of_the_dead(
    start_worker: StartWorker, model: TrappedModel, clean_db: Clone, superuser: psycopg.Connection
) -> None:
    victim, other = (start_worker(lease_seconds=600, formation_messages=len(JOB.messages)) for _ in range(2))
    victim.do("observe", JOB.who, JOB.messages)
    FORMATION["extracting reflections"](Scene(victim, model, clean_db, superuser))
    waiting = other.do("form", JOB.who, force=False)
    expire_leases(superuser)
    runs = other.do("form", JOB.who, force=False)

    assert [run["waits"] for run in waiting] == ["leased"]
    assert [run["reason"] for run in runs] == ["messages"]
    check_exactly_once(superuser, [JOB])


def test_control_a_formation_that_settles_apart_from_its_save_is_done_twice(
    form_in_spite: Work, superuser: psycopg.Connection
) -> None:
    form_in_spite(FORMED_UNHEARD, sabotage=UNSETTLED_FORMATION)

    with pytest.raises(AssertionError, match="what a session told is not stored exactly once"):
        check_exactly_once(superuser, [EARLIER, JOB])


@pytest.mark.parametrize("others", [1, 2], ids=["again", "again twice at once"])
@pytest.mark.parametrize("strike", ABSORPTION.values(), ids=ABSORPTION)
def test_a_consolidation_killed_here_is_done_once(
    consolidate_in_spite: Work, superuser: psycopg.Connection, strike: Strike, others: int
) -> None:
    consolidate_in_spite(strike, others=others)

    check_exactly_once(superuser, JOBS)
    assert superuser.execute(
        "select count(*), count(distinct memory_id) from mnemic.history where event = 'ABSORB'"
    ).fetchone() in [(3, 3), (4, 4)]


def test_control_a_consolidation_that_loses_its_text_is_noticed(
    consolidate_in_spite: Work, superuser: psycopg.Connection
) -> None:
    consolidate_in_spite(ABSORBED_UNHEARD, sabotage=UNWRITTEN_CONSOLIDATION)

    with pytest.raises(AssertionError, match="does not hold just what it absorbed"):
        check_exactly_once(superuser, JOBS)


# -- frozen past its lease: who wakes up after others have done the work writes nothing

FORM_FIRST = Command("form", (EARLIER.who,))
CONSOLIDATE_FIRST = Command("consolidate", (EARLIER.who, "user:ana"))


@pytest.mark.parametrize("sabotage", [None, UNFENCED_FORMATION], ids=["", "control: unfenced"])
def test_a_formation_frozen_past_its_lease_stores_nothing(
    start_worker: StartWorker, model: TrappedModel, superuser: psycopg.Connection, sabotage: Mapping[str, str] | None
) -> None:
    sleeper, other = start_worker(sabotage=sabotage), start_worker()
    sleeper.do("observe", EARLIER.who, EARLIER.messages)
    freeze_in(model, REFLECTIONS, FORM_FIRST, sleeper)
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
            other.do("consolidate", told.who, "user:ana", force=True)
    freeze_in(model, CONSOLIDATION, CONSOLIDATE_FIRST, sleeper, nth=2)
    other.do("observe", JOBS[2].who, JOBS[2].messages)
    other.do("form", JOBS[2].who)
    repeat([other], CONSOLIDATE_FIRST, until=lambda: unabsorbed(superuser) == 0)
    sleeper.thaw()
    outcome = sleeper.answer().result["outcome"]

    if sabotage is None:
        assert outcome == "stale"
        check_exactly_once(superuser, JOBS[:3])
    else:
        assert outcome == "saved"
        with pytest.raises(AssertionError, match="does not hold just what it absorbed"):
            check_exactly_once(superuser, JOBS[:3])


def test_a_save_frozen_in_its_transaction_is_ended_by_the_server(
    start_worker: StartWorker, model: TrappedModel, clean_db: Clone, superuser: psycopg.Connection
) -> None:
    sleeper, other = start_worker(lock_timeout_seconds=60), start_worker()
    sleeper.do("observe", EARLIER.who, EARLIER.messages)
    with Roadblock(clean_db.superuser_dsn, "lock table mnemic.scopes in access exclusive mode") as road:
        model.at(REFLECTIONS, road.close)
        FORM_FIRST.ask(sleeper)
        road.await_victim()
        sleeper.freeze()
    await_no_transaction(superuser, but=1)  # the other worker's start is over
    repeat(
        [other],
        FORM_FIRST,
        until=lambda: pending(superuser) == 0,
        expected=(ConcurrentChangeError, DatabaseUnavailableError),
    )
    sleeper.thaw()

    assert sleeper.answer().error in (ConcurrentChangeError, DatabaseUnavailableError)
    check_exactly_once(superuser, [EARLIER])
