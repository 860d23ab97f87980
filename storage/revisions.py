"""Announced changes: how far each session has seen them, and the changes since. The caller owns the transaction."""

import json
from collections.abc import Collection
from typing import Final
from uuid import UUID

from mnemic.state.errors import InvalidInputError
from mnemic.state.identity import Identity
from mnemic.state.query import EXPLICIT_REASONS, MAX_SENTENCE_LENGTH, SIGNS, Change, Changes, Known
from mnemic.storage.transaction import ScopedTransaction, load_statements

_SQL = load_statements("revisions")
#: Maximum number of changes of one call. The next recalls announce the others, so that a backlog does not delay a turn
#: by 2 s.
MAX_CHANGES = 1000
#: Columns of a changed memory in a row of `changes`, before those of its successor.
_KNOWN: Final = 8


async def read_changes(
    tx: ScopedTransaction, session_id: str | None, *, with_context: bool, since: int | None = None
) -> Changes:
    """Return the changes of visible memories that were not announced to the session; write nothing.

    Args:
        tx: sees the memories.
        session_id: the session; without one, and without `since`, nothing is announced.
        with_context: whether the reader may read context memories: consolidations, reflections, core.
        since: return the changes after this revision instead, including those that the agent made by its tools.
    """
    values = {
        "session_id": session_id,
        "since": since,
        "standing": with_context,
        "explicit": list(EXPLICIT_REASONS) if since is None else [],
        "reader": reader_name(tx.identity),
        "events": list(SIGNS),
        "longest": MAX_SENTENCE_LENGTH,  # twice the announced length of a text: white space is folded later
        "most": MAX_CHANGES,
    }
    rows = await tx.tuples(_SQL["changes"], values)
    if not rows:
        return Changes(since=None, revision=0)  # the agent has no memory yet
    changes: list[Change] = []
    known: dict[UUID, Known] = {}
    successors: dict[UUID, Known] = {}
    shown: set[UUID] = set()
    for _, _, revision, event, memory_id, category, *columns, is_shown in rows:
        if is_shown:
            shown.add(memory_id)
        if revision is not None:
            changes.append(Change(revision, event, memory_id, category))
        state, importance, beginning, successor_id, *origin = columns[:_KNOWN]
        if state:  # a hidden or erased memory has none
            known[memory_id] = Known(state, category, importance, beginning, successor_id, *origin)
        successor = columns[_KNOWN:]
        if successor[0]:
            successors[successor_id] = Known(*successor)
    revision, seen_revision, *_ = rows[0]
    if len(changes) == MAX_CHANGES:
        revision = changes[-1].revision
    return Changes(
        since=seen_revision,
        revision=revision,
        changes=tuple(changes),
        known={**successors, **known},
        shown=None if session_id is None else frozenset(shown),
    )


async def advance(tx: ScopedTransaction, session_id: str, revision: int, shown: Collection[UUID] = ()) -> None:
    """Move the session's cursor up to a recall's revision, never backwards, and add the memories that were shown.

    Raises:
        InvalidInputError: if the agent's history has not reached the revision; the transaction must end.
    """
    values = {
        "session_id": session_id,
        "reader": reader_name(tx.identity),
        "revision": revision,
        "shown": sorted(shown),
    }
    ((head,),) = await tx.tuples(_SQL["advance"], values)
    if head < revision:
        raise InvalidInputError("revision: pass the revision that a recall of this agent returned; nothing was written")


def reader_name(identity: Identity) -> str:
    """Return the name of a reader of a session, which can have several users and several roles."""
    return json.dumps([identity.role, identity.user_id])
