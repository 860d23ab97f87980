"""Anchors: what a history's newest row hashes to, signed and kept outside of the database.

Whoever owns the database may write a history anew so that it fits together. It does not fit an anchor any more, and
without the key nobody makes another one.
"""

import hmac
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Annotated, Final

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from mnemic.state.audit import AuditProblem
from mnemic.state.identity import HostId

#: Goes into every signature, so that none of another form or purpose passes for one.
VERSION: Final = "mnemic anchor 1"
#: Bytes of a line; an anchor's has about 300, and an agent's id at most 128, each of which may be escaped.
MAX_LINE: Final = 2048

_Digest = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class Anchor(BaseModel):
    """The hash of an agent's history at a seq, signed."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, hide_input_in_errors=True, defer_build=True)

    agent: HostId
    seq: Annotated[int, Field(ge=1, lt=2**63)]
    hash: _Digest
    #: When it was made, by the clock of whoever made it; ISO 8601, UTC.
    ts: Annotated[str, Field(max_length=64)]
    mac: _Digest


@dataclass(frozen=True)
class Anchors:
    """What a file holds: signed anchors, each with its line, and the lines that are none."""

    by_agent: Mapping[str, list[tuple[int, Anchor]]] = field(default_factory=dict)
    problems: tuple[AuditProblem, ...] = ()

    def seqs(self, agent_id: str) -> list[int]:
        """The rows of an agent that are anchored."""
        return [anchor.seq for _, anchor in self.by_agent.get(agent_id, [])]


def signed(key: str, agent_id: str, seq: int, row_hash: bytes, moment: datetime) -> Anchor:
    """An anchor for this row."""
    ts = moment.astimezone(UTC).isoformat()
    mac = _mac(key, agent_id, seq, row_hash.hex(), ts)
    return Anchor(agent=agent_id, seq=seq, hash=row_hash.hex(), ts=ts, mac=mac)


def line_of(anchor: Anchor) -> str:
    """The anchor as one line of a file, without its end."""
    return json.dumps(anchor.model_dump())


def read_anchors(lines: Iterable[bytes], key: str) -> Anchors:
    """The anchors of a file; a line that is none, or was signed with another key, is a problem. Empty lines are not."""
    by_agent: dict[str, list[tuple[int, Anchor]]] = {}
    problems = []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        anchor = _read(line)
        if anchor is None or not _is_signed(anchor, key):
            problems.append(AuditProblem(problem="anchor", agent_id=None, line=number))
        else:
            by_agent.setdefault(anchor.agent, []).append((number, anchor))
    return Anchors(by_agent, tuple(problems))


def contradictions(anchors: Anchors, agent_id: str, hashes: Mapping[int, bytes]) -> Iterator[AuditProblem]:
    """Where an agent's history is not the one that was anchored.

    Args:
        anchors: those of a file.
        agent_id: the agent.
        hashes: of the anchored rows those that are there, with the hashes that the chain ties to all before them.
    """
    for line, anchor in anchors.by_agent.get(agent_id, []):
        found = hashes.get(anchor.seq)
        if found is None:
            yield AuditProblem(problem="cut", agent_id=agent_id, seq=anchor.seq, line=line)
        elif found.hex() != anchor.hash:
            yield AuditProblem(problem="rewritten", agent_id=agent_id, seq=anchor.seq, line=line)


def _read(line: bytes) -> Anchor | None:
    try:
        return Anchor.model_validate_json(line)
    except ValidationError:
        return None


def _is_signed(anchor: Anchor, key: str) -> bool:
    return hmac.compare_digest(anchor.mac, _mac(key, anchor.agent, anchor.seq, anchor.hash, anchor.ts))


def _mac(key: str, agent: str, seq: int, row_hash: str, ts: str) -> str:
    """Over the fields in a fixed order, as JSON, so that no two different anchors are signed as one text."""
    text = json.dumps([VERSION, agent, seq, row_hash, ts])
    return hmac.new(key.encode(), text.encode(), "sha256").hexdigest()
