"""How far each session has been told of changes, and what there is to tell. The caller owns the transaction."""

import json
from collections.abc import Mapping
from typing import Any
from uuid import UUID

from mnemic.policy.recall.delta import EXPLICIT, LONGEST_TEXT, SIGNS
from mnemic.state.errors import InvalidInputError
from mnemic.state.identity import Identity
from mnemic.state.query import Change, Changes, Known
from mnemic.storage.statements import load_statements
from mnemic.storage.transaction import ScopedTransaction

_SQL = load_statements("revisions")
#: Changes that are told at once: the next recalls tell of the others, so that no backlog keeps a turn waiting (2 s).
MOST_CHANGES = 1000


async def changes(scoped: ScopedTransaction, session_id: str, *, standing: bool) -> Changes:
    """What happened to the visible memories since the session was told last; writes nothing.

    Args:
        session_id: whose cursor counts; a session without one is told of nothing.
        standing: whether the memories that are always in context may be read: consolidations, reflections, core.
    """
    return await _read(scoped, {"session_id": session_id, "since": None, "standing": standing, "explicit": EXPLICIT})


async def since(scoped: ScopedTransaction, seq: int, *, standing: bool) -> Changes:
    """What happened to the visible memories after a seq, what their agent did on purpose included; writes nothing."""
    return await _read(scoped, {"session_id": None, "since": seq, "standing": standing, "explicit": ()})


async def _read(scoped: ScopedTransaction, asked: Mapping[str, Any]) -> Changes:
    values = {
        **asked,
        "reader": _reader(scoped.identity),
        "events": list(SIGNS),
        "explicit": list(asked["explicit"]),
        "longest": 2 * LONGEST_TEXT,  # white space is folded later
        "most": MOST_CHANGES,
    }
    rows = await scoped.rows(dict, _SQL["changes"], values)
    if not rows:
        return Changes(since=None, revision=0)  # the agent has no memory yet
    told = [row for row in rows if row["seq"] is not None]
    return Changes(
        since=rows[0]["seen_seq"],
        revision=told[-1]["seq"] if len(told) == MOST_CHANGES else rows[0]["head"],
        changes=tuple(_change(row) for row in told),
        known={**_known(told, "successor", "successor_"), **_known(told, "memory_id", "")},
    )


async def advance(scoped: ScopedTransaction, session_id: str, revision: int) -> None:
    """Moves the session's cursor up to a recall's revision; one that it has passed leaves it where it is.

    Raises:
        InvalidInputError: the agent's history has not come so far; the transaction must not go on.
    """
    values = {"session_id": session_id, "reader": _reader(scoped.identity), "revision": revision}
    cursor = await scoped.execute(_SQL["advance"], values)
    row = await cursor.fetchone()
    if row is None or row[0] < revision:
        raise InvalidInputError("revision: pass on what a recall of this agent has returned; nothing was written")


def _reader(identity: Identity) -> str:
    """In one session several people may speak and several roles ask, and none of them sees what the others see."""
    return json.dumps([identity.role, identity.user_id])


def _change(row: Mapping[str, Any]) -> Change:
    return Change(seq=row["seq"], event=row["event"], memory_id=row["memory_id"], category=row["category"])


def _known(rows: list[dict[str, Any]], id_column: str, prefix: str) -> dict[UUID, Known]:
    """The memories that these columns describe; those that may not be seen, or are gone, have no state."""
    return {
        row[id_column]: Known(
            state=row[f"{prefix}state"],
            category=row[f"{prefix}category"],
            importance=row[f"{prefix}importance"],
            beginning=row[f"{prefix}beginning"],
            successor=row[f"{prefix}successor"],
        )
        for row in rows
        if row[f"{prefix}state"]
    }
