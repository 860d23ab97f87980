"""Refinement: what a session sees of the memories it works on, what its agent does in turn, and what came of it."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, Literal, NamedTuple, cast
from uuid import UUID

from langgraph.channels import UntrackedValue
from typing_extensions import TypedDict

from mnemic.state.graphs import Lease, StepUsage, join_spent
from mnemic.state.kinds import Kind

#: Why a session ended: its agent said so; no further call came after the last batch; or a limit was reached.
Ended = Literal["completed", "finished", "steps", "tokens", "time"]
#: `planned`: a dry run. `not_due`: the core memory is within its budget, and nobody insists.
RefinementOutcome = Literal["ended", "not_due", "planned"]
#: Calls of one answer that are carried out; a careful model has two dozen to make, one caught in a loop hundreds.
MAX_CALLS = 64


@dataclass(frozen=True, kw_only=True)
class LedgerEntry:
    """One core memory as the ledger shows it."""

    #: What the model calls it by; never its id.
    handle: int
    id: UUID
    version: int
    kind: Kind
    category: str
    content: str
    #: Who it is about: a display name, and the user's id where there is one.
    subject: str
    subject_user_id: str | None
    #: Since when it holds: the origin date, which a merge keeps.
    valid_from: datetime
    tokens: int
    importance: int
    protected: bool
    pinned: bool
    private: bool
    tags: tuple[str, ...] = ()
    scope_key: str = ""
    #: Another person who brought it.
    author: str | None = None
    #: Typed sentence that a shared memory rests on; None if unknown.
    said: str | None = None


class Budget(NamedTuple):
    """How much there is, and may be done; tokens are characters / 4."""

    #: Tokens of the whole core memory now.
    now: int
    #: What it shall come down to.
    target: int
    #: Tokens of protected memories now, and at most.
    protected: int
    most_protected: int
    #: Memories that the session may still take away without keeping them elsewhere.
    removable: int
    #: Those that it has taken away.
    removed: int


class Batch(NamedTuple):
    """What the agent is shown at once, with how much there was when that began."""

    ledger: tuple[LedgerEntry, ...]
    budget: Budget


class ToolCall(NamedTuple):
    """One tool call of a model, with what it was answered."""

    #: As the provider numbered it.
    id: str
    name: str
    #: None: they could not be read.
    arguments: Mapping[str, Any] | None
    answer: str = ""


class Turn(NamedTuple):
    """One answer of a model that may call tools."""

    text: str = ""
    calls: tuple[ToolCall, ...] = ()


class RefinementResult(TypedDict, total=False):
    """What became of a refinement that was asked for; a dry run tells what there is to do."""

    scope_key: Annotated[str, UntrackedValue]
    outcome: RefinementOutcome
    #: The session; None: none was needed.
    refinement_id: str | None
    #: Whether it had been begun before, and broken off.
    resumed: bool
    ended: Ended | None
    #: Tokens of the whole core memory, and what it shall come down to.
    tokens_before: int
    tokens_after: int
    target_tokens: int
    memories_before: int
    memories_after: int
    #: In memories: duplicates removed first, then what the agent did.
    duplicates: int
    merged: int
    updated: int
    deleted: int
    protected: int
    steps: int
    journal_id: str | None
    #: By each turn of this run; what an earlier one used that was broken off is not among it.
    spent: Annotated[list[StepUsage], join_spent]


class RefinementInput(TypedDict, total=False):
    """Which scope key's core memory to refine."""

    #: The agent's own where none is named.
    scope_key: Annotated[str, UntrackedValue]
    #: Also where it is within its budget.
    force: Annotated[bool, UntrackedValue]
    #: Only tells what there is to do.
    dry_run: Annotated[bool, UntrackedValue]


class RefinementState(RefinementInput, RefinementResult, total=False):
    """Refinement's channels. What must survive a crash is in the session's row and in the memories themselves."""

    #: The run's lease on the session.
    lease: Annotated[Lease, UntrackedValue]
    #: What the agent overrides.
    overrides: Annotated[dict[str, Any], UntrackedValue]
    #: The memories behind the numbers that the model uses, as it was shown them.
    handles: Annotated[dict[int, LedgerEntry], UntrackedValue]
    #: The lost words that the model was told of when it first wanted to end.
    told: Annotated[list[str], UntrackedValue]
    #: The ids of each batch, and which one it is, from 1.
    batches: Annotated[list[list[str]], UntrackedValue]
    batch: Annotated[int, UntrackedValue]
    #: The batch as it was shown, and what was done in it so far.
    shown: Annotated[Batch, UntrackedValue]
    turns: Annotated[list[Turn], UntrackedValue]
    #: Why the session is over; None: it goes on.
    ending: Annotated[Ended | None, UntrackedValue]


@dataclass(frozen=True, kw_only=True)
class Refinement:
    """One session, running or ended: figures only."""

    id: UUID
    scope_key: str
    started_at: datetime
    #: Who had it started.
    actor: str
    #: None: it runs, or waits to be resumed.
    ended: Ended | None
    ended_at: datetime | None
    #: Whether somebody works on it now.
    is_held: bool
    #: Turns of the agent.
    steps: int
    #: Tokens of the model's calls.
    model_tokens: int
    target_tokens: int
    tokens_before: int
    tokens_after: int | None
    memories_before: int
    memories_after: int | None
    #: Duplicates removed before the agent began; then what it did, in memories.
    duplicates: int
    merged: int
    updated: int
    deleted: int
    protected: int
    #: Memories taken away without being kept elsewhere.
    removed: int
    #: The memory that tells of the outcome; None: it runs, or nothing changed.
    journal_id: UUID | None

    def as_result(self) -> RefinementState:
        """An ended session as what a refinement answers."""
        figures = {name: getattr(self, name) for name in RefinementResult.__annotations__ if hasattr(self, name)}
        journal = str(self.journal_id) if self.journal_id else None
        ids = {"refinement_id": str(self.id), "journal_id": journal}
        return cast("RefinementState", {**figures, **ids, "outcome": "ended"})
