"""Measures how much of a request a provider can take from its cache of the request before, which it keeps by prefix.

python -m benchmarks.prefix [--tokens 2000]

The example conversations are formed by their recorded answers. Then each person who has said enough talks on with the
supervisor in a thread of so many tokens: two turns in four ask for what was told, one calls a tool. What is sent over
the wire is compared, the tools first, then the messages, beside the earlier layout, which had all of the memory in the
system message. Nothing is formed meanwhile, so the standing part stays. Exits with 1 if a gate was not kept.
"""

import argparse
import asyncio
import sys
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from benchmarks.latency.gates import Gate
from benchmarks.latency.report import gates_table
from benchmarks.prefix.shares import Pair
from benchmarks.prefix.talking import talked

_LEAST = 0.9


def main() -> None:
    """Print the shares and the gates."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokens", type=int, default=2000, help="of the thread when the measured turns begin")
    pairs = asyncio.run(talked(parser.parse_args().tokens))
    sys.exit(0 if report(pairs) else 1)


def report(pairs: Sequence[Pair]) -> bool:
    """Print the shares and the gates; True if there are pairs and every gate was kept."""
    kinds = sorted({pair.kind for pair in pairs})
    of_kind = {kind: [pair for pair in pairs if pair.kind == kind] for kind in kinds}
    console = Console(width=140)
    console.print(_table(of_kind))
    gates = [
        Gate(name=kind, value=min(pair.now for pair in found), limit=_LEAST, at_least=True)
        for kind, found in of_kind.items()
    ]
    console.print(gates_table(gates))
    return bool(pairs) and all(gate.passes for gate in gates)


def _table(of_kind: dict[str, list[Pair]]) -> Table:
    table = Table(
        *("from one request to the next", "pairs", "characters", "earlier layout", "now", "now, without tools"),
        title="Share of a request's characters that stand in the one before: mean (least)",
    )
    for kind, found in of_kind.items():
        shares = zip(*((pair.earlier, pair.now, pair.messages) for pair in found), strict=True)
        size = sum(pair.characters for pair in found) // len(found)
        table.add_row(kind, str(len(found)), f"{size:,}", *(f"{sum(s) / len(s):.1%} ({min(s):.1%})" for s in shares))
    return table


if __name__ == "__main__":
    main()
