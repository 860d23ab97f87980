"""How far each session has been told of changes, and what there is to tell. The caller owns the transaction."""

import json
from collections.abc import Collection
from typing import Final
from uuid import UUID

from mnemic.state.errors import InvalidInputError
from mnemic.state.identity import Identity
from mnemic.state.query import EXPLICIT_REASONS, MAX_SENTENCE_LENGTH, SIGNS, Change, Changes, Known
from mnemic.storage.transaction import ScopedTransaction, load_statements

_SQL = load_statements("revisions")
#: Changes that are told at once: the next recalls tell of the others, so that no backlog keeps a turn waiting (2 s).
MAX_CHANGES = 1000
#: Columns of a changed memory in a row of `changes`, before those of its successor.
_KNOWN: Final = 8


async def read_changes(
    tx: ScopedTransaction, session_id: str | None, *, with_context: bool, since: int | None = None
) -> Changes:
    """What happened to the visible memories since the session was told last; writes nothing.

    Args:
        session_id: whose cursor counts; a session without one is told of nothing.
        with_context: whether the memories that are always in context may be read: consolidations, reflections, core.
        since: after this revision instead, what their agent did on purpose included.
    """
    values = {
        "session_id": session_id,
        "since": since,
        "standing": with_context,
        "explicit": list(EXPLICIT_REASONS) if since is None else [],
        "reader": reader_name(tx.identity),
        "events": list(SIGNS),
        "longest": MAX_SENTENCE_LENGTH,  # of a text, twice what is shown: white space is folded later
        "most": MAX_CHANGES,
    }
    rows = await tx.tuples(_SQL["changes"], values)
    if not rows:
        return Changes(since=None, revision=0)  # the agent has no memory yet
    found: list[Change] = []
    # those that may not be seen, or are gone, have no state
    known: dict[UUID, Known] = {}
    successors: dict[UUID, Known] = {}
    shown: set[UUID] = set()
    for _, _, revision, event, memory_id, category, *columns, is_shown in rows:
        memory, successor = columns[:_KNOWN], columns[_KNOWN:]
        if is_shown:
            shown.add(memory_id)
        state, importance, beginning, successor_id, *origin = memory
        if revision is not None:
            found.append(Change(revision, event, memory_id, category))
        if state:
            known[memory_id] = Known(state, category, importance, beginning, successor_id, *origin)
        if successor[0]:
            successors[successor_id] = Known(*successor)
    head, seen_revision, *_ = rows[0]
    revision = found[-1].revision if len(found) == MAX_CHANGES else head
    return Changes(
        since=seen_revision,
        revision=revision,
        changes=tuple(found),
        known={**successors, **known},
        shown=None if session_id is None else frozenset(shown),
    )


async def advance(tx: ScopedTransaction, session_id: str, revision: int, shown: Collection[UUID] = ()) -> None:
    """Move the session's cursor up to a recall's revision, never backwards, and add the memories that were shown.

    Raises:
        InvalidInputError: the agent's history has not come so far; the transaction must not go on.
    """
    values = {
        "session_id": session_id,
        "reader": reader_name(tx.identity),
        "revision": revision,
        "shown": sorted(shown),
    }
    ((head,),) = await tx.tuples(_SQL["advance"], values)
    if head < revision:
        raise InvalidInputError("revision: pass on what a recall of this agent has returned; nothing was written")


def reader_name(identity: Identity) -> str:
    """Return the reader's name in a session, in which several people may speak and several roles may ask."""
    return json.dumps([identity.role, identity.user_id])
