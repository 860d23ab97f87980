"""A file of any length is read and stored in memory that does not grow with it."""

import hashlib
import json
import os
import subprocess
import sys
import tracemalloc
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psycopg
import pytest

from mnemic.service.cli.message_files import Line, Reader
from tests.support.server import Clone

FEW, MANY = 4_000, 40_000
GROWTH_BYTES = 1 << 20


class InMemory(Reader):
    """What a reader must not do: it keeps every digest."""

    def __init__(self) -> None:
        super().__init__()
        self._counts: Counter[bytes] = Counter()

    def _count(self, text: str) -> int:
        digest = hashlib.sha256(text.encode()).digest()
        self._counts[digest] += 1
        return self._counts[digest]


def lines(messages: int, sessions: int) -> Iterator[str]:
    for number in range(messages):
        message = {"session": f"s{number % sessions}", "role": "user", "content": f"Remark {number} of many."}
        yield json.dumps(message) + "\n"


def write(path: Path, messages: int, sessions: int = 1000) -> Path:
    with path.open("w", encoding="utf-8") as file:
        file.writelines(lines(messages, sessions))
    return path


def peak(path: Path, reader: Reader) -> int:
    """Most bytes that Python held while the file was read."""
    tracemalloc.start()
    with closing(reader):
        assert all(isinstance(line, Line) for line in reader.read(path))
    _, highest = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return highest


@pytest.mark.thorough
@pytest.mark.parametrize("reader", [Reader, pytest.param(InMemory, id="control")])
def test_ten_times_the_messages_take_no_more_memory(tmp_path: Path, reader: type[Reader]) -> None:
    few, many = (peak(write(tmp_path / f"{messages}.jsonl", messages), reader()) for messages in (FEW, MANY))
    assert (many - few < GROWTH_BYTES) == (reader is Reader)


#: The same work as `mnemic form` up to the formation, in a process of its own. Its peak is what Linux tells of this
#: program alone; `ru_maxrss` begins with that of the process which started it.
TAKING_IN = """
import asyncio, sys
from pathlib import Path
from mnemic.service.cli.form import take_in
from mnemic.service.memory import Mnemic
from mnemic.state.identity import Identity

async def main():
    async with Mnemic.open(database_url=sys.argv[1], embedder="hash") as memory:
        intake = await take_in(memory, Identity(agent_id=sys.argv[3], user_id="ana"), [Path(sys.argv[2])])
    assert sum(intake.accepted.values()) == intake.read
asyncio.run(main())
print(Path("/proc/self/status").read_text().partition("VmHWM:")[2].split()[0])
"""


def taken_in(clone: Clone, path: Path, agent: str) -> int:
    """KiB that the process held at most."""
    done = subprocess.run(
        [sys.executable, "-c", TAKING_IN, clone.service_dsn, str(path), agent],
        capture_output=True,
        text=True,
        check=True,
        timeout=3600,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])},
    )
    return int(done.stdout.split()[0])


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="only Linux tells a program's own peak")
def test_a_million_messages_stream_in_flat_memory_and_each_is_stored_once(fresh_db: Clone, tmp_path: Path) -> None:
    small = taken_in(fresh_db, write(tmp_path / "small.jsonl", 20_000), "small")
    large = taken_in(fresh_db, write(tmp_path / "large.jsonl", 1_000_000), "large")

    assert large - small < 40 * 1024, f"{small} KiB for 20,000 messages, {large} KiB for a million"
    with psycopg.connect(fresh_db.superuser_dsn) as connection:
        row = connection.execute(
            "select count(*), count(distinct content) from mnemic.messages where agent_id = 'large'"
        ).fetchone()
    assert row == (1_000_000, 1_000_000)
