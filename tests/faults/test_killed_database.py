"""A database that is killed, cuts connections, or fails while workers do: what was acknowledged is there, once."""

import asyncio
import itertools
import random
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from queue import Empty, Queue
from signal import SIGKILL
from threading import Event, Timer

import psycopg
import pytest

from mnemic.operations.run.resources import Resources
from mnemic.service.memory import Mnemic
from mnemic.state.errors import ConcurrentChangeError, DatabaseUnavailableError, ModelError
from mnemic.state.settings import Settings
from tests.faults.checker import check_exactly_once, pending
from tests.faults.jobs import Job, job, script_jobs
from tests.faults.processes import NO_DATABASE, PATIENCE_SECONDS, Answer, CrashingServer, Worker, WorkerDiedError
from tests.faults.strikes import CUT, Command, TrappedModel, repeat
from tests.support.scripted import FACTS, REFLECTIONS, scripted_resources, scripted_settings
from tests.support.server import Clone
from tests.support.worlds import expire_leases

JOB = job(1)
FORM = Command("form", (JOB.who,))


@pytest.mark.thorough
def test_a_worker_outlives_its_database(crashing: CrashingServer, model: TrappedModel) -> None:
    settings = scripted_settings(crashing.clone, model, pool_timeout_seconds=0.5)
    with Worker(settings) as worker:
        assert worker.do("observe", JOB.who, JOB.messages).accepted == len(JOB.messages)
        model.at(REFLECTIONS, crashing.kill)
        FORM.ask(worker)
        assert worker.answer().error is DatabaseUnavailableError
        worker.ask("observe", JOB.who, JOB.messages)
        assert worker.answer().error is DatabaseUnavailableError
        crashing.restart()
        with crashing.clone.as_superuser() as superuser:
            expire_leases(superuser)
            repeat([worker], FORM, until=lambda: pending(superuser) == 0, expected=(DatabaseUnavailableError,))
            check_exactly_once(superuser, [JOB])


@pytest.mark.thorough
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
        async with resources.database.scoped(JOB.who):
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


def some_jobs(count: int) -> list[Job]:
    """Sessions of several users of several agents, ten or so of each user, so that consolidations become due, too."""
    users = max(2, count // 10)
    return [job(number, user=f"user-{number % users}", agent=f"agent-{number % users % 3}") for number in range(count)]


#: A job goes to another worker after this long.
REDELIVERY_SECONDS = 0.7
#: Past every lease of a second, and past the redelivery.
FROZEN_SECONDS = 2.5
#: Before a job comes again that another run holds.
PAUSE_SECONDS = 0.02

#: Strikes one of the workers, or what they all need.
Fault = Callable[[Sequence[Worker], random.Random], object]


class Fleet:
    """Workers over one list of jobs, each driven by a thread of its own and replaced when it dies.

    A job is delivered to one worker; where no answer comes in time, to another one too, as a queue would do. It is done
    when a worker acknowledges that nothing of it is pending.
    """

    def __init__(self, settings: Settings, *, size: int) -> None:
        self._settings = settings
        self._workers = [Worker(settings) for _ in range(size)]
        self._waiting: Queue[Job] = Queue()
        self._done: set[int] = set()
        self._over = Event()
        self._deadline = 0.0

    def run(self, jobs: Sequence[Job], *, faults: Sequence[Fault], seed: int) -> None:
        """Does every job, and strikes at even distances on the way.

        Raises:
            AssertionError: a worker ended by itself or answered with an error that no fault explains, or jobs are left.
        """
        self._deadline = time.monotonic() + PATIENCE_SECONDS + len(jobs)
        chance = random.Random(seed)
        for waiting in jobs:
            self._waiting.put(waiting)
        with ThreadPoolExecutor(len(self._workers)) as threads:
            drivers = [threads.submit(self._drive, place, len(jobs)) for place in range(len(self._workers))]
            try:
                for place, fault in enumerate(faults):
                    while len(self._done) < (place + 1) * len(jobs) // (len(faults) + 1) and not self._over.is_set():
                        time.sleep(PAUSE_SECONDS)
                    time.sleep(chance.uniform(0, 0.1))  # anywhere in what the others do just now
                    fault(self._workers, chance)
                for driver in drivers:
                    driver.result()
            finally:
                self._over.set()
                for worker in self._workers:
                    worker.close()

    def _drive(self, place: int, jobs: int) -> None:
        try:
            while len(self._done) < jobs and not self._over.is_set():
                assert time.monotonic() < self._deadline, f"{jobs - len(self._done)} jobs are left"
                try:
                    job = self._waiting.get(timeout=PAUSE_SECONDS)
                except Empty:
                    continue
                if job.number not in self._done:
                    self._work(place, job)
        finally:
            self._over.set()

    def _work(self, place: int, job: Job) -> None:
        try:
            is_done = self._deliver(self._workers[place], job)
        except WorkerDiedError:
            is_done = False
            if not self._over.is_set():
                dead = self._workers[place]
                dead.await_death()
                assert dead.exit_code in (-SIGKILL, NO_DATABASE), dead.exit_code
                self._workers[place] = Worker(self._settings)
                dead.close()
        if is_done:
            self._done.add(job.number)
        else:
            self._waiting.put(job)

    def _deliver(self, worker: Worker, job: Job) -> bool:
        """Whether the worker says that nothing of the job is pending."""
        while observed := self._answer(worker, job, "observe", job.who, job.messages).result:
            if observed.pending == 0:
                return True
            runs = self._answer(worker, job, "form", job.who).result or []
            if not any(run["formed"] for run in runs):
                time.sleep(PAUSE_SECONDS)
                return False
        return False

    def _answer(self, worker: Worker, job: Job, method: str, *arguments: object) -> Answer:
        worker.ask(method, *arguments)
        try:
            answer = worker.answer(REDELIVERY_SECONDS)
        except TimeoutError:
            self._waiting.put(job)  # somebody else gets it, whatever becomes of this one
            answer = worker.answer()
        assert answer.error in (None, ConcurrentChangeError, DatabaseUnavailableError), answer.error
        return answer


def kill_worker(workers: Sequence[Worker], chance: random.Random) -> None:
    """`kill -9` of a worker, whatever it does."""
    chance.choice(workers).kill()


def freeze_worker(workers: Sequence[Worker], chance: random.Random) -> None:
    """A worker stands still until its lease is gone, and goes on as if nothing had been."""
    worker = chance.choice(workers)
    worker.freeze()
    Timer(FROZEN_SECONDS, worker.thaw).start()


def kill_database(server: CrashingServer) -> Fault:
    """`kill -9` of the database, which is away for a moment."""

    def strike(_: Sequence[Worker], chance: random.Random) -> None:
        server.kill()
        time.sleep(chance.uniform(0, 0.3))
        server.restart()

    return strike


def cut_connections(clone: Clone) -> Fault:
    """The server ends every connection of the service's, in whatever transaction that is."""

    def strike(_: Sequence[Worker], __: random.Random) -> None:
        with clone.as_superuser() as superuser:
            superuser.execute(CUT)

    return strike


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
    Fleet(settings, size=size).run(jobs, faults=random.Random(seed).sample(faults, len(faults)), seed=seed)

    with crashing.clone.as_superuser() as superuser:
        check_exactly_once(superuser, jobs)
