"""Records of background work: what a job works on, which jobs wait or failed, and when schedules fire."""

from dataclasses import dataclass
from datetime import datetime
from typing import Literal, NamedTuple
from uuid import UUID

from mnemic.state.records import Memory


class Target(NamedTuple):
    """What one run of a job works on."""

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
    #: When it may start; None: at once.
    scheduled_at: datetime | None


@dataclass(frozen=True, kw_only=True)
class JobFailure:
    """Work that failed: why, how often, and when it is tried again."""

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
    """All that the background does, waits for, failed at, and does next."""

    queued: list[QueuedJob]
    failed: list[JobFailure]
    schedules: list[Schedule]


class FactPair(NamedTuple):
    """Two active facts of one scope key that may say the same."""

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
