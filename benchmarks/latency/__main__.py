"""Measures the memory beside the same by hand, LangGraph's PostgresStore and mem0, and holds it to its gates.

python -m benchmarks.latency [--rows 1000,10000,100000] [--repetitions 60]

Everything runs in one process on an embedded server of its own. Exits with 1 if a gate was not kept.
"""

import argparse
import asyncio
import sys

from rich.console import Console

from benchmarks.latency.measuring import measure
from benchmarks.latency.report import gates, gates_table, notes, tables


def main() -> None:
    """Print the tables and the gates."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", default="1000,10000,100000", help="sizes of the table, 1,000 at least")
    parser.add_argument("--repetitions", type=int, default=60, help="calls of each operation")
    arguments = parser.parse_args()
    sizes = [int(rows) for rows in arguments.rows.split(",")]
    results = asyncio.run(measure(sizes, arguments.repetitions))
    console = Console(width=160)
    for table in tables(results):
        console.print(table)
    for note in notes(results):
        console.print(note, highlight=False, markup=False)
    found = gates(results)
    console.print(gates_table(found))
    sys.exit(0 if all(gate.passes for gate in found) else 1)


if __name__ == "__main__":
    main()
