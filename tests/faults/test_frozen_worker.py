"""SIGSTOP past a lease: who wakes up after others have done the work writes nothing."""

from collections.abc import Mapping

import psycopg
import pytest

from mnemic.state.errors import ConcurrentChangeError, DatabaseUnavailableError
from tests.faults.checker import check_exactly_once, pending, unabsorbed
from tests.faults.jobs import job
from tests.faults.processes import StartWorker, Worker
from tests.faults.strikes import UNFENCED_CONSOLIDATION, UNFENCED_FORMATION, Command, repeat
from tests.faults.traps import Roadblock, TrappedModel, await_no_transaction
from tests.support.scripted import CONSOLIDATION, REFLECTIONS
from tests.support.server import Clone

pytestmark = pytest.mark.thorough

JOBS = [job(1), job(2), job(3)]
FIRST, SECOND, THIRD = JOBS
FORM = Command("form", (FIRST.who,))
CONSOLIDATE = Command("consolidate", (FIRST.who, "user:ana"))


def freeze_in(model: TrappedModel, step: str, command: Command, sleeper: Worker, *, nth: int = 1) -> None:
    """The worker stands still while the model works for it; its lease runs on."""
    frozen = model.at(step, sleeper.freeze, nth=nth)
    command.ask(sleeper)
    assert frozen.wait(30)


@pytest.mark.parametrize("sabotage", [None, UNFENCED_FORMATION], ids=["", "control: unfenced"])
def test_a_formation_frozen_past_its_lease_stores_nothing(
    start_worker: StartWorker, model: TrappedModel, superuser: psycopg.Connection, sabotage: Mapping[str, str] | None
) -> None:
    sleeper, other = start_worker(sabotage=sabotage), start_worker()
    sleeper.do("observe", FIRST.who, FIRST.messages)
    freeze_in(model, REFLECTIONS, FORM, sleeper)
    repeat([other], FORM, until=lambda: pending(superuser) == 0)
    sleeper.thaw()
    woken = sleeper.answer()

    if sabotage is None:
        assert (woken.error, woken.result) == (None, [])  # it looked again, and nothing was left
        check_exactly_once(superuser, [FIRST])
    else:
        assert woken.error is None
        with pytest.raises(AssertionError, match="what a session told is not stored exactly once"):
            check_exactly_once(superuser, [FIRST])


@pytest.mark.parametrize("sabotage", [None, UNFENCED_CONSOLIDATION], ids=["", "control: unfenced"])
def test_a_consolidation_frozen_past_its_lease_writes_nothing(
    start_worker: StartWorker, model: TrappedModel, superuser: psycopg.Connection, sabotage: Mapping[str, str] | None
) -> None:
    sleeper, other = start_worker(sabotage=sabotage), start_worker()
    for told in JOBS[:2]:
        other.do("observe", told.who, told.messages)
        other.do("form", told.who)
        if told is FIRST:
            other.do("consolidate", told.who, "user:ana", force=True)
    freeze_in(model, CONSOLIDATION, CONSOLIDATE, sleeper, nth=2)
    other.do("observe", THIRD.who, THIRD.messages)
    other.do("form", THIRD.who)
    repeat([other], CONSOLIDATE, until=lambda: unabsorbed(superuser) == 0)
    sleeper.thaw()
    outcome = sleeper.answer().result["outcome"]

    if sabotage is None:
        assert outcome == "stale"
        check_exactly_once(superuser, JOBS)
    else:
        assert outcome == "saved"
        with pytest.raises(AssertionError, match="does not hold just what it absorbed"):
            check_exactly_once(superuser, JOBS)


def test_a_save_frozen_in_its_transaction_is_ended_by_the_server(
    start_worker: StartWorker, model: TrappedModel, clean_db: Clone, superuser: psycopg.Connection
) -> None:
    sleeper, other = start_worker(lock_timeout_seconds=60), start_worker()
    sleeper.do("observe", FIRST.who, FIRST.messages)
    with Roadblock(clean_db.superuser_dsn, "lock table mnemic.scopes in access exclusive mode") as road:
        model.at(REFLECTIONS, road.close)
        FORM.ask(sleeper)
        road.await_victim()
        sleeper.freeze()
    await_no_transaction(superuser, but=1)  # the other worker's start is over
    repeat(
        [other],
        FORM,
        until=lambda: pending(superuser) == 0,
        expected=(ConcurrentChangeError, DatabaseUnavailableError),
    )
    sleeper.thaw()

    assert sleeper.answer().error in (ConcurrentChangeError, DatabaseUnavailableError)
    check_exactly_once(superuser, [FIRST])
