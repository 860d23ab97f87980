"""What an erasure took, or would take."""

from dataclasses import dataclass
from datetime import datetime
from typing import Literal
from uuid import UUID

from mnemic.state.kinds import Kind

#: Why something stays that an erasure came upon.
WhyStaying = Literal["said by another", "shared", "rests on the same messages"]


@dataclass(frozen=True, kw_only=True)
class Concerned:
    """A memory or a message that an erasure would take, or leave."""

    id: UUID
    kind: Kind | Literal["message"]
    scope_key: str
    #: What it says, where that is the person's own to read.
    content: str | None
    #: None: it goes.
    stays: WhyStaying | None = None


@dataclass(frozen=True, kw_only=True)
class Erasure:
    """What an erasure took; of a dry run, what it would take."""

    #: Memories that were erased by this call, and messages that it named.
    erased: tuple[UUID, ...] = ()
    #: How many messages were.
    messages: int = 0
    #: Memories and messages that are still to go: something is written as fast as it is erased. The next call goes on.
    left: int = 0
    #: When the erasure began that this call went on with; None: it began one.
    goes_on_from: datetime | None = None
    #: Of a dry run: what goes, and what stays and why.
    going: tuple[Concerned, ...] = ()
    staying: tuple[Concerned, ...] = ()

    @property
    def is_complete(self) -> bool:
        """Whether nothing is left."""
        return self.left == 0
