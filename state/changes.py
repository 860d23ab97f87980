"""What memories went through since a session was last told of it: as it is read, and as it is announced."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal, NamedTuple
from uuid import UUID

from mnemic.state.kinds import State

#: History's events that are announced; the others change nothing that an agent reads.
Event = Literal["ADD", "UPDATE", "SUPERSEDE", "ABSORB", "MERGE", "DELETE", "PURGE", "ERASE", "RESTORE"]
Sign = Literal["+created", "↑updated", "↔merged", "~soft-deleted", "−deleted", "⟲restored"]


class Change(NamedTuple):
    """One audited change of one memory."""

    seq: int
    event: Event
    memory_id: UUID
    category: str


class Known(NamedTuple):
    """A memory that changed, or took another's place, as it is now."""

    state: State
    category: str
    importance: int
    #: The beginning of its content.
    beginning: str
    #: What superseded it, or took it in.
    successor: UUID | None


class Changes(NamedTuple):
    """What happened in the visible scope keys between two seqs of the agent's history."""

    #: Up to where the session was told before; None: it has never been told, so nothing is announced to it.
    since: int | None
    #: Up to where it will have been told.
    revision: int
    #: Oldest first.
    changes: tuple[Change, ...] = ()
    #: What they happened to, and what took its place, where it may be seen.
    known: Mapping[UUID, Known] = MappingProxyType({})


@dataclass(frozen=True, kw_only=True)
class Bullet:
    """What became of one memory."""

    sign: Sign
    category: str
    #: What the memory says, cut short; empty where that may not be said.
    text: str
    #: Memories that it has taken in.
    combined: int = 0


@dataclass(frozen=True, kw_only=True)
class Updates:
    """What happened to the memories that somebody sees."""

    #: Up to where it is told; ask from here on the next time.
    revision: int
    #: The most important first.
    bullets: tuple[Bullet, ...]


@dataclass(frozen=True, kw_only=True)
class Delta:
    """The delta header: what an agent is told before everything else."""

    since: int
    #: The most important.
    bullets: tuple[Bullet, ...]
    #: How many there would be of all memories that changed.
    total: int
