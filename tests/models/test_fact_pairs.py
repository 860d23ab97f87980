"""The labelled pairs of facts, the rule that needs no vector, and the bands of MiniLM that come of them."""

import asyncio
import sys
from dataclasses import replace
from statistics import mean

import pytest

from benchmarks.bands.__main__ import main
from benchmarks.bands.measure import Errors, Measured, errors, measure, of_label, propose
from benchmarks.bands.pairs import LABELS, load_pairs
from mnemic.memory.text.bands import same_fact
from mnemic.memory.text.details import details
from mnemic.models.embedders.minilm import MiniLMEmbedder

pytestmark = pytest.mark.thorough

PAIRS = load_pairs()


def test_different_facts_never_pass_as_one_although_their_details_agree() -> None:
    different = [pair.contents for pair in PAIRS if pair.label != "same"]

    assert [pair for pair in different if same_fact(*pair)] == []
    assert sum(details(old) == details(new) for old, new in different) >= 50


@pytest.fixture(scope="module")
def minilm() -> MiniLMEmbedder:
    return MiniLMEmbedder()


@pytest.fixture(scope="module")
def measured(minilm: MiniLMEmbedder) -> list[Measured]:
    return asyncio.run(measure(minilm, PAIRS))


def test_the_labels_lie_in_order_on_average(measured: list[Measured]) -> None:
    means = [mean(measurement.similarity for measurement in of_label(measured, label)) for label in LABELS]

    assert means == sorted(means, reverse=True)


def test_the_bands_in_force_are_those_that_the_rule_proposes(measured: list[Measured], minilm: MiniLMEmbedder) -> None:
    proposed = propose([measurement for measurement in measured if measurement.pair.half == "calibration"])

    # quantized models answer a little differently from processor to processor
    assert proposed.check == pytest.approx(minilm.bands.check, abs=0.021)
    assert proposed.fallback == pytest.approx(minilm.bands.fallback, abs=0.021)
    assert proposed.auto == minilm.bands.auto


def within_bounds(found: Errors) -> bool:
    return (
        found.wrong_autos == 0
        and found.duplicates <= 0.02 * found.same
        and found.missed <= 0.03 * found.update
        and found.lost <= 0.02 * (found.same + found.update)
        and found.needless <= 0.55 * found.others
    )


def test_bands_err_rarely_on_held_out_pairs_and_shifted_bands_err_more(
    measured: list[Measured], minilm: MiniLMEmbedder
) -> None:
    held_out, bands = [measurement for measurement in measured if measurement.pair.half == "held-out"], minilm.bands
    higher = replace(bands, check=bands.check + 0.15, fallback=bands.fallback + 0.15)
    lower = replace(bands, check=bands.check - 0.15, fallback=bands.fallback - 0.15)

    assert within_bounds(errors(held_out, bands))
    assert not within_bounds(errors(held_out, higher))
    assert not within_bounds(errors(held_out, lower))


def test_command_prints_the_results_of_current_and_proposed_bands(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["bands", "--embedder", "hash", "--wrong"])
    main()
    assert "0 of 180" in capsys.readouterr().out
