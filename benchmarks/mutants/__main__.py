"""Tells which of a fixed list of mutants the tests kill: `mutants.jsonl`, 90 of the Python and 30 of the SQL.

python -m benchmarks.mutants known --tree ../copy [--as after]
python -m benchmarks.mutants whole --tree ../copy [--as after] [-n 2]
python -m benchmarks.mutants table [--as after]

`--tree` is a checkout with a `.venv` of its own (`make test` makes it) that nobody else uses: mutants are written into
it and taken out again. `known` tries each mutant by itself with the tests of the name that killed it before. `whole`
puts all others in together and runs the whole suite; it finds the mutant behind each failing test by halving, takes it
out, and goes on until nothing fails: the rest survives. A test that also fails without the mutant kills nothing; what
cannot be imported, or takes over five minutes in one test, is killed. Results are kept in the list as they come.

The lines of a mutant are found by function and text, wherever they moved; those that were rewritten are listed as not
found. To place one by hand, give it the new path, function and lines, and keep the fault the same.

The list was drawn once, with the seed 2026, and stays: the Python with cosmic-ray 8.7 over the nine folders, the SQL by
operators (comparison, junction, boolean, null, negation, direction, limit, condition) in turn. `models/offline` is left
out, for its rules were about to be replaced. `before` is what killed a mutant in the state that it was drawn from.
"""

import argparse
from collections import Counter
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.mutants.kill import Bench
from benchmarks.mutants.mutant import load_mutants


def main() -> None:
    """Measures or prints the list."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("step", choices=["known", "whole", "table"])
    parser.add_argument("--tree", type=Path, default=Path(), help="the checkout to mutate")
    parser.add_argument("--as", dest="field", choices=["before", "after"], default="after", help="where results go")
    parser.add_argument("-n", dest="workers", type=int, default=2, help="processes of a whole run")
    arguments = parser.parse_args()
    if arguments.step == "known":
        Bench(arguments.tree.resolve(), arguments.field).known()
    elif arguments.step == "whole":
        Bench(arguments.tree.resolve(), arguments.field).whole(arguments.workers)
    else:
        _print(arguments.field)


def _print(field: str) -> None:
    table = Table("id", "place", "operator", field)
    mutants = load_mutants()
    for mutant in mutants:
        table.add_row(mutant.id, f"{mutant.path} {mutant.function}", mutant.operator, getattr(mutant, field))
    console = Console(width=200)
    console.print(table, markup=False)
    counts = Counter(getattr(mutant, field).partition(" ")[0].rstrip(":") or "not run" for mutant in mutants)
    console.print(", ".join(f"{count} {result}" for result, count in counts.items()), highlight=False)
    for mutant in mutants:
        if mutant.before.startswith("killed") and mutant.after and not mutant.after.startswith("killed"):
            console.print(f"{mutant.id} was killed before, now: {mutant.after}", markup=False)


if __name__ == "__main__":
    main()
