"""Any number of processes may open a new database at the same moment, the embedded one or one of a server."""

import asyncio
import multiprocessing
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from mnemic.service.memory import Mnemic
from mnemic.state.settings import Settings
from mnemic.storage.opening import set_up_database
from tests.support.server import Clone, Server, cloned, fast_directory
from tests.support.worlds import identity

_PROCESSES = multiprocessing.get_context("forkserver")
#: Only to end a test that hangs.
_FOREVER = 120


async def _open(settings: Mapping[str, Any]) -> None:
    if "migration_url" in settings:
        await set_up_database(Settings(**settings))
    async with Mnemic.open(settings=Settings(**settings)) as memory:
        await memory.remember(identity("ana"), "Ana moors at pier 4.", category="profile")


def _open_each(barrier: Any, rounds: Sequence[Mapping[str, Any]]) -> None:
    with ExitStack() as failing:
        failing.callback(barrier.abort)
        for settings in rounds:
            barrier.wait(_FOREVER)
            asyncio.run(_open(settings))
        failing.pop_all()


def _exit_codes(processes: int, rounds: Sequence[Mapping[str, Any]]) -> list[int | None]:
    """Exit codes of processes that open each of these databases at the same moment."""
    barrier = _PROCESSES.Barrier(processes)
    started = [_PROCESSES.Process(target=_open_each, args=(barrier, rounds)) for _ in range(processes)]
    for process in started:
        process.start()
    for process in started:
        process.join(_FOREVER + 10 * len(rounds))
    return [process.exitcode for process in started]


SIZES = [
    pytest.param(2, 1, id="2 processes"),
    pytest.param(8, 4, id="8 processes", marks=pytest.mark.thorough),
]


@pytest.mark.parametrize(("processes", "rounds"), SIZES)
def test_every_process_opens_a_new_data_directory(processes: int, rounds: int) -> None:
    with TemporaryDirectory(prefix="mnemic-once-", dir=fast_directory()) as base:
        Path(base).chmod(0o711)  # the account that the server runs under passes through it
        made = [{"data_dir": Path(base, str(number)), "embedder": "hash", "pool_size": 2} for number in range(rounds)]
        assert _exit_codes(processes, made) == [0] * processes


@contextmanager
def _new_databases(server: Server, count: int) -> Iterator[list[Clone]]:
    with ExitStack() as stack:
        yield [stack.enter_context(cloned(server, None)) for _ in range(count)]


@pytest.mark.thorough
def test_every_process_sets_up_a_new_database_of_a_server_and_opens_it(server: Server) -> None:
    with _new_databases(server, 4) as databases:
        made = [
            {"database_url": one.service_dsn, "migration_url": one.superuser_dsn, "embedder": "hash", "pool_size": 2}
            for one in databases
        ]
        assert _exit_codes(8, made) == [0] * 8
