"""Measures the checkpointer beside LangGraph's own on a thread of 50,000 tokens, and holds it to its gates.

python -m benchmarks.threads [--repetitions 60]

Everything runs in one process on an embedded server of its own, turn about. Exits with 1 if a gate was not kept.
"""

import argparse
import asyncio
import sys
from collections.abc import Awaitable, Callable, Mapping
from functools import partial

from rich.console import Console
from rich.table import Table

from benchmarks.latency.gates import Gate
from benchmarks.latency.report import gates_table
from benchmarks.latency.server import bench_server
from benchmarks.latency.timing import Backends, Figures, Operation, interleaved
from benchmarks.threads.peers import DURABILITIES, Peer, ours, plain

_OURS, _PLAIN = "Mnemic", "AsyncPostgresSaver"
_MAX_CPU, _MAX_MILLISECONDS = 1.15, 100.0


def main() -> None:
    """Print the figures and the gates."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repetitions", type=int, default=60, help="calls of each operation")
    figures = asyncio.run(_measure(parser.parse_args().repetitions))
    console = Console(width=140)
    console.print(_table(figures))
    found = _gates(figures)
    console.print(gates_table(found))
    sys.exit(0 if all(gate.passes for gate in found) else 1)


async def _measure(repetitions: int) -> dict[str, Figures]:
    with bench_server() as server, server.admin as admin:
        async with ours(server) as first, plain(server) as second:
            peers = {_OURS: first, _PLAIN: second}
            for peer in peers.values():
                await peer.begin()
            return await interleaved(_operations(peers), Backends(admin), repetitions=repetitions)


def _operations(peers: Mapping[str, Peer]) -> dict[str, Operation]:
    found: dict[str, Operation] = {}
    for name, peer in peers.items():
        for durability in DURABILITIES:
            found[f"turn, {durability}, {name}"] = partial(_numbered, partial(peer.turn, durability))
        found[f"load, {name}"] = partial(_numbered, peer.load)
        found[f"save, {name}"] = partial(_numbered, peer.save)
    return found


async def _numbered(act: Callable[[], Awaitable[object]], _: int) -> object:
    return await act()


def _table(figures: Mapping[str, Figures]) -> Table:
    table = Table(
        "operation", "CPU ms", "client", "server", "wall", "p95", "CPU / plain", title="A thread of 50k tokens"
    )
    for name, one in figures.items():
        numbers = [one.cpu, one.client, one.server, one.wall, one.wall_p95]
        ratio = f"{_ratio(figures, name.removesuffix(f', {_OURS}')):.2f}" if name.endswith(_OURS) else ""
        table.add_row(name, *(f"{number:.1f}" for number in numbers), ratio)
    return table


def _ratio(figures: Mapping[str, Figures], what: str) -> float:
    return figures[f"{what}, {_OURS}"].cpu / figures[f"{what}, {_PLAIN}"].cpu


def _gates(figures: Mapping[str, Figures]) -> list[Gate]:
    turns = [f"turn, {durability}" for durability in DURABILITIES]
    cpu = [Gate(name=f"{turn}: CPU / plain", value=_ratio(figures, turn), limit=_MAX_CPU) for turn in turns]
    waits = {what: figures[f"{what}, {_OURS}"].wall_p95 for what in ("load", "save")}
    return cpu + [Gate(name=f"{what}, p95 in ms", value=p95, limit=_MAX_MILLISECONDS) for what, p95 in waits.items()]


if __name__ == "__main__":
    main()
