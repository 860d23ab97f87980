"""Events about changes of memories: which ones were stored, and how many were superseded, refused or merged."""

from collections.abc import Sequence

from mnemic.operations.run.resources import Resources
from mnemic.state.events import Event, EventNode, EventStatus
from mnemic.state.identity import Identity
from mnemic.state.records import NewMemory


def note_created(resources: Resources, identity: Identity, node: EventNode, stored: Sequence[NewMemory]) -> None:
    """Collect an event for each stored memory, with its id and its category."""
    for memory in stored:
        resources.events.note(
            Event(
                agent_id=identity.agent_id,
                user_id=identity.user_id,
                session_id=identity.session_id,
                node=node,
                op="create",
                memory_id=memory.id,
                category=memory.category,
            )
        )


def note_count(
    resources: Resources, identity: Identity, changes: tuple[EventNode, str], count: int, status: EventStatus = "ok"
) -> None:
    """Collect one event for so many changes; none if there were none.

    Args:
        resources: of the process.
        identity: of the run.
        changes: node and operation, such as `("formation", "supersede")`.
        count: how many there were.
        status: `skipped` if they were refused.
    """
    if not count:
        return
    node, op = changes
    resources.events.note(
        Event(
            agent_id=identity.agent_id,
            user_id=identity.user_id,
            session_id=identity.session_id,
            node=node,
            op=op,
            status=status,
            occurrences=count,
        )
    )
