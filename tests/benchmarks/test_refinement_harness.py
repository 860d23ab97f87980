"""The harness of refinement with a model: what it prints of a session, and that every run sends the same."""

import sys
from pathlib import Path

import pytest

from benchmarks.refinement import __main__ as refinement
from tests.benchmarks.test_quality_harnesses import data
from tests.support.loopback import LoopbackModel, Request, calling, offering
from tests.support.refinements import DONE, complete, merge, protect, search, update

__all__ = ["data"]


def run(endpoint: LoopbackModel, data: Path, monkeypatch: pytest.MonkeyPatch) -> list[Request]:
    """What the model is sent, which merges two, searches and protects; all else may not be."""
    turns = [
        calling(merge(2, 3, into="Danish Dutch"), update(99, "x"), ("forget", {"id": 1})),
        calling(search(query="Ines"), protect(5), ("update_memory", '{"id": 3, ')),
        calling(complete(""), DONE),
    ]
    endpoint.chat_requests.clear()
    endpoint.answer(offering("complete_refinement"), *turns)
    options = ["--data", str(data), "--embedder", "hash", "--only", "tiny", "--hours", "1"]
    monkeypatch.setattr(sys, "argv", ["refinement", *options, "--model", "openai:m", "--base-url", endpoint.base_url])
    refinement.main()
    return [*endpoint.chat_requests]


def test_a_session_is_told_call_by_call_and_is_sent_the_same_in_every_run(
    data: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with LoopbackModel() as endpoint:
        first = run(endpoint, data, monkeypatch)
        printed = capsys.readouterr().out
        second = run(endpoint, data, monkeypatch)

    assert first == second
    assert "Today is Tue 2023-06-20." in first[0]["messages"][0]["content"]  # the newest memory's day
    assert "tiny: calls: 8 sent, 8 answered, 4 refused" in printed
    (row,) = [line for line in printed.splitlines() if line.startswith("│ tiny ")]
    assert "4 → 3" in row
    assert "1, 0 changed" in row  # what was put together and then protected, is as it was protected
