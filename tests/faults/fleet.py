"""Several workers over one list of jobs, with faults among them: every job comes again until it is done.

    Fleet(settings, size=4).run(jobs, faults=[kill_worker, freeze_worker, kill_database(server)], seed=7)

A job is delivered to one worker; where no answer comes in time, to another one too, as a queue would do. It is done
when a worker acknowledges that nothing of it is pending.
"""

import random
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from queue import Empty, Queue
from signal import SIGKILL
from threading import Event, Thread

from mnemic.state.errors import ConcurrentChangeError, DatabaseUnavailableError
from mnemic.state.settings import Settings
from tests.faults.crashing import CrashingServer
from tests.faults.jobs import Job
from tests.faults.processes import PATIENCE_SECONDS, Worker, WorkerDiedError
from tests.faults.worker import NO_DATABASE, Answer
from tests.support.server import Clone

#: A job goes to another worker after this long.
REDELIVERY_SECONDS = 0.7
#: Before a job comes again that another run holds.
PAUSE_SECONDS = 0.02

#: Ends every connection of the service's, in whatever transaction that is; returns when they are gone.
CUT = (
    "select pg_terminate_backend(pid, 5000) from pg_stat_activity"
    " where datname = current_database() and usename = 'mnemic_app'"
)

Fault = Callable[["Fleet", random.Random], object]


class Fleet:
    """Workers, each driven by a thread of its own and replaced when it dies."""

    def __init__(self, settings: Settings, *, size: int, sabotage: Mapping[str, str] | None = None) -> None:
        self._settings = settings
        self._sabotage = sabotage
        self._workers = [Worker(settings, sabotage) for _ in range(size)]
        self._waiting: Queue[Job] = Queue()
        self._done: set[int] = set()
        self._over = Event()
        self._deadline = 0.0
        #: What the worker at each place is forming just now, and where one is frozen.
        self._forming: dict[int, Job] = {}
        self._frozen: set[int] = set()
        self._thawing: list[Thread] = []

    def run(self, jobs: Sequence[Job], *, faults: Sequence[Fault], seed: int) -> None:
        """Does every job, and strikes at even distances on the way.

        Raises:
            AssertionError: a worker ended by itself or answered with an error that no fault explains, or jobs are left.
        """
        self._deadline = time.monotonic() + PATIENCE_SECONDS + len(jobs)
        for job in jobs:
            self._waiting.put(job)
        with ThreadPoolExecutor(len(self._workers)) as threads:
            drivers = [threads.submit(self._drive, place, len(jobs)) for place in range(len(self._workers))]
            try:
                self._strike(faults, len(jobs), random.Random(seed))
                for driver in drivers:
                    driver.result()
            finally:
                self._over.set()
                self._close()

    def kill_one(self, chance: random.Random) -> None:
        """Kills any worker."""
        chance.choice(self._workers).kill()

    def freeze_one(self, chance: random.Random) -> None:
        """Freezes a worker in the middle of a formation, until others have done its job; one stays awake."""
        while not self._over.is_set():
            choice = [(place, job) for place, job in list(self._forming.items()) if place not in self._frozen]
            if choice and len(self._frozen) < len(self._workers) - 1:
                place, job = chance.choice(choice)
                worker = self._workers[place]
                worker.freeze()
                self._frozen.add(place)
                self._thawing.append(Thread(target=self._thaw, args=(place, worker, job)))
                self._thawing[-1].start()
                return
            time.sleep(PAUSE_SECONDS)

    def _thaw(self, place: int, worker: Worker, job: Job) -> None:
        while not (job.number in self._done or worker.is_dead or self._over.is_set()):
            time.sleep(PAUSE_SECONDS)
        worker.thaw()
        self._frozen.discard(place)

    def _strike(self, faults: Sequence[Fault], jobs: int, chance: random.Random) -> None:
        for place, fault in enumerate(faults):
            while len(self._done) < (place + 1) * jobs // (len(faults) + 1) and not self._over.is_set():
                time.sleep(PAUSE_SECONDS)
            time.sleep(chance.uniform(0, 0.1))  # anywhere in what the others do just now
            fault(self, chance)

    def _drive(self, place: int, jobs: int) -> None:
        try:
            while len(self._done) < jobs and not self._over.is_set():
                assert time.monotonic() < self._deadline, f"{jobs - len(self._done)} jobs are left"
                try:
                    self._work(place, self._waiting.get(timeout=PAUSE_SECONDS))
                except Empty:
                    continue
        finally:
            self._over.set()

    def _work(self, place: int, job: Job) -> None:
        if job.number in self._done:
            return
        try:
            if self._deliver(place, job):
                self._done.add(job.number)
                return
        except WorkerDiedError:
            self._replace(place)
        self._waiting.put(job)

    def _deliver(self, place: int, job: Job) -> bool:
        """Whether the worker says that nothing of the job is pending."""
        worker = self._workers[place]
        while observed := self._answer(worker, job, "observe", job.who, job.messages).result:
            if observed.pending == 0:
                return True
            self._forming[place] = job
            try:
                runs = self._answer(worker, job, "form", job.who).result or []
            finally:
                del self._forming[place]
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

    def _replace(self, place: int) -> None:
        if self._over.is_set():
            return
        dead = self._workers[place]
        dead.await_death()
        assert dead.exit_code in (-SIGKILL, NO_DATABASE), dead.exit_code
        self._workers[place] = Worker(self._settings, self._sabotage)
        dead.close()

    def _close(self) -> None:
        for thread in self._thawing:
            thread.join()
        for worker in self._workers:
            worker.close()


def kill_worker(fleet: Fleet, chance: random.Random) -> None:
    """`kill -9` of a worker, whatever it does."""
    fleet.kill_one(chance)


def freeze_worker(fleet: Fleet, chance: random.Random) -> None:
    """A worker stands still until its lease is gone and its job done by others, and goes on as if nothing had been."""
    fleet.freeze_one(chance)


def kill_database(server: CrashingServer) -> Fault:
    """`kill -9` of the database, which is away for a moment."""

    def strike(_: Fleet, chance: random.Random) -> None:
        server.kill()
        time.sleep(chance.uniform(0, 0.3))
        server.restart()

    return strike


def cut_connections(clone: Clone) -> Fault:
    """The server ends every connection of the service's, in whatever transaction that is."""

    def strike(_: Fleet, __: random.Random) -> None:
        with clone.as_superuser() as superuser:
            superuser.execute(CUT)

    return strike
