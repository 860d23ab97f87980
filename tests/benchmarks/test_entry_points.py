"""Every benchmark that a page quotes runs as the page says, on little data; how fast it was decides nothing here."""

import re
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from benchmarks.background import __main__ as background
from benchmarks.bands import __main__ as bands
from benchmarks.latency import __main__ as latency
from benchmarks.latency import measuring
from benchmarks.mutants import __main__ as mutants
from benchmarks.pairs import __main__ as pairs
from benchmarks.threads import __main__ as threads
from benchmarks.trace import __main__ as trace

ROOT = Path(__file__).parents[2]
#: Run by another file of tests/.
ELSEWHERE = {
    "corpus": "benchmarks/test_recorded.py",
    "endpoint_faults": "faults/test_endpoint_faults.py",
    "prefix": "benchmarks/test_prefix.py",
    "recall_quality": "benchmarks/test_quality_harnesses.py",
    "refinement": "benchmarks/test_refinement_harness.py",
}
#: The arguments, and words that it prints once it is done.
HERE: dict[str, tuple[Callable[[], None], str, tuple[str, ...]]] = {
    "background": (background.main, "--sessions 20 --idle 2", ("idle worker", "share formed in order")),
    "bands": (bands.main, "--embedder hash --wrong", ("Proposed from the calibration half", "unrelated")),
    "latency": (latency.main, "--rows 1000 --repetitions 2", ("memory_query / by hand", "recall@10, 50 scopes")),
    "mutants": (mutants.main, "table", ("operator", "not run")),
    "pairs": (pairs.main, "--embedder hash --people 2 --wrong", ("false merges: 0 of 30", "missed of the duplicates")),
    "threads": (threads.main, "--repetitions 2", ("turn, async: CPU / plain", "load, p95 in ms")),
    "trace": (trace.main, "", ("memory/formation/steps.py", "modules, offline")),
}


@pytest.mark.thorough
@pytest.mark.parametrize("name", HERE)
def test_it_runs_to_its_end(name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    main, arguments, printed = HERE[name]
    monkeypatch.setattr(measuring, "_IMPORTS", 1)
    monkeypatch.setattr(measuring, "USERS", 10)
    monkeypatch.setattr(measuring, "MANY_SCOPES", 50)
    monkeypatch.setattr(sys, "argv", [name, *arguments.split()])
    with suppress(SystemExit):  # the command itself reports a gate that is not kept
        main()
    shown = capsys.readouterr().out
    assert [words for words in printed if words not in shown] == []


def test_each_benchmark_that_a_page_quotes_is_run_by_a_test() -> None:
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
    quoted = {name for page in pages for name in re.findall(r"python -m benchmarks\.(\w+)", page.read_text("utf-8"))}
    assert quoted <= HERE.keys() | ELSEWHERE.keys()
    for name, path in ELSEWHERE.items():
        assert f"benchmarks.{name}" in (ROOT / "tests" / path).read_text("utf-8")
