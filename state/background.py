"""Records of background work: targets of jobs, queued and failed jobs, schedules, and pairs of facts."""

from dataclasses import dataclass
from datetime import datetime
from typing import Literal, NamedTuple
from uuid import UUID

from mnemic.state.records import Memory


class Target(NamedTuple):
    """The target of one run of a job."""

    agent_id: str
    #: Session (`session:...`), scope key, or the agent as a whole (`agent:...`).
    scope_key: str


@dataclass(frozen=True, kw_only=True)
class QueuedJob:
    """A job that waits in the queue or is under way."""

    id: int
    job: str
    agent_id: str
    scope_key: str
    status: Literal["waiting", "running"]
    #: Earliest start; None for at once.
    scheduled_at: datetime | None


@dataclass(frozen=True, kw_only=True)
class JobFailure:
    """Work that failed: its reason, the number of failures, and the next try."""

    agent_id: str
    job: str
    scope_key: str
    #: Message of a typed error, without contents.
    reason: str
    failures: int
    failed_at: datetime
    #: None if it is not tried again without a command.
    retry_at: datetime | None


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """The schedule of one agent's job."""

    agent_id: str
    job: str
    cron: str
    last_at: datetime | None
    next_at: datetime


@dataclass(frozen=True, kw_only=True)
class BackgroundStatus:
    """Running, waiting and failed work of the background, and the schedules."""

    queued: list[QueuedJob]
    failed: list[JobFailure]
    schedules: list[Schedule]


class FactPair(NamedTuple):
    """Two active facts of one scope key that may have the same content."""

    #: Digest of the ids and versions of both.
    fingerprint: UUID
    #: The fact that became true first.
    earlier: Memory
    later: Memory
    #: Cosine similarity of the two, from 0 to 1.
    similarity: float
    #: Whether a relation connects them already.
    is_linked: bool

    @property
    def facts(self) -> tuple[Memory, Memory]:
        """Both facts, the earlier one first."""
        return self.earlier, self.later

    @property
    def ids(self) -> tuple[UUID, UUID]:
        """The ids of both facts."""
        return self.earlier.id, self.later.id

    @property
    def contents(self) -> tuple[str, str]:
        """The sentences of both facts."""
        return self.earlier.content, self.later.content
