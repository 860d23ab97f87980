"""Workers and the database killed, workers frozen, wake-ups doubled: each session is formed once, and none is lost."""

import asyncio
import random
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from signal import SIGKILL
from time import monotonic

import psycopg
import pytest

from mnemic.memory.background.sweep import sweep
from mnemic.service.worker import background_work
from mnemic.state.settings import Settings
from tests.background.test_jobs import age, is_idle, until
from tests.background.working import SHORT, deliver, left, put_to_work
from tests.faults.checker import check_exactly_once, pending
from tests.faults.conftest import crashing as crashing
from tests.faults.conftest import model as model
from tests.faults.conftest import own_server as own_server
from tests.faults.jobs import Job, some_jobs
from tests.faults.processes import NO_DATABASE, CrashingServer, Worker
from tests.faults.strikes import (
    UNFENCED_FORMATION,
    Fault,
    TrappedModel,
    cut_connections,
    freeze_worker,
    kill_database,
    kill_worker,
    wait_until,
)
from tests.support.scripted import FACTS, scripted_memory, scripted_settings
from tests.support.server import Clone

pytestmark = pytest.mark.slow  # three minutes: processes are killed and frozen, one after the other

#: Words of the messages and the memories; none of them is an id.
CONTENTS = ("Something about", "crate", "It matters to me")
#: Anybody may have any lease, whoever holds it.
NO_LEASES = {
    "leases.claim": (
        "insert into leases as l (agent_id, scope_key, work, holder, until)"
        " values (%(agent_id)s, %(scope_key)s, %(work)s, %(holder)s, clock_timestamp())"
        " on conflict (agent_id, scope_key, work) do update set holder = excluded.holder returning attempts"
    ),
    "leases.renew": "select %(holder)s::uuid",
}
#: The jobs of a dead worker stay its own.
NO_OVERRIDES_BACK = {"job_manager.requeue_lost": "select %(seconds)s"}


class Crew:
    """Worker processes that do background work; a dead one is replaced."""

    def __init__(self, settings: Settings, log: Path, sabotage: Mapping[str, str], *, size: int) -> None:
        self._settings, self._log, self._sabotage = settings, log, sabotage
        self.workers = [self._started() for _ in range(size)]

    def replace_dead(self) -> None:
        for place, worker in enumerate(self.workers):
            if worker.is_dead:
                assert worker.process.exitcode in (-SIGKILL, NO_DATABASE), worker.process.exitcode
                worker.close()
                self.workers[place] = self._started()

    def await_left(self, clone: Clone, messages: int, *, seconds: float = 60) -> None:
        """Return when at most so many messages are not formed; once it is none, when no job is left either."""
        deadline = monotonic() + seconds

        def is_so() -> bool:
            assert monotonic() < deadline, f"{left(clone)} messages and jobs are left"
            self.replace_dead()
            unformed, jobs = left(clone)
            return unformed <= messages and (messages > 0 or jobs == 0)

        wait_until(is_so, "the work does not get done")

    def close(self) -> None:
        for worker in self.workers:
            worker.close()

    def _started(self) -> Worker:
        return put_to_work(Worker(self._settings, self._sabotage), self._log)


@contextmanager
def crew_of(
    settings: Settings, log: Path, sabotage: Mapping[str, str] | None = None, *, size: int = 3
) -> Iterator[Crew]:
    crew = Crew(settings, log, sabotage or {}, size=size)
    try:
        yield crew
    finally:
        crew.close()


def observe_all(settings: Settings, clone: Clone, jobs: Sequence[Job]) -> None:
    """Every session is told, and has been quiet for eleven minutes."""
    with Worker(settings) as host:
        for told in jobs:
            host.do("observe", told.who, told.messages)
    with clone.as_superuser() as superuser:
        age(superuser, 11)


def deliver_twice(clone: Clone, jobs: Sequence[Job]) -> Fault:
    """A session's wake-up is delivered twice."""

    def strike(_: Sequence[Worker], chance: random.Random) -> None:
        job = chance.choice(jobs)
        deliver(clone, [(job.who.agent_id, job.session)], times=2)

    return strike


@pytest.mark.parametrize(
    ("count", "each"), [pytest.param(30, 2), pytest.param(300, 20, marks=pytest.mark.slow)], ids=["some", "300 and 100"]
)
def test_every_session_is_formed_once_whatever_happens(
    crashing: CrashingServer, model: TrappedModel, tmp_path: Path, count: int, each: int
) -> None:
    jobs, clone, chance = some_jobs(count), crashing.clone, random.Random(count)
    settings = scripted_settings(
        clone, model, lease_seconds=2, retry_seconds=1, max_retry_seconds=1, pool_timeout_seconds=1
    )
    kinds = [kill_worker, freeze_worker, kill_database(crashing), cut_connections(clone), deliver_twice(clone, jobs)]
    faults = chance.sample(kinds * each, len(kinds) * each)
    log = tmp_path / "log"
    observe_all(settings, clone, jobs)

    with crew_of(settings, log) as crew:
        messages = len(jobs[0].messages)
        for number, fault in enumerate(faults, start=1):
            crew.await_left(clone, messages * (count - number * count // (len(faults) + 1)))
            fault(crew.workers, chance)
        crew.await_left(clone, 0)

    with clone.as_superuser() as superuser:
        check_exactly_once(superuser, jobs)
    logged = log.read_text()
    assert [text for text in CONTENTS if text in logged] == []
    print(f"\n{count} sessions, {len(faults)} faults: {count} formed exactly once, 0 lost")


def test_control_without_save_check_and_leases_a_doubled_job_runs_twice(
    clean_db: Clone, model: TrappedModel, superuser: psycopg.Connection, tmp_path: Path
) -> None:
    jobs = some_jobs(10)
    settings = scripted_settings(clean_db, model, user_threshold=50)
    observe_all(settings, clean_db, jobs)
    deliver(clean_db, [(job.who.agent_id, job.session) for job in jobs], times=3)
    with crew_of(settings, tmp_path / "log", {**UNFENCED_FORMATION, **NO_LEASES}) as crew:
        crew.await_left(clean_db, 0)

    with pytest.raises(AssertionError, match="what a session told is not stored exactly once"):
        check_exactly_once(superuser, jobs)


@pytest.mark.parametrize("sabotage", [{}, NO_OVERRIDES_BACK], ids=["", "control: nothing is given back"])
def test_session_of_a_killed_worker_is_formed_despite_its_scheduled_job(
    clean_db: Clone, model: TrappedModel, tmp_path: Path, sabotage: Mapping[str, str]
) -> None:
    settings = scripted_settings(clean_db, model, lease_seconds=2)
    observe_all(settings, clean_db, some_jobs(1))
    with crew_of(settings, tmp_path / "log", sabotage, size=1) as crew:
        victim = crew.workers[0]

        def strike() -> None:
            wait_until(lambda: left(clean_db)[1] == 2, "the sweep has queued no other job")
            victim.kill()

        model.at(FACTS, strike)
        victim.await_death()
        if sabotage:
            with pytest.raises(AssertionError, match="are left"):
                crew.await_left(clean_db, 0, seconds=6)
        else:
            crew.await_left(clean_db, 0)


def test_late_worker_survives_and_does_not_finish_the_job_of_another(
    clean_db: Clone, model: TrappedModel, superuser: psycopg.Connection, tmp_path: Path
) -> None:
    jobs = some_jobs(2)
    settings = scripted_settings(clean_db, model, lease_seconds=2)
    observe_all(settings, clean_db, jobs[:1])
    log = tmp_path / "log"
    with crew_of(settings, log, size=1) as crew:
        sleeper = crew.workers[0]
        assert model.at(FACTS, sleeper.freeze).wait(30)
        with Worker(settings) as other:
            put_to_work(other, log)
            wait_until(lambda: left(clean_db) == (0, 0), "the other does not take the work")
            sleeper.thaw()
            wait_until(lambda: workers(superuser) == 2, "the sleeper does not register again")
            assert not other.is_dead
        observe_all(settings, clean_db, jobs[1:])
        crew.await_left(clean_db, 0)
        assert crew.workers == [sleeper]
        assert not sleeper.is_dead

    check_exactly_once(superuser, jobs)
    assert "never retrieved" not in log.read_text()


def workers(superuser: psycopg.Connection) -> int:
    row = superuser.execute("select count(*) from mnemic_jobs.procrastinate_workers").fetchone()
    assert row
    return int(row[0])


# -- leaving


async def test_leaving_without_a_database_takes_a_moment(crashing: CrashingServer, model: TrappedModel) -> None:
    async with scripted_memory(crashing.clone, model, pool_timeout_seconds=0.5) as memory:
        async with background_work(memory.resources, memory.graphs, SHORT) as work:
            await until(lambda: is_idle(work))
            await asyncio.to_thread(crashing.kill)
            began = monotonic()
        assert monotonic() - began < SHORT.stop + 5
    await asyncio.to_thread(crashing.restart)


async def test_leaving_gives_back_a_job_that_takes_too_long(
    clean_db: Clone, model: TrappedModel, superuser: psycopg.Connection
) -> None:
    jobs, answered = some_jobs(1), asyncio.Event()
    loop = asyncio.get_running_loop()

    def hold() -> None:
        loop.call_soon_threadsafe(answered.set)
        wait_until(lambda: left(clean_db)[1] == 1 and running(superuser) == 0, "the job is not given back")

    model.at(FACTS, hold)
    async with scripted_memory(clean_db, model) as memory:
        await memory.observe(jobs[0].who, jobs[0].messages)
        age(superuser, 11)
        async with background_work(memory.resources, memory.graphs, SHORT) as work:
            await sweep(work)
            await answered.wait()
        async with background_work(memory.resources, memory.graphs, SHORT) as work:
            await until(lambda: is_idle(work))
    assert pending(superuser) == 0
    check_exactly_once(superuser, jobs)


def running(superuser: psycopg.Connection) -> int:
    row = superuser.execute(
        "select count(*) from mnemic_jobs.procrastinate_jobs where status = 'doing' and task_name <> 'sweep'"
    ).fetchone()
    assert row
    return int(row[0])
