"""Measure which of a fixed list of mutants the tests kill: `mutants.jsonl`, 83 of the Python and 29 of the SQL.

python -m benchmarks.mutants known --tree ../copy [--as after]
python -m benchmarks.mutants whole --tree ../copy [--as after] [-n 2]
python -m benchmarks.mutants table [--as after]

`--tree` is a checkout with a `.venv` of its own (`make test` makes it) that nothing else uses: mutants are written into
it and removed again. `known` tries each mutant alone with the test that killed it before. `whole` applies all others
together and runs the whole suite. It finds the mutant behind each failing test by halving, removes it, and continues
until nothing fails; the remaining mutants survive. A test that also fails without the mutant kills nothing. A mutant
that cannot be imported, or that takes over five minutes in one test, is killed. Each result is saved at once.

The lines of a mutant are found by function and text, also after they moved; rewritten lines are reported as not found.
Edit the entry by hand then: path, function, lines, with the same fault. An entry without such lines is removed.

The list was drawn once, with the seed 2026: the Python with cosmic-ray 8.7, the SQL by operators (comparison, junction,
boolean, null, negation, direction, limit, condition) in turn. `models/offline` is left out. `before` is the result on
an earlier state of the code; `after` is empty until the mutant is run again.
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
