"""Measures the bands of an embedder on the labelled pairs and proposes others.

python -m benchmarks.bands [--embedder minilm|hash|openai:MODEL] [--wrong]
"""

import argparse
import asyncio
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from benchmarks.bands.measure import Errors, Measured, errors, measure, of_label, propose, share_from
from benchmarks.bands.pairs import DECIDED, LABELS, load_pairs
from mnemic.memory.text.bands import Bands
from mnemic.models.embedders import Embedder, make_embedder
from mnemic.state.settings import Settings

QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
LINKS = (0.55, 0.60, 0.65, 0.70, 0.75, 0.80)


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--embedder", default="minilm", help="as MNEMIC_EMBEDDER: minilm, hash or openai:MODEL")
    parser.add_argument("--wrong", action="store_true", help="list the pairs that the bands in force get wrong")
    arguments = parser.parse_args()
    embedder = make_embedder(Settings(embedder=arguments.embedder))
    measured = asyncio.run(measure(embedder, load_pairs()))
    console = Console(width=120)
    for table in tables(embedder, measured):
        console.print(table)
    if arguments.wrong:
        for line in wrong_lines(measured, embedder.bands):
            console.print(line, markup=False, highlight=False)


def tables(embedder: Embedder, measured: Sequence[Measured]) -> list[Table]:
    """All that is printed: how the labels lie, and what bands in force and proposed do wrong in each half."""
    calibration = [one for one in measured if one.pair.half == "calibration"]
    held_out = [one for one in measured if one.pair.half == "held-out"]
    proposed = propose(calibration)
    return [
        _distribution(embedder.name, measured),
        _shares(measured),
        _error_table(f"In force: {_written(embedder.bands)}", embedder.bands, calibration, held_out),
        _error_table(f"Proposed from the calibration half: {_written(proposed)}", proposed, calibration, held_out),
    ]


def wrong_lines(measured: Sequence[Measured], bands: Bands) -> list[str]:
    """Each pair that a decision should see and does not."""
    missed = [one for one in of_label(measured, *DECIDED) if one.similarity < bands.check]
    return [
        f"{one.similarity:.3f} {one.pair.label}: {one.pair.old}  |  {one.pair.new}"
        for one in sorted(missed, key=lambda one: one.similarity)
    ]


def _distribution(name: str, measured: Sequence[Measured]) -> Table:
    table = Table("", "pairs", *(f"{place:.0%}" for place in QUANTILES), title=f"Cosines with {name}")
    for label in LABELS:
        cosines = sorted(one.similarity for one in of_label(measured, label))
        places = (cosines[round(place * (len(cosines) - 1))] for place in QUANTILES)
        table.add_row(label, str(len(cosines)), *(f"{cosine:.2f}" for cosine in places))
    return table


def _shares(measured: Sequence[Measured]) -> Table:
    table = Table("", *(f"{link:.2f}" for link in LINKS), title="Share of pairs from a cosine on")
    for label in LABELS:
        table.add_row(label, *(f"{share_from(of_label(measured, label), link):.0%}" for link in LINKS))
    return table


def _error_table(title: str, bands: Bands, calibration: Sequence[Measured], held_out: Sequence[Measured]) -> Table:
    table = Table("", "calibration", "held-out", title=title)
    known, unknown = _lines(errors(calibration, bands)), _lines(errors(held_out, bands))
    for what, count in known.items():
        table.add_row(what, count, unknown[what])
    return table


def _lines(found: Errors) -> dict[str, str]:
    return {
        "same, below check: silent duplicates": f"{found.duplicates} of {found.same}",
        "update, below check: missed contradictions": f"{found.missed} of {found.update}",
        "same or update, below fallback: never looked at": f"{found.lost} of {found.same + found.update}",
        "related or unrelated, from check on: needless": f"{found.needless} of {found.others}",
        "auto, and not same: lost facts": f"{found.wrong_autos} of {found.update + found.others}",
        "auto, and same: no model asked": f"{found.autos} of {found.same}",
    }


def _written(bands: Bands) -> str:
    return f"auto {bands.auto:.2f}, check {bands.check:.2f}, fallback {bands.fallback:.2f}"


if __name__ == "__main__":
    main()
