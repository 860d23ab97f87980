"""180 pairs of similar facts: which of them the daily maintenance merges or replaces, right and wrong.

python -m benchmarks.pairs [--embedder NAME] [--people N] [--careless] [--wrong]

The verdicts are recorded from a careful reader; all else is the product on an embedded Postgres.
"""

import argparse
import asyncio
from collections.abc import Sequence
from pathlib import Path
from shutil import rmtree
from tempfile import gettempdir
from uuid import uuid4

from rich.console import Console
from rich.table import Table

from benchmarks.pairs.dataset import load_answers, load_pairs
from benchmarks.pairs.measuring import Outcome, Reader, measure


def main() -> None:
    """Print the table and the two shares."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--embedder", default="minilm", help="as MNEMIC_EMBEDDER; default: minilm")
    parser.add_argument("--band", default="all", choices=("all", "fallback"), help="as MNEMIC_PAIR_BAND")
    parser.add_argument("--people", type=int, help="only the pairs of so many people")
    parser.add_argument("--careless", action="store_true", help="a reader that calls every pair the same")
    parser.add_argument("--wrong", action="store_true", help="list the pairs that go wrong")
    arguments = parser.parse_args()
    people = list(dict.fromkeys(pair.person for pair in load_pairs()))[: arguments.people]
    pairs = [pair for pair in load_pairs() if pair.person in people]
    folder = Path(gettempdir()) / f"mnemic-pairs-{uuid4().hex[:12]}"
    try:
        settings = {"embedder": arguments.embedder, "pair_band": arguments.band, "data_dir": folder}
        outcomes, reader = asyncio.run(measure(pairs, is_careless=arguments.careless, **settings))
    finally:
        rmtree(folder, ignore_errors=True)
    _report(Console(width=120), outcomes, reader, with_wrong=arguments.wrong)


def _report(console: Console, outcomes: Sequence[Outcome], reader: Reader, *, with_wrong: bool) -> None:
    table = Table("pairs", "in all", "judged", "merged", "replaced", "false", "missed")
    for group in ("same", "near", "step"):
        table.add_row(group, *map(str, _figures([one for one in outcomes if one.pair.group == group])))
    console.print(table)
    wanted = [one for one in outcomes if one.pair.key != "apart"]
    false, missed = sum(one.is_false for one in outcomes), sum(one.is_missed for one in outcomes)
    console.print(f"false merges: {false} of {len(outcomes)} ({false / len(outcomes):.1%})", highlight=False)
    console.print(f"missed: {missed} of {len(wanted)} ({missed / len(wanted):.1%})", highlight=False)
    same = [one for one in wanted if one.pair.key == "same"]
    missed = sum(one.is_missed for one in same)
    console.print(f"missed of the duplicates: {missed} of {len(same)} ({missed / len(same):.1%})", highlight=False)
    console.print(f"{reader.calls} calls; {reader.others} other pairs were judged, too", highlight=False)
    for one in outcomes if with_wrong else ():
        if one.is_false or one.is_missed:
            console.print(_line(one), highlight=False, markup=False, soft_wrap=True)


def _figures(outcomes: Sequence[Outcome]) -> tuple[int, ...]:
    return (
        len(outcomes),
        sum(one.was_judged for one in outcomes),
        sum(one.is_merged for one in outcomes),
        sum(one.is_updated for one in outcomes),
        sum(one.is_false for one in outcomes),
        sum(one.is_missed for one in outcomes),
    )


def _line(one: Outcome) -> str:
    kind = "FALSE" if one.is_false else "MISSED"
    answer = load_answers()[one.pair.id].verdict if one.was_judged else "not judged"
    return f"{kind} ({answer}) {one.pair.earlier}  |  {one.pair.later}"


if __name__ == "__main__":
    main()
