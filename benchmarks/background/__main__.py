"""Measures background work, and holds it to its gates.

python -m benchmarks.background [--sessions 10000] [--idle 130] [--minutes 20]

Workers are processes of `mnemic worker` with the offline rules, on an embedded server of its own. A sweep queues 1,000
sessions a minute at most. Exits with 1 if a gate was not kept.

An idle worker is watched for two sweeps and a little more. A shorter time counts a part of a minute as if each had it.
"""

import argparse
import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import psycopg
from psycopg.conninfo import make_conninfo
from rich.console import Console

from benchmarks.latency.gates import Gate
from benchmarks.latency.report import gates_table
from benchmarks.latency.server import bench_server
from mnemic.service.memory import Mnemic
from mnemic.state.background import Target
from mnemic.state.identity import Identity
from mnemic.state.settings import Settings
from mnemic.storage.migrate import migrate
from mnemic.storage.queue import open_queue
from mnemic.storage.schema import SERVICE_ROLE

_WORKERS = 2
_TURN_CPU_MS, _IDLE_TRANSACTIONS, _IDLE_CPU_PERCENT, _GROWTH = 5.0, 1.0, 1.0, 1.3
#: Transactions for each session that is formed: fetch, formation with the offline rules, and the end of the job. The
#: start of the workers is among them, so that few sessions do not keep it.
_TRANSACTIONS_PER_SESSION = 15.0
#: Before an idle worker is watched: it starts and sweeps, and the server counts what a connection did 10 s later.
_START_SECONDS = 15.0
#: After the last session is formed, for which the workers are watched, and the most CPU they may use.
_AFTER_SECONDS, _AFTER_CPU_PERCENT = 5.0, 10.0
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Worker:
    """A process of `mnemic worker`."""

    process: "subprocess.Popen[bytes]"

    @property
    def cpu_seconds(self) -> float:
        """CPU time of the process so far."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / _TICKS

    @property
    def megabytes(self) -> float:
        """Resident memory of the process."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(status.partition("VmRSS:")[2].split()[0]) / 1024


@contextmanager
def running_workers(dsn: str, count: int) -> Iterator[list[Worker]]:
    """Return the processes that have opened the database."""
    # each session of the benchmark has one message
    variables = {"MNEMIC_DATABASE_URL": dsn, "MNEMIC_EMBEDDER": "hash", "MNEMIC_FORMATION_MIN_MESSAGES": "1"}
    command = [sys.executable, "-m", "mnemic", "worker"]
    with ExitStack() as stack:
        workers = []
        for _ in range(count):
            started = subprocess.Popen(command, env={**os.environ, **variables}, stderr=subprocess.PIPE)  # noqa: S603 - our own
            process = stack.enter_context(started)  # closes the pipe and waits
            stack.callback(process.terminate)
            assert process.stderr
            process.stderr.readline()
            workers.append(Worker(process))
        yield workers


def main() -> None:
    """Print the figures and the gates."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sessions", type=int, default=10_000, help="sessions that turn cold at once")
    parser.add_argument("--idle", type=float, default=130, help="seconds for which an idle worker is watched")
    parser.add_argument("--minutes", type=float, default=20, help="minutes after which no further session is awaited")
    arguments = parser.parse_args()
    with bench_server() as server:
        superuser_dsn = server.new_database("background")
        asyncio.run(migrate(superuser_dsn))
        dsn = make_conninfo(superuser_dsn, user=SERVICE_ROLE)
        with psycopg.connect(superuser_dsn, autocommit=True) as superuser:
            gates = _measure_idle(superuser, dsn, arguments.idle)
            gates += asyncio.run(_measure_turns(dsn, arguments.sessions))
            Console(width=140).print(gates_table(gates))
            gates += _measure_cold(superuser, dsn, arguments.sessions, arguments.minutes)
    Console(width=140).print(gates_table(gates))
    sys.exit(0 if all(gate.passes for gate in gates) else 1)


def _transactions(superuser: psycopg.Connection) -> int:
    superuser.execute("select pg_stat_clear_snapshot()")
    row = superuser.execute(
        "select xact_commit + xact_rollback from pg_stat_database where datname = current_database()"
    ).fetchone()
    assert row
    return int(row[0])


def _measure_idle(superuser: psycopg.Connection, dsn: str, seconds: float) -> list[Gate]:
    with running_workers(dsn, 1) as (worker,), _without_autovacuum(superuser):
        time.sleep(_START_SECONDS)
        transactions, cpu = _transactions(superuser), worker.cpu_seconds
        time.sleep(seconds)
        per_second = (_transactions(superuser) - transactions) / seconds
        percent = (worker.cpu_seconds - cpu) / seconds * 100
    return [
        Gate(name="idle worker: transactions a second", value=per_second, limit=_IDLE_TRANSACTIONS),
        Gate(name="idle worker: per cent of a core", value=percent, limit=_IDLE_CPU_PERCENT),
    ]


@contextmanager
def _without_autovacuum(superuser: psycopg.Connection) -> Iterator[None]:
    """Keep the server's own transactions out of the count."""
    superuser.execute("alter system set autovacuum = off")
    superuser.execute("select pg_reload_conf()")
    try:
        yield
    finally:
        superuser.execute("alter system reset autovacuum")
        superuser.execute("select pg_reload_conf()")


async def _measure_turns(dsn: str, sessions: int) -> list[Gate]:
    """Observe a message in each session, and queue its formation as a turn may; the wake-ups are dropped."""
    async with (
        Mnemic.open(database_url=dsn, embedder="hash", background=False) as memory,
        open_queue(memory.resources.database) as queue,
    ):
        await queue.jobs()
        began = time.process_time()
        for number in range(sessions):
            who = Identity(agent_id=f"agent-{number % 10}", user_id=f"u{number % 100}", session_id=f"s{number:06}")
            await memory.observe(who, [{"role": "user", "content": f"My boat is called Zinnia {number}."}])
            await queue.wake("form", [Target(who.agent_id, f"session:{who.session_id}")])
        milliseconds = (time.process_time() - began) / sessions * 1000
    return [Gate(name="observe and wake: CPU of the host, ms", value=milliseconds, limit=_TURN_CPU_MS)]


def _measure_cold(superuser: psycopg.Connection, dsn: str, sessions: int, minutes: float) -> list[Gate]:
    """All sessions have been quiet for an hour, each a little longer than the next."""
    superuser.execute("set search_path = mnemic_jobs")
    superuser.execute("delete from mnemic_jobs.procrastinate_jobs")
    superuser.execute(
        "update mnemic.sessions set last_activity_at ="
        " now() - interval '2 hours' + substr(session_id, 2)::int * interval '10 ms'"
    )
    before, began = _transactions(superuser), time.monotonic()
    sizes: list[float] = []
    in_order = 0.0
    with running_workers(dsn, _WORKERS) as workers:
        while (left := _unformed(superuser)) > 0 and time.monotonic() - began < minutes * 60:
            if left < sessions * 0.9:
                sizes.append(max(worker.megabytes for worker in workers))
            if left >= sessions / 2:
                in_order = _share_in_order(superuser)
            time.sleep(min(5.0, sessions / 1000))
        seconds, formed = time.monotonic() - began, sessions - left
        cpu = sum(worker.cpu_seconds for worker in workers)
        transactions = _transactions(superuser) - before
        after = 0.0 if left else _cpu_percent_afterwards(workers)
    Console().print(
        f"{formed} of {sessions} cold sessions formed by {_WORKERS} workers in {seconds:.0f} s:"
        f" {formed / seconds:.1f} a second, {cpu / formed * 1000:.0f} ms of their CPU each,"
        f" {sizes[0] if sizes else 0:.0f} MB at a tenth, {max(sizes, default=0):.0f} MB at most"
    )
    growth = max(sizes) / sizes[0] if sizes else 1.0
    each = transactions / formed
    gates = [
        Gate(name="cold sessions: transactions a session", value=each, limit=_TRANSACTIONS_PER_SESSION),
        Gate(name="cold sessions: memory at most / at a tenth", value=growth, limit=_GROWTH),
        Gate(name="cold sessions: share formed in order", value=in_order, limit=0.9, at_least=True),
    ]
    if not left:
        name = "cold sessions: per cent of a core after the last one"
        gates.append(Gate(name=name, value=after, limit=_AFTER_CPU_PERCENT))
    return gates


def _cpu_percent_afterwards(workers: Sequence[Worker]) -> float:
    """Return the CPU that workers use that have nothing left to do, in per cent of a core."""
    time.sleep(_AFTER_SECONDS)  # the ends of the last jobs
    before = sum(worker.cpu_seconds for worker in workers)
    time.sleep(_AFTER_SECONDS)
    return (sum(worker.cpu_seconds for worker in workers) - before) / _AFTER_SECONDS * 100


def _unformed(superuser: psycopg.Connection) -> int:
    row = superuser.execute(
        "select count(distinct (agent_id, session_id)) from mnemic.messages where formed_by is null"
    ).fetchone()
    assert row
    return int(row[0])


def _share_in_order(superuser: psycopg.Connection) -> float:
    """Return the share of the formed sessions that are among the oldest, of those that are formed or being formed."""
    at_once = _WORKERS * Settings.model_fields["jobs_at_once"].default
    row = superuser.execute(
        "with formed as ("
        "  select distinct substr(session_id, 2)::int as place from mnemic.messages where formed_by is not null"
        ") select count(*) filter (where place < (select count(*) from formed) + %s), count(*) from formed",
        (at_once,),
    ).fetchone()
    assert row
    in_order, formed = row
    return in_order / formed if formed else 1.0


if __name__ == "__main__":
    main()
