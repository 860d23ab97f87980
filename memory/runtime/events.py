"""Operational events: they are collected in this process and written in batches, outside of turns."""

import logging
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from time import monotonic
from typing import Any, Final
from uuid import UUID

from mnemic.state.errors import MnemicError
from mnemic.state.events import Event, EventNode, EventStatus
from mnemic.state.identity import Identity
from mnemic.state.records import NewMemory
from mnemic.storage.database import Database
from mnemic.storage.events import record_events

_LOG = logging.getLogger("mnemic")
#: Number of waiting events that is written as one batch, and seconds after which a smaller batch is written.
BATCH: Final = 64
BATCH_SECONDS: Final = 30.0
#: Maximum number of waiting events while the database is away; later ones are counted as lost.
MAX_WAITING: Final = 10_000
#: Upper bounds of the histograms of durations, in seconds: a recall takes milliseconds, a formation a minute.
BUCKETS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)


@dataclass
class Outcome:
    """The result of a recorded block: `ok`, unless the block sets another status."""

    status: EventStatus | None = None
    memory_id: UUID | None = None
    category: str | None = None
    sim: float | None = None


@dataclass
class Total:
    """Occurrences of one kind of event since this process began, and their durations."""

    occurrences: int = 0
    seconds: float = 0.0
    #: Occurrences by the first of `BUCKETS` that holds their duration; the last one holds longer ones.
    buckets: list[int] = field(default_factory=lambda: [0] * (len(BUCKETS) + 1))


class EventLog:
    """Events that wait to be written, and totals of all since the process began.

    Waiting events are lost with the process. These are only counts; the history of memories is complete without them.
    """

    def __init__(self) -> None:
        #: By agent: equal events and their sum.
        self._waiting: dict[str, dict[Event, Event]] = {}
        self._count = 0
        self._since = monotonic()
        self.lost = 0
        #: By node, operation and status.
        self.totals: dict[tuple[str, str, str], Total] = {}

    def note(self, event: Event) -> None:
        """Collect an event; it is added to an equal one that waits."""
        self._add_up(event)
        waiting = self._waiting.setdefault(event.agent_id, {})
        equal = waiting.get(event)
        if equal is not None:
            duration = (equal.duration_ms or 0.0) + (event.duration_ms or 0.0)
            occurrences = equal.occurrences + event.occurrences
            waiting[event] = replace(equal, occurrences=occurrences, duration_ms=duration or None)
        elif self._count >= MAX_WAITING:
            self.lost += event.occurrences
        else:
            if not self._count:
                self._since = monotonic()
            self._count += 1
            waiting[event] = event

    @property
    def is_due(self) -> bool:
        """Return whether it is time to write a batch."""
        return self._count >= BATCH or (self._count > 0 and monotonic() - self._since >= BATCH_SECONDS)

    @contextmanager
    def timed(self, identity: Identity, node: EventNode, op: str, *, counts_person: bool = True) -> Iterator[Outcome]:
        """Collect an event about the block: its duration, and `error` if it raises.

        Args:
            identity: Identity of the run.
            node: Part of the service.
            op: Step, change or job.
            counts_person: Whether the event names user and session; without them more events are equal.
        """
        person: dict[str, Any] = {}
        if counts_person:
            person = {"user_id": identity.user_id, "session_id": identity.session_id}
        outcome, began = Outcome(), monotonic()
        status: EventStatus = "error"
        try:
            yield outcome
            status = outcome.status or "ok"
        finally:
            self.note(
                Event(
                    **person,
                    agent_id=identity.agent_id,
                    node=node,
                    op=op,
                    status=status,
                    memory_id=outcome.memory_id,
                    category=outcome.category,
                    sim=outcome.sim,
                    duration_ms=(monotonic() - began) * 1000,
                )
            )

    def note_created(self, identity: Identity, node: EventNode, stored: Sequence[NewMemory]) -> None:
        """Collect an event for each stored memory, with its id and its category."""
        for memory in stored:
            self._note_change(identity, node, "create", memory_id=memory.id, category=memory.category)

    def note_count(
        self, identity: Identity, changes: tuple[EventNode, str], count: int, status: EventStatus = "ok"
    ) -> None:
        """Collect one event for so many changes; none if there were none.

        Args:
            identity: Identity of the run.
            changes: Node and operation, such as `("formation", "supersede")`.
            count: Number of changes.
            status: `skipped` if they were refused.
        """
        if count:
            self._note_change(identity, *changes, status=status, occurrences=count)

    def _note_change(self, identity: Identity, node: EventNode, op: str, **values: Any) -> None:
        ids: dict[str, Any] = {
            "agent_id": identity.agent_id,
            "user_id": identity.user_id,
            "session_id": identity.session_id,
        }
        self.note(Event(**ids, node=node, op=op, **values))

    async def write(self, database: Database) -> None:
        """Store what waits, in a transaction for each agent. A failure is logged and costs only the counts."""
        waiting, self._waiting, self._count = self._waiting, {}, 0
        for agent_id, events in waiting.items():
            batch = [*events.values()]
            try:
                await database.write(Identity(agent_id=agent_id), partial(record_events, events=batch))
            except MnemicError as error:
                self.lost += sum(event.occurrences for event in batch)
                text = "Could not record %d events of agent %s: %s"
                _LOG.warning(text, len(batch), agent_id, error, extra={"agent_id": agent_id})

    def _add_up(self, event: Event) -> None:
        total = self.totals.setdefault((event.node, event.op, event.status), Total())
        total.occurrences += event.occurrences
        if event.duration_ms is not None:
            seconds = event.duration_ms / 1000
            total.seconds += seconds
            total.buckets[bisect_left(BUCKETS, seconds)] += 1
