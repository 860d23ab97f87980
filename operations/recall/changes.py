"""Recall: what happened to the memories since the session was told last."""

from mnemic.operations.run.resources import Resources
from mnemic.operations.run.serialization import to_plain
from mnemic.policy.recall.delta import SIGNS, header
from mnemic.state.changes import Change, Delta
from mnemic.state.graphs import RecallState
from mnemic.state.settings import Settings
from mnemic.storage import revisions
from mnemic.storage.database import Scoped


async def announce(scoped: Scoped, resources: Resources, settings: Settings) -> RecallState:
    """The delta header, the changes behind it, and up to where they go: one statement, for a session alone."""
    session = scoped.identity.session_id
    if session is None or not (settings.always_in_context or settings.rag):
        return unannounced()
    allowlist = resources.categories.of_role(scoped.identity.role)
    read = await revisions.changes(scoped, session, standing=allowlist.standing)
    delta = header(read)
    return {
        "revision": read.revision,
        "updates": [_row(change) for change in read.changes],
        "delta": to_plain(Delta, [delta] if delta else []),
    }


def unannounced() -> RecallState:
    """Nothing was looked for, so nobody has been told of anything."""
    return {"revision": None, "updates": [], "delta": []}


def _row(change: Change) -> dict[str, int | str]:
    return {
        "seq": change.seq,
        "event": change.event,
        "sign": SIGNS[change.event],
        "memory_id": str(change.memory_id),
    }
