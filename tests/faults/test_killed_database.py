"""`kill -9` of the database: what was acknowledged is there, the worker says what is wrong and recovers by itself."""

import asyncio
import itertools

import pytest

from mnemic.service.memory import Mnemic
from mnemic.state.errors import DatabaseUnavailableError, ModelError
from tests.faults.checker import check_exactly_once, pending
from tests.faults.crashing import CrashingServer
from tests.faults.fleet import Fleet, kill_database
from tests.faults.jobs import job, script_jobs
from tests.faults.processes import Worker
from tests.faults.strikes import Command, repeat
from tests.faults.traps import TrappedModel
from tests.support.scripted import FACTS, REFLECTIONS, scripted_settings
from tests.support.worlds import expire_leases

pytestmark = pytest.mark.thorough

JOB = job(1)
FORM = Command("form", (JOB.who,))


def test_a_worker_outlives_its_database(crashing: CrashingServer, model: TrappedModel) -> None:
    settings = scripted_settings(crashing.clone, model, lease_seconds=1, pool_timeout_seconds=0.5)
    with Worker(settings) as worker:
        assert worker.do("observe", JOB.who, JOB.messages).accepted == len(JOB.messages)
        model.at(REFLECTIONS, crashing.kill)
        FORM.ask(worker)
        assert worker.answer().error is DatabaseUnavailableError
        worker.ask("observe", JOB.who, JOB.messages)
        assert worker.answer().error is DatabaseUnavailableError
        crashing.restart()
        with crashing.clone.as_superuser() as superuser:
            repeat([worker], FORM, until=lambda: pending(superuser) == 0, expected=(DatabaseUnavailableError,))
            check_exactly_once(superuser, [JOB])


def test_a_lease_that_cannot_be_given_back_hides_no_failure(crashing: CrashingServer, model: TrappedModel) -> None:
    settings = scripted_settings(crashing.clone, model, pool_timeout_seconds=0.5)
    with Worker(settings) as worker:
        worker.do("observe", JOB.who, JOB.messages)
        model.answer(FACTS, 401)
        model.at(FACTS, crashing.kill)
        FORM.ask(worker)
        assert worker.answer().error is ModelError
        crashing.restart()
        script_jobs(model)
        with crashing.clone.as_superuser() as superuser:
            assert superuser.execute("select holder is not null, failures from mnemic.leases").fetchall() == [(True, 0)]
            expire_leases(superuser)
            repeat([worker], FORM, until=lambda: pending(superuser) == 0, expected=(DatabaseUnavailableError,))
            check_exactly_once(superuser, [JOB])


async def recall_all(memory: Mnemic) -> int:
    """How often a hundred recalls had to come until they all had their memory."""
    for attempt in itertools.count(1):
        contexts = await asyncio.gather(*(memory.recall(JOB.who, search="never") for _ in range(100)))
        if not any(context["degraded"] for context in contexts):
            return attempt
    raise AssertionError


def test_many_tasks_of_many_processes_start_the_embedded_server_again_once(
    crashing: CrashingServer, model: TrappedModel
) -> None:
    settings = scripted_settings(crashing.clone, model, database_url=None, data_dir=crashing.base)
    with Worker(settings) as one, Worker(settings) as another:
        for worker in (one, another):
            assert worker.do(recall_all) == 1
        begun = crashing.starts()
        crashing.kill()
        for worker in (one, another):
            worker.ask(recall_all)
        for worker in (one, another):
            assert worker.answer().result
        assert crashing.starts() == begun + 1


@pytest.mark.parametrize("seed", [1])
def test_nothing_acknowledged_is_lost_and_nothing_is_stored_twice(
    crashing: CrashingServer, model: TrappedModel, seed: int
) -> None:
    jobs = [job(number, user=f"user-{number % 4}") for number in range(1, 25)]
    settings = scripted_settings(crashing.clone, model, lease_seconds=1, pool_timeout_seconds=0.5)
    Fleet(settings, size=2).run(jobs, faults=[kill_database(crashing)] * 3, seed=seed)

    with crashing.clone.as_superuser() as superuser:
        check_exactly_once(superuser, jobs)
