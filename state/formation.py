"""Records that the nodes of formation hand to one another, and to storage."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple
from uuid import UUID

from mnemic.state.records import Message, NewMemory


class Inbox(NamedTuple):
    """The oldest unformed messages of a session, and what decides whether to form them."""

    messages: tuple[Message, ...]
    #: All that are pending, those beyond this batch included.
    pending: int
    #: Those of them that only a retry takes.
    set_aside: int
    idle: timedelta


@dataclass(frozen=True, kw_only=True)
class SimilarFact:
    """A living fact near a new one."""

    #: Place of the new fact in the question, from 0.
    place: int
    id: UUID
    #: 0 for a fact of the same batch, which is stored as version 1 just before it is closed.
    version: int
    content: str
    dated: datetime
    #: A protected fact counts as known, and no decision may close it.
    protected: bool
    private: bool
    importance: int
    #: Cosine similarity of the two search texts.
    similarity: float

    @property
    def is_stored(self) -> bool:
        """Stored before this run, and not a fact of the same batch."""
        return self.version > 0


@dataclass(frozen=True, kw_only=True)
class Closing:
    """A fact to be closed, with what replaces it."""

    old_id: UUID
    #: As it was read; of a fact of the same batch, as it will be stored.
    version: int
    #: Stored before this run.
    is_stored: bool
    new_id: UUID
    until: datetime


@dataclass(frozen=True, kw_only=True)
class Repeat:
    """A new memory that was dropped because it is known."""

    new: NewMemory
    #: What it repeats, in which scope, and whether that was stored before this run.
    known_id: UUID
    scope_key: str
    is_stored: bool


@dataclass(frozen=True, kw_only=True)
class Account:
    """Which messages of a run are accounted for. What is not keeps its words."""

    #: Messages that a stored or known memory rests on.
    cited: frozenset[UUID] = frozenset()
    #: Those that a draft rests on which was refused or had to give way.
    open: frozenset[UUID] = frozenset()
    #: Whether each step has said that all others hold nothing; None: no step was asked.
    nothing_else: bool | None = None


class Twin(NamedTuple):
    """The living memory that says what a new one says."""

    new_id: UUID
    id: UUID
    version: int
    protected: bool
