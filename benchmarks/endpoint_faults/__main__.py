"""Lets an endpoint fail in every way and prints what a person reads, as the table of docs/endpoint_faults.md.

python -m benchmarks.endpoint_faults [--write FILE]

Exits with 1 where something else than one typed line was raised, an endpoint's own words were told, the deadline was
not kept, or something was lost: after each fault the endpoint is healthy again, and all that waited is formed.
"""

import argparse
import asyncio
import sys
import tempfile
from pathlib import Path

from benchmarks.endpoint_faults.trying import Trial, trials

_BEGIN = "<!-- table -->\n"


def main() -> None:
    """Print or write the table, and the unexpected outcomes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", type=Path, help="a page, whose table is written anew")
    page = parser.parse_args().write
    found = asyncio.run(_all())
    table = "\n".join(["| what the endpoint does | requests | what is read |", "|---|---|---|", *map(_row, found), ""])
    if page:
        page.write_text(page.read_text().partition(_BEGIN)[0] + _BEGIN + table)
    else:
        sys.stdout.write(table)
    wrong = [f"{trial.fault.name}: {problem}" for trial in found for problem in trial.problems]
    sys.stderr.write("\n".join([f"{len(found)} faults, {len(wrong)} problems", *wrong, ""]))
    sys.exit(1 if wrong else 0)


async def _all() -> list[Trial]:
    with tempfile.TemporaryDirectory() as directory:
        return [trial async for trial in trials(data_dir=directory)]


def _row(trial: Trial) -> str:
    return f"| {trial.fault.name} | {trial.requests} | {trial.told} |"


if __name__ == "__main__":
    main()
