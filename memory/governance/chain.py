"""The audit outside of the database: anchors, and a person's export with its check.

An anchor is the hash of a history's newest row, signed and stored elsewhere. The owner of the database may rewrite a
history so that its hashes fit together; it no longer fits an anchor, and a new anchor needs the key.

The first line of an export is the header. Each further line is a row of the agent's history, from the first to the
newest: a row of the person has all contents, any other row the two hashes of the chain. A check needs only sha256.
"""

import hmac
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from hashlib import sha256
from typing import Annotated, Any, Final, Literal, TypeVar

from pydantic import Field, ValidationError

from mnemic.state.chain import AuditLine, ChainRow, Hex, first_hash
from mnemic.state.governance import AuditProblem, Head
from mnemic.state.identity import HostId, scope_key

#: Goes into every signature, so that none of another form or purpose passes for one.
VERSION: Final = "mnemic anchor 1"
#: Bytes of a line; an anchor's has about 300, and an agent's id at most 128, each of which may be escaped.
MAX_LINE: Final = 2048

FORMAT: Final = "mnemic audit export 1"
#: Fields of the hashed text of a row, in order.
COLUMNS: Final = (
    "version", "agent_id", "revision", "op_id", "event", "memory_id", "scope_key", "category", "actor", "actor_kind",
    "reason", "session_id", "run_id", "refinement_id", "undo_of", "before_digest", "after_digest", "token_delta",
    "meta", "ts", "prev",
)  # fmt: skip
#: Explanation of the lines, for a reader years later.
LINES: Final = {
    "every line": "revision, prev and hash of one row; prev is the hash of the row before, in row 1 sha256(agent)",
    "own lines": "hash is sha256(text); row is text as an object, ts in microseconds since 1970",
    "before, after": "the memory's row as JSON text, of a LINK the relation's; its digest is sha256(salt + text)",
    "no salt": "these contents were erased; of a LINK: its other end is not the person's to see",
}
#: Events of an erasure: the contents are gone, their digest stays.
_ERASURES: Final = frozenset({"PURGE", "ERASE"})

_Digest = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


_Kind = TypeVar("_Kind", bound=AuditLine)


class Anchor(AuditLine):
    """The hash of an agent's history at a revision, signed."""

    agent: HostId
    revision: Annotated[int, Field(ge=1, lt=2**63)]
    hash: _Digest
    #: The time of its creation, by the creator's clock; ISO 8601, UTC.
    ts: Annotated[str, Field(max_length=64)]
    mac: _Digest


@dataclass(frozen=True)
class Anchors:
    """The content of a file: signed anchors, each with its line, and the other lines as problems."""

    by_agent: Mapping[str, list[tuple[int, Anchor]]] = field(default_factory=dict)
    problems: tuple[AuditProblem, ...] = ()


def signed(key: str, agent_id: str, revision: int, row_hash: bytes, moment: datetime) -> Anchor:
    """Return an anchor for this row."""
    ts = moment.astimezone(UTC).isoformat()
    mac = _mac(key, agent_id, revision, row_hash.hex(), ts)
    return Anchor(agent=agent_id, revision=revision, hash=row_hash.hex(), ts=ts, mac=mac)


def read_anchors(lines: Iterable[bytes], key: str) -> Anchors:
    """Read the anchors of a file; a line that is none, or has another key, is a problem. Empty lines are ignored."""
    by_agent: dict[str, list[tuple[int, Anchor]]] = {}
    problems = []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        anchor = _parsed(Anchor, line)
        mac = _mac(key, anchor.agent, anchor.revision, anchor.hash, anchor.ts) if anchor else ""
        if anchor is None or not hmac.compare_digest(anchor.mac, mac):
            problems.append(AuditProblem(problem="anchor", agent_id=None, line=number))
        else:
            by_agent.setdefault(anchor.agent, []).append((number, anchor))
    return Anchors(by_agent, tuple(problems))


def contradictions(anchors: Anchors, agent_id: str, hashes: Mapping[int, bytes]) -> Iterator[AuditProblem]:
    """Yield the places at which an agent's history differs from its anchors.

    Args:
        anchors: those of a file.
        agent_id: the agent.
        hashes: hashes of the anchored rows that exist, by revision; each depends on all rows before it.
    """
    for line, anchor in anchors.by_agent.get(agent_id, []):
        found = hashes.get(anchor.revision)
        if found is None:
            yield AuditProblem(problem="cut", agent_id=agent_id, revision=anchor.revision, line=line)
        elif found.hex() != anchor.hash:
            yield AuditProblem(problem="rewritten", agent_id=agent_id, revision=anchor.revision, line=line)


def _mac(key: str, agent: str, revision: int, row_hash: str, ts: str) -> str:
    """Sign the fields in a fixed order, as JSON, so that no two different anchors have the same text."""
    text = json.dumps([VERSION, agent, revision, row_hash, ts])
    return hmac.new(key.encode(), text.encode(), "sha256").hexdigest()


class _Header(AuditLine):
    format: Literal["mnemic audit export 1"]
    agent: str
    user: str | None
    scope_keys: list[str]
    revision: int
    hash: Hex
    columns: list[str]
    lines: dict[str, str]


@dataclass(frozen=True, kw_only=True)
class ExportProblem:
    """One line that fails the check."""

    #: From 1; the header is the first.
    line: int
    reason: str


@dataclass(kw_only=True)
class CheckedExport:
    """The result of the check of an export."""

    #: From the header; None without one. Compare revision and hash with an anchor of the agent.
    agent: str | None = None
    revision: int = 0
    hash: str = ""
    #: All rows, the person's own rows, and own rows with erased contents.
    rows: int = 0
    own: int = 0
    erased: int = 0
    problems: list[ExportProblem] = field(default_factory=list)


def header_line(agent: str, user: str | None, scope_keys: Sequence[str], head: Head) -> str:
    """Return the first line of an export."""
    header = {"format": FORMAT, "agent": agent, "user": user, "scope_keys": list(scope_keys), "revision": head.revision}
    return json.dumps({**header, "hash": head.hash.hex(), "columns": COLUMNS, "lines": LINES})


def row_line(row: ChainRow) -> str:
    """Return a further line."""
    shown = {"row": None if row.text is None else _row(row.text)}
    return row.model_copy(update=shown).model_dump_json(exclude_none=True, ensure_ascii=True)


def check_export(lines: Iterable[str | bytes]) -> CheckedExport:
    """Check that the person's rows match their hashes, in one chain from the first row to the header's hash."""
    numbered = enumerate(lines, start=1)
    header = _parsed(_Header, next(numbered, (1, b""))[1])
    if header is None:
        return CheckedExport(problems=[ExportProblem(line=1, reason="not the header of an export")])
    check = _Check(header)
    for number, line in numbered:
        if line.strip():
            check.add(number, _parsed(ChainRow, line))
    return check.result()


class _Check:
    """One pass over the lines, which keeps only the hash of each."""

    def __init__(self, header: _Header) -> None:
        self._header = header
        self._found = CheckedExport(agent=header.agent, revision=header.revision, hash=header.hash)
        self._line, self._revision, self._hash = 1, 0, first_hash(header.agent).hex()
        #: Memories of which contents are missing, with the line of the first such row: each has to be erased later.
        self._missing: dict[object, int] = {}
        is_theirs = header.user is None or scope_key("user", header.user) in header.scope_keys
        self._expect(is_theirs, "the person's own scope key is not among those of the header")
        self._expect(header.columns == list(COLUMNS), "another form of the hashed text than this version reads")

    def add(self, number: int, link: ChainRow | None) -> None:
        self._line = number
        self._found.rows += 1
        if link is None:
            self._expect(False, "not a row of an export")
            return
        self._expect(link.revision == self._revision + 1, "rows are missing before this one")
        self._expect(link.prev == self._hash, "it does not follow the row before it")
        self._revision, self._hash = link.revision, link.hash
        if link.text is not None:
            self._found.own += 1
            self._check_own(link, link.text)
        else:
            self._expect(not (link.row or link.salt or link.before or link.after), "contents without the row's text")

    def result(self) -> CheckedExport:
        reason = "its contents are missing, and no row here erased them: kept back, or erased while it was made"
        self._found.problems += [ExportProblem(line=line, reason=reason) for line in self._missing.values()]
        self._line += 1
        ends = (self._revision, self._hash) == (self._header.revision, self._header.hash)
        self._expect(ends, "the last row is not the one that the header names")
        return self._found

    def _check_own(self, link: ChainRow, text: str) -> None:
        row = _row(text)
        self._expect(_digest("", text) == link.hash, "the text is not what was hashed")
        self._expect(link.row == row, "the row is not its text")
        named = (row.get("version"), row.get("agent_id"), row.get("revision"), row.get("prev"))
        self._expect(named == ("h1", self._header.agent, link.revision, link.prev), "the text is another row's")
        self._expect(row.get("scope_key") in self._header.scope_keys, "the row is of another scope key")
        before, after = row.get("before_digest"), row.get("after_digest")
        if link.salt is None:
            if row.get("event") != "LINK" and (before is not None or after is not None):
                self._found.erased += 1
                self._missing.setdefault(row.get("memory_id"), self._line)
            self._expect(link.before is None and link.after is None, "contents without their salt")
            return
        # digests run over salt and text: the beginning of a text that was put into the salt would still fit
        whole = all(isinstance(_json(text), dict) for text in (link.before, link.after) if text is not None)
        self._expect(whole, "the contents are no row as JSON")
        if row.get("event") in _ERASURES:
            self._missing.pop(row.get("memory_id"), None)
        is_gone = row.get("event") in _ERASURES and link.before is None
        self._expect(is_gone or _digest(link.salt, link.before) == before, "the contents before are not those recorded")
        self._expect(_digest(link.salt, link.after) == after, "the contents after are not those recorded")

    def _expect(self, is_so: bool, otherwise: str) -> None:
        if not is_so:
            self._found.problems.append(ExportProblem(line=self._line, reason=otherwise))


def _parsed(kind: type[_Kind], line: str | bytes) -> _Kind | None:
    try:
        return kind.model_validate_json(line)
    except ValidationError:
        return None


def _row(text: str) -> dict[str, Any]:
    """Parse the hashed text as an object; empty if it is none."""
    values = _json(text)
    return dict(zip(COLUMNS, values, strict=True)) if isinstance(values, list) and len(values) == len(COLUMNS) else {}


def _json(text: str) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _digest(salt: str, contents: str | None) -> str | None:
    if contents is None:
        return None
    return sha256(bytes.fromhex(salt) + contents.encode("utf-8", "replace")).hexdigest()
