"""Anchors: signed lines; whatever else stands in their file is a problem and no crash."""

import json
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnemic.policy.governance.audit import MAX_LINE, Anchors, contradictions, read_anchors, signed
from mnemic.state.governance import EXPLANATIONS

KEY = "a secret of the tests' own"
HASH = bytes(range(32))
MORNING = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)
LINE = signed(KEY, "harbor", 7, HASH, MORNING).model_dump_json().encode()


def problems(*lines: bytes, key: str = KEY) -> list[int | None]:
    found = read_anchors(lines, key).problems
    assert {(problem.problem, problem.agent_id) for problem in found} <= {("anchor", None)}
    return [problem.line for problem in found]


def test_an_anchor_is_one_line_that_the_key_reads_again() -> None:
    assert json.loads(LINE) == {
        "agent": "harbor",
        "seq": 7,
        "hash": HASH.hex(),
        "ts": "2026-03-02T09:00:00+00:00",
        "mac": "6d027364bfd8f529aa170b1b91408d304de186933f7615144f495f7f2345309b",
    }
    anchors = read_anchors([b"\n", LINE, b"  \r\n"], KEY)
    assert (anchors.seqs("harbor"), anchors.seqs("museum"), anchors.problems) == ([7], [], ())


def test_the_longest_agents_id_fits_in_a_line() -> None:
    for agent in ("x" * 128, "ü" * 64, '"' * 128, "🐝" * 32):
        line = signed(KEY, agent, 2**63 - 1, HASH, MORNING).model_dump_json()
        assert len(line) < MAX_LINE
        assert read_anchors([line.encode()], KEY).seqs(agent) == [2**63 - 1]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("agent", "museum"),
        ("seq", 8),
        ("hash", bytes(32).hex()),
        ("ts", "2026-03-02T09:00:01+00:00"),
        ("mac", bytes(32).hex()),
    ],
)
def test_a_changed_field_is_no_anchor_any_more(field: str, value: object) -> None:
    assert problems(LINE, json.dumps({**json.loads(LINE), field: value}).encode()) == [2]


def test_another_key_signs_nothing_here() -> None:
    assert problems(LINE) == []
    assert problems(LINE, key=KEY + "!") == [1]


@pytest.mark.parametrize(
    "line",
    [
        b"x",
        b"{}",
        b"[]",
        b"null",
        LINE[:-1],
        LINE + b"}",
        b"\xff\xfe",
        b"[" * 5000,
        b'{"seq": ' + b"9" * 5000 + b"}",
        LINE.replace(b'"seq":7', b'"seq": "7"'),
        LINE.replace(b'"seq":7', b'"seq":7.0'),
        LINE.replace(b'"seq":7', b'"seq": 0'),
        LINE.replace(b'"seq":7', b'"seq":7, "more": 1'),
        LINE.replace(b'"harbor"', b'"\\ud800"'),
        LINE.replace(b'"harbor"', b'""'),
    ],
)
def test_a_line_that_is_no_anchor_is_a_problem(line: bytes) -> None:
    assert problems(LINE, line, LINE) == [2]


@given(st.lists(st.binary(max_size=200), max_size=5))
def test_any_file_can_be_read(lines: list[bytes]) -> None:
    assert len(problems(*lines)) == sum(1 for line in lines if line.strip())


def test_a_history_contradicts_an_anchor_by_another_hash_or_by_none() -> None:
    anchors = read_anchors([LINE, signed(KEY, "harbor", 9, HASH, MORNING).model_dump_json().encode()], KEY)
    assert list(contradictions(anchors, "harbor", {7: HASH, 9: HASH})) == []
    assert list(contradictions(anchors, "museum", {})) == []
    found = list(contradictions(anchors, "harbor", {7: bytes(32)}))
    assert [(problem.problem, problem.agent_id, problem.seq, problem.line) for problem in found] == [
        ("rewritten", "harbor", 7, 1),
        ("cut", "harbor", 9, 2),
    ]
    assert [problem.explanation for problem in found] == [EXPLANATIONS["rewritten"], EXPLANATIONS["cut"]]
    assert Anchors().seqs("harbor") == []
