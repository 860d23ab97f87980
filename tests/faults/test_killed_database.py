"""A database that is killed, cuts connections, or fails while workers do: what was acknowledged is there, once."""

import asyncio
import itertools
import random
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from signal import SIGKILL

import psycopg
import pytest

from mnemic.memory.runtime.resources import Resources
from mnemic.service.memory import Mnemic
from mnemic.state.errors import ConcurrentChangeError, DatabaseUnavailableError, ModelError
from mnemic.state.settings import Settings
from tests.faults.checker import check_exactly_once, pending
from tests.faults.jobs import Job, job, script_jobs, some_jobs
from tests.faults.processes import NO_DATABASE, PATIENCE_SECONDS, CrashingServer, Worker, WorkerDiedError
from tests.faults.strikes import (
    CUT,
    Command,
    Fault,
    TrappedModel,
    cut_connections,
    freeze_worker,
    kill_database,
    kill_worker,
    repeat,
    wait_until,
)
from tests.support.scripted import FACTS, REFLECTIONS, scripted_resources, scripted_settings
from tests.support.server import Clone
from tests.support.worlds import expire_leases

JOB = job(1)
FORM = Command("form", (JOB.who,))


@pytest.mark.thorough
def test_worker_survives_its_database_and_an_old_lease_hides_no_failure(
    crashing: CrashingServer, model: TrappedModel
) -> None:
    settings = scripted_settings(crashing.clone, model, pool_timeout_seconds=0.5)
    with Worker(settings) as worker:
        assert worker.do("observe", JOB.who, JOB.messages).accepted == len(JOB.messages)
        model.answer(FACTS, 401)
        model.at(FACTS, crashing.kill)
        FORM.ask(worker)
        assert worker.answer().error is ModelError
        worker.ask("observe", JOB.who, JOB.messages)
        assert worker.answer().error is DatabaseUnavailableError
        crashing.restart()
        with crashing.clone.as_superuser() as superuser:
            assert superuser.execute("select holder is not null, failures from mnemic.leases").fetchall() == [(True, 0)]
            expire_leases(superuser)
        script_jobs(model)
        model.at(REFLECTIONS, crashing.kill)
        repeat([worker], FORM, until=lambda: True, expected=(DatabaseUnavailableError,))
        crashing.restart()
        with crashing.clone.as_superuser() as superuser:
            expire_leases(superuser)
            repeat([worker], FORM, until=lambda: pending(superuser) == 0, expected=(DatabaseUnavailableError,))
            check_exactly_once(superuser, [JOB])


async def recall_all(memory: Mnemic) -> int:
    """How often a hundred recalls had to come until they all had their memory."""
    for attempt in itertools.count(1):
        contexts = await asyncio.gather(*(memory.recall(JOB.who, search="never") for _ in range(100)))
        if not any(context.degraded for context in contexts):
            return attempt
    raise AssertionError


@pytest.mark.thorough
def test_many_tasks_of_many_processes_start_the_embedded_server_again_once(
    crashing: CrashingServer, model: TrappedModel
) -> None:
    settings = scripted_settings(crashing.clone, model, database_url=None, data_dir=crashing.base)
    with Worker(settings) as first, Worker(settings) as another:
        for worker in (first, another):
            assert worker.do(recall_all) == 1
        begun = crashing.starts()
        crashing.kill()
        for worker in (first, another):
            worker.ask(recall_all)
        for worker in (first, another):
            assert worker.answer().result
        assert crashing.starts() == begun + 1


# -- connections that the server ends while a model works, as a restart or an administrator does


async def fill_pool(resources: Resources, connections: int) -> None:
    """So many connections lie idle afterwards."""
    everybody = asyncio.Barrier(connections)

    async def hold() -> None:
        async with resources.database.transaction(JOB.who):
            await everybody.wait()

    await asyncio.gather(*(hold() for _ in range(connections)))


# the control needs a second dead one: noting what a step cost meets the first, and a failure of that is only logged
@pytest.mark.parametrize(
    "is_checked", [True, pytest.param(False, marks=pytest.mark.thorough)], ids=["", "control: unchecked"]
)
async def test_no_dead_connection_is_handed_out(
    clean_db: Clone, model: TrappedModel, superuser: psycopg.Connection, is_checked: bool
) -> None:
    async with scripted_resources(clean_db, model) as resources:
        if not is_checked:
            resources.database.pool._check = None
        memory = Mnemic(resources)
        await memory.observe(JOB.who, JOB.messages)
        await fill_pool(resources, 3)
        model.at(REFLECTIONS, lambda: superuser.execute(CUT))

        if is_checked:
            await memory.form(JOB.who)
            check_exactly_once(superuser, [JOB])
        else:
            with pytest.raises(DatabaseUnavailableError):
                await memory.form(JOB.who)


# -- faults anywhere: what the checker finds where a guard is missing, the controls at known points show


def is_done(worker: Worker, job: Job) -> bool:
    """Whether the worker says that nothing of the job is pending; else it has tried to form it."""
    for method, *arguments in (("observe", job.who, job.messages), ("form", job.who)):
        worker.ask(method, *arguments)
        answer = worker.answer()
        assert answer.error in (None, ConcurrentChangeError, DatabaseUnavailableError), answer.error
        if answer.error or (method == "observe" and answer.result.pending == 0):
            return answer.error is None
    return False


def do_all(settings: Settings, jobs: Sequence[Job], faults: Sequence[Fault], *, size: int, seed: int) -> None:
    """Every job is done, by so many workers, and faults strike at even distances on the way.

    A job goes to anybody, and to several, as from a queue that delivers again, until a worker says that it is done. Who
    dies is replaced.
    """
    chance, done = random.Random(seed), set[int]()
    workers = [Worker(settings) for _ in range(size)]

    def drive(place: int) -> None:
        deadline = time.monotonic() + PATIENCE_SECONDS + len(jobs)
        while left := [job for job in jobs if job.number not in done]:
            assert time.monotonic() < deadline, f"{len(left)} jobs are left"
            job, worker = chance.choice(left), workers[place]
            try:
                if is_done(worker, job):
                    done.add(job.number)
            except WorkerDiedError:
                worker.await_death()
                assert worker.process.exitcode in (-SIGKILL, NO_DATABASE), worker.process.exitcode
                workers[place] = Worker(settings)
                worker.close()

    def strike(fault: Fault, due: int) -> None:
        wait_until(lambda: len(done) >= due, "the jobs do not get done")
        time.sleep(chance.uniform(0, 0.1))  # anywhere in what the workers do just now
        fault(workers, chance)

    try:
        with ThreadPoolExecutor(size) as threads:
            drivers = [threads.submit(drive, place) for place in range(size)]
            for place, fault in enumerate(faults, start=1):
                strike(fault, place * len(jobs) // (len(faults) + 1))
            for driver in drivers:
                driver.result()
    finally:
        for worker in workers:
            worker.close()


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("count", "size", "each", "seed"),
    [
        pytest.param(20, 3, 1, 11),
        *[pytest.param(300, 5, 8, seed, marks=pytest.mark.slow) for seed in (1, 2, 3)],
    ],
)
def test_every_job_is_done_once_whatever_happens(
    crashing: CrashingServer, model: TrappedModel, count: int, size: int, each: int, seed: int
) -> None:
    jobs = some_jobs(count)
    settings = scripted_settings(crashing.clone, model, lease_seconds=1, pool_timeout_seconds=0.5)
    faults = [*[kill_worker] * 3, *[freeze_worker] * 2, kill_database(crashing), cut_connections(crashing.clone)] * each
    do_all(settings, jobs, random.Random(seed).sample(faults, len(faults)), size=size, seed=seed)

    with crashing.clone.as_superuser() as superuser:
        check_exactly_once(superuser, jobs)
