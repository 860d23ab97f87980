"""Operations in shuffled order, so that what else the machine does hits all alike: CPU of both sides, waiting time."""

import random
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from statistics import median, quantiles
from typing import Self

import psycopg

#: One call of an operation; the number picks its user and its words.
Operation = Callable[[int], Awaitable[object]]

#: A backend that has answered still tidies up.
_TIDY_SECONDS = 0.0005
_BACKENDS = "select pid from pg_stat_activity where backend_type = 'client backend' and pid <> pg_backend_pid()"


@dataclass(frozen=True)
class Sample:
    """One call, in milliseconds."""

    wall: float
    #: CPU of this process, and of the server's backends.
    client: float
    server: float

    @property
    def cpu(self) -> float:
        """Of both sides."""
        return self.client + self.server


@dataclass(frozen=True, kw_only=True)
class Figures:
    """Many calls of one operation: medians, and the time that 95 of 100 calls stay below; milliseconds."""

    calls: int
    cpu: float
    client: float
    server: float
    wall: float
    wall_p95: float

    @classmethod
    def of(cls, samples: Sequence[Sample]) -> Self:
        """Return the figures of at least two calls."""
        walls = [sample.wall for sample in samples]
        return cls(
            calls=len(samples),
            cpu=median(sample.cpu for sample in samples),
            client=median(sample.client for sample in samples),
            server=median(sample.server for sample in samples),
            wall=median(walls),
            wall_p95=quantiles(walls, n=20, method="inclusive")[-1],
        )


class Backends:
    """The CPU that the server's backends have used; other processes of the machine do not count."""

    def __init__(self, connection: psycopg.Connection) -> None:
        self._connection = connection
        self._files: list[Path] = []

    def look(self) -> None:
        """Find the current backends."""
        self._files = [Path(f"/proc/{pid}/schedstat") for (pid,) in self._connection.execute(_BACKENDS)]

    def milliseconds(self) -> float:
        """Return the CPU time of all backends so far."""
        used = 0
        for file in self._files:
            with suppress(OSError):  # its connection was closed
                used += int(file.read_text().split()[0])
        return used / 1e6


async def interleaved(
    operations: Mapping[str, Operation], backends: Backends, *, repetitions: int, warm: int = 6
) -> dict[str, Figures]:
    """Call each operation so many times, after some calls that do not count."""
    shuffler = random.Random(repetitions)  # noqa: S311 - no secret
    samples: dict[str, list[Sample]] = {name: [] for name in operations}
    for number in range(warm + repetitions):
        if number <= warm:
            backends.look()
        for name in order(operations, shuffler):
            sample = await _sample(operations[name], number, backends)
            if number >= warm:
                samples[name].append(sample)
    return {name: Figures.of(taken) for name, taken in samples.items()}


def order(operations: Mapping[str, Operation], shuffler: random.Random) -> list[str]:
    """Every operation once, in another order each time."""
    return shuffler.sample(list(operations), len(operations))


async def _sample(operation: Operation, number: int, backends: Backends) -> Sample:
    server, client, wall = backends.milliseconds(), time.process_time(), time.perf_counter()
    await operation(number)
    wall, client = time.perf_counter() - wall, time.process_time() - client
    time.sleep(_TIDY_SECONDS)  # noqa: ASYNC251 - nothing else runs on this loop
    return Sample(wall=wall * 1000, client=client * 1000, server=backends.milliseconds() - server)
