"""Several workers over one list of jobs, with faults among them: every job comes again until it is done.

    Fleet(settings, size=4).run(jobs, faults=[kill_worker, freeze_worker, kill_database(server)], seed=7)

A job is delivered to one worker; where no answer comes in time, to another one too, as a queue would do. It is done
when a worker acknowledges that nothing of it is pending.
"""

import random
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from queue import Empty, Queue
from signal import SIGKILL
from threading import Event, Timer

from mnemic.state.errors import ConcurrentChangeError, DatabaseUnavailableError
from mnemic.state.settings import Settings
from tests.faults.jobs import Job
from tests.faults.processes import NO_DATABASE, PATIENCE_SECONDS, Answer, CrashingServer, Worker, WorkerDiedError
from tests.faults.strikes import CUT
from tests.support.server import Clone

#: A job goes to another worker after this long.
REDELIVERY_SECONDS = 0.7
#: Past every lease of a second, and past the redelivery.
FROZEN_SECONDS = 2.5
#: Before a job comes again that another run holds.
PAUSE_SECONDS = 0.02

#: Strikes one of the workers, or what they all need.
Fault = Callable[[Sequence[Worker], random.Random], object]


class Fleet:
    """Workers, each driven by a thread of its own and replaced when it dies."""

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
        for job in jobs:
            self._waiting.put(job)
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
