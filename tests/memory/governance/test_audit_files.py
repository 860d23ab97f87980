"""Anchors and exports: whatever was changed, left out, added or moved is found, and no line is a crash."""

import hashlib
import json
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnemic.memory.governance.chain import (
    COLUMNS,
    MAX_LINE,
    check_export,
    contradictions,
    header_line,
    read_anchors,
    row_line,
    signed,
)
from mnemic.state.chain import ChainRow, first_hash
from mnemic.state.governance import EXPLANATIONS, Head

# -- anchors

KEY = "a secret of the tests' own"
HASH = bytes(range(32))
MORNING = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)
LINE = signed(KEY, "harbor", 7, HASH, MORNING).model_dump_json().encode()


def anchor_problems(*lines: bytes, key: str = KEY) -> list[int | None]:
    found = read_anchors(lines, key).problems
    assert {(problem.problem, problem.agent_id) for problem in found} <= {("anchor", None)}
    return [problem.line for problem in found]


def test_an_anchor_is_one_line_that_the_key_reads_again() -> None:
    assert json.loads(LINE) == {
        "agent": "harbor",
        "revision": 7,
        "hash": HASH.hex(),
        "ts": "2026-03-02T09:00:00+00:00",
        "mac": "6d027364bfd8f529aa170b1b91408d304de186933f7615144f495f7f2345309b",
    }
    anchors = read_anchors([b"\n", LINE, b"  \r\n"], KEY)
    found = {agent: [(line, made.revision) for line, made in held] for agent, held in anchors.by_agent.items()}
    assert (found, anchors.problems) == ({"harbor": [(2, 7)]}, ())
    assert anchor_problems(LINE, key=KEY + "!") == [1]


def test_the_longest_agents_id_fits_in_a_line() -> None:
    for agent in ("x" * 128, "ü" * 64, '"' * 128, "🐝" * 32):
        line = signed(KEY, agent, 2**63 - 1, HASH, MORNING).model_dump_json()
        assert len(line) < MAX_LINE
        assert [*read_anchors([line.encode()], KEY).by_agent] == [agent]


def another(**fields: object) -> bytes:
    return json.dumps({**json.loads(LINE), **fields}).encode()


@pytest.mark.parametrize(
    "line",
    [
        another(agent="museum"),
        another(revision=8),
        another(hash=bytes(32).hex()),
        another(ts="2026-03-02T09:00:01+00:00"),
        another(mac=bytes(32).hex()),
        b"null",
        LINE[:-1],
        b"\xff\xfe",
        b"[" * 5000,
        b'{"revision": ' + b"9" * 5000 + b"}",
        LINE.replace(b'"revision":7', b'"revision": "7"'),
        LINE.replace(b'"revision":7', b'"revision": 0'),
        LINE.replace(b'"revision":7', b'"revision":7, "more": 1'),
        LINE.replace(b'"harbor"', b'"\\ud800"'),
        LINE.replace(b'"harbor"', b'""'),
    ],
)
def test_a_line_that_is_no_anchor_is_a_problem(line: bytes) -> None:
    assert anchor_problems(LINE, line, LINE) == [2]


@given(st.lists(st.binary(max_size=200), max_size=5))
def test_any_file_can_be_read(lines: list[bytes]) -> None:
    assert len(anchor_problems(*lines)) == sum(1 for line in lines if line.strip())


def test_a_history_contradicts_an_anchor_by_another_hash_or_by_none() -> None:
    anchors = read_anchors([LINE, signed(KEY, "harbor", 9, HASH, MORNING).model_dump_json().encode()], KEY)
    assert list(contradictions(anchors, "harbor", {7: HASH, 9: HASH})) == []
    assert list(contradictions(anchors, "museum", {})) == []
    found = list(contradictions(anchors, "harbor", {7: bytes(32)}))
    assert [(problem.problem, problem.agent_id, problem.revision, problem.line) for problem in found] == [
        ("rewritten", "harbor", 7, 1),
        ("cut", "harbor", 9, 2),
    ]
    assert [problem.explanation for problem in found] == [EXPLANATIONS["rewritten"], EXPLANATIONS["cut"]]


# -- exports

KEYS, FIRST = ["user:ana", "session:s1"], first_hash("harbor").hex()
SALT, BEFORE, AFTER = b"salt", '{"state": "active"}', '{"content": "Ana keeps bees, Zoë says."}'


def digest(contents: str | None) -> str | None:
    return None if contents is None else hashlib.sha256(SALT + contents.encode()).hexdigest()


def own(revision: int, prev: str, event: str = "UPDATE", *, memory: str = "m1") -> ChainRow:
    """A row of the person's, with its contents."""
    before = None if event == "ADD" else BEFORE
    values = dict.fromkeys(COLUMNS) | {"version": "h1", "agent_id": "harbor", "revision": revision, "event": event}
    values |= {"memory_id": memory, "scope_key": "user:ana", "meta": {"a": 0.5}}
    values |= {"before_digest": digest(before), "after_digest": digest(AFTER)}
    text = json.dumps(list((values | {"prev": prev}).values()), ensure_ascii=False)
    row_hash = hashlib.sha256(text.encode()).hexdigest()
    before = None if event == "ERASE" else before
    return ChainRow(revision=revision, prev=prev, hash=row_hash, text=text, salt=SALT.hex(), before=before, after=AFTER)


def bare(row: ChainRow, *, foreign: bool) -> ChainRow:
    """The row of somebody else, or one whose contents were erased."""
    return ChainRow(revision=row.revision, prev=row.prev, hash=row.hash, text=None if foreign else row.text)


def export() -> list[str]:
    """A row of the person's, somebody's, one that was erased, its erasure, somebody's."""
    rows: list[ChainRow] = []
    for revision in range(1, 6):
        last = rows[-1].hash if rows else FIRST
        row = own(revision, last, "ERASE" if revision == 4 else "UPDATE", memory="m3" if revision in (3, 4) else "m1")
        rows.append(bare(row, foreign=revision in (2, 5)) if revision in (2, 3, 5) else row)
    return [
        header_line("harbor", "ana", KEYS, Head(revision=5, hash=bytes.fromhex(rows[-1].hash))),
        *map(row_line, rows),
    ]


EXPORT = export()


def reasons(lines: list[str]) -> list[tuple[int, str]]:
    return [(problem.line, problem.reason) for problem in check_export(lines).problems]


def changed(place: int, **fields: Any) -> list[str]:
    """The export with other fields in one of its lines; None takes one away."""
    line = {**json.loads(EXPORT[place]), **fields}
    kept = {name: value for name, value in line.items() if value != "-"}
    return [*EXPORT[:place], json.dumps(kept), *EXPORT[place + 1 :]]


def test_an_export_as_it_was_made_has_no_problems() -> None:
    checked = check_export(EXPORT)
    assert checked.problems == []
    assert (checked.agent, checked.revision, checked.rows, checked.own, checked.erased) == ("harbor", 5, 5, 3, 1)
    assert checked.hash == json.loads(EXPORT[-1])["hash"]
    assert check_export(line.encode() + b"\r\n" for line in [*EXPORT, ""]).problems == []


def test_an_agent_without_a_history_has_an_export_too() -> None:
    header = header_line("harbor", "ana", KEYS, Head(revision=0, hash=first_hash("harbor")))
    assert check_export([header]).problems == []
    assert reasons([header_line("museum", "ana", KEYS, Head(revision=0, hash=first_hash("harbor")))]) == [
        (2, "the last row is not the one that the header names")
    ]


ROW = json.loads(EXPORT[1])
TEXT, MOULD, ORDER = (
    "the text is not what was hashed",
    "the row is not its text",
    "it does not follow the row before it",
)
BEFORE_WRONG, AFTER_WRONG = (f"the contents {when} are not those recorded" for when in ("before", "after"))
MISSING, FOREIGN = "rows are missing before this one", "contents without the row's text"
ANOTHER, END, NO_HEADER = (
    "the text is another row's",
    "the last row is not the one that the header names",
    "not the header of an export",
)
KEPT_BACK = "its contents are missing, and no row here erased them: kept back, or erased while it was made"
CHANGES: dict[str, tuple[list[str], set[tuple[int, str]]]] = {
    "another text": (changed(1, text=ROW["text"].replace("0.5", "0.6")), {(2, TEXT), (2, MOULD)}),
    "another row": (changed(1, row={**ROW["row"], "event": "ADD"}), {(2, MOULD)}),
    "no row": (changed(1, row="-"), {(2, MOULD)}),
    "another content": (changed(1, after=ROW["after"].replace("bees", "hens")), {(2, AFTER_WRONG)}),
    "another past": (changed(1, before="{}"), {(2, BEFORE_WRONG)}),
    "no past": (changed(1, before=None), {(2, BEFORE_WRONG)}),
    "another salt": (changed(1, salt="00"), {(2, BEFORE_WRONG), (2, AFTER_WRONG)}),
    "contents without a salt": (changed(1, salt="-"), {(2, "contents without their salt"), (2, KEPT_BACK)}),
    "contents kept back": (changed(1, salt="-", before="-", after="-"), {(2, KEPT_BACK)}),
    "an erasure kept back": (changed(4, salt="-", before="-", after="-"), {(4, KEPT_BACK)}),
    "contents of somebody's": (changed(2, after="x"), {(3, FOREIGN)}),
    "another hash": (changed(2, hash="00"), {(4, ORDER)}),
    "another predecessor": (changed(2, prev="00"), {(3, ORDER)}),
    "another number": (changed(2, revision=9), {(3, MISSING), (4, MISSING)}),
    "a row left out": ([*EXPORT[:2], *EXPORT[3:]], {(3, MISSING), (3, ORDER)}),
    "the end left out": (EXPORT[:-1], {(6, END)}),
    "a row twice": ([*EXPORT, EXPORT[-1]], {(7, MISSING), (7, ORDER)}),
    "another head": (changed(0, hash="00"), {(7, END)}),
    "another agent": (changed(0, agent="museum"), {(2, ORDER), (2, ANOTHER), (4, ANOTHER), (5, ANOTHER)}),
    "another person": (changed(0, user="bo"), {(1, "the person's own scope key is not among those of the header")}),
    "another person's keys": (
        changed(0, user="bo", scope_keys=["user:bo"]),
        {(line, "the row is of another scope key") for line in (2, 4, 5)},
    ),
    "other columns": (changed(0, columns=[]), {(1, "another form of the hashed text than this version reads")}),
    "no JSON": (
        [*EXPORT[:2], "x", *EXPORT[3:]],
        {(3, "not a row of an export"), (4, MISSING), (4, ORDER)},
    ),
    "no header": (EXPORT[1:], {(1, NO_HEADER)}),
    "nothing": ([], {(1, NO_HEADER)}),
}


@pytest.mark.parametrize("change", CHANGES)
def test_whatever_was_changed_is_named(change: str) -> None:
    lines, expected = CHANGES[change]
    assert set(reasons(lines)) == expected


def test_contents_of_which_the_beginning_stands_in_the_salt_are_noticed() -> None:
    """The digest runs over salt and text together, and so it fits wherever the one ends."""
    row = own(1, FIRST, "ADD")
    header = header_line("harbor", "ana", KEYS, Head(revision=1, hash=bytes.fromhex(row.hash)))
    assert check_export([header, row_line(row)]).problems == []
    for at in range(1, len(AFTER)):
        beginning, rest = SALT + AFTER[:at].encode(), AFTER[at:]
        assert hashlib.sha256(beginning + rest.encode()).hexdigest() == digest(AFTER)
        line = {**json.loads(row_line(row)), "salt": beginning.hex(), "after": rest}
        assert reasons([header, json.dumps(line)]) == [(2, "the contents are no row as JSON")]


def test_contents_that_no_later_erasure_took_were_kept_back() -> None:
    erasure = own(1, FIRST, "ERASE")
    later = bare(own(2, erasure.hash), foreign=False)
    header = header_line("harbor", "ana", KEYS, Head(revision=2, hash=bytes.fromhex(later.hash)))
    assert reasons([header, row_line(erasure), row_line(later)]) == [(3, KEPT_BACK)]


#: What a header says and nothing proves: whose name it gives, and how it explains the lines.
_SAID = ("user", "lines", "scope_keys")


def _proven(line: str | bytes) -> object:
    """What of a line has to be as it was."""
    try:
        found = json.loads(line)
    except ValueError:
        return None
    return {name: value for name, value in found.items() if name not in _SAID} if isinstance(found, dict) else None


@given(place=st.integers(0, 5), at=st.integers(0, 10_000), byte=st.integers(0, 255))
def test_no_byte_is_changed_without_a_problem_but_where_it_says_the_same(place: int, at: int, byte: int) -> None:
    line = bytearray(EXPORT[place].encode())
    line[at % len(line)] = byte
    is_same = _proven(bytes(line)) == _proven(EXPORT[place])
    assert is_same or check_export([*EXPORT[:place], bytes(line), *EXPORT[place + 1 :]]).problems
