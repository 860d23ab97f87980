"""Records of refinements: the ledger of a session, its turns and outcome, and the channels of its graph."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, Literal, NamedTuple, cast
from uuid import UUID

from langgraph.channels import UntrackedValue
from typing_extensions import TypedDict

from mnemic.state.graphs import Lease, StepUsage, join_spent
from mnemic.state.kinds import Kind

#: Reason of a session's end. `completed`: by a call of its agent. `finished`: no call came after the last batch. Any
#: other is a limit.
Ended = Literal["completed", "finished", "steps", "tokens", "time"]
#: `planned`: a dry run. `not_due`: the context memories are within their budget, and the run is not forced.
RefinementOutcome = Literal["ended", "not_due", "planned"]
#: Maximum number of calls of one answer. A careful model makes two dozen, a model in a loop hundreds.
MAX_CALLS = 64


@dataclass(frozen=True, kw_only=True)
class LedgerEntry:
    """A context memory in the ledger."""

    #: Number by which the model names it; a model never sees its id.
    handle: int
    id: UUID
    version: int
    kind: Kind
    category: str
    content: str
    #: Display name of the person that it is about.
    subject: str
    #: Id of that person; None without an account.
    subject_user_id: str | None
    #: Time since when it holds, the origin date; a merge keeps it.
    valid_from: datetime
    tokens: int
    importance: int
    protected: bool
    pinned: bool
    private: bool
    tags: tuple[str, ...] = ()
    scope_key: str = ""
    #: Author of a memory; None for the reader's own, and for a memory of several people.
    author: str | None = None
    #: Typed sentence that a shared memory rests on; None if unknown.
    said: str | None = None


def total_tokens(entries: Iterable[LedgerEntry]) -> int:
    """Return the tokens of all these memories."""
    return sum(entry.tokens for entry in entries)


class Budget(NamedTuple):
    """Size and limits of a session, in tokens of four characters."""

    #: Tokens of all context memories.
    now: int
    target: int
    #: Tokens of protected memories, and their maximum.
    protected: int
    most_protected: int
    #: Memories that the session may still remove without keeping their content.
    removable: int
    #: Memories that it has removed.
    removed: int


class Batch(NamedTuple):
    """The memories that the agent sees at once, and the budget at the beginning of the batch."""

    ledger: tuple[LedgerEntry, ...]
    budget: Budget


class ToolCall(NamedTuple):
    """One tool call of a model, and its answer."""

    #: Id from the provider.
    id: str
    name: str
    #: None if they could not be read.
    arguments: Mapping[str, Any] | None
    answer: str = ""


class Turn(NamedTuple):
    """One answer of a model that may call tools."""

    text: str = ""
    calls: tuple[ToolCall, ...] = ()


class RefinementOutput(TypedDict, total=False):
    """Result of a requested refinement; for a dry run the work to do."""

    scope_key: Annotated[str, UntrackedValue]
    outcome: RefinementOutcome
    #: Id of the session; None if none was needed.
    refinement_id: str | None
    #: Whether an earlier run began it and broke off.
    resumed: bool
    ended: Ended | None
    #: Tokens of all context memories.
    tokens_before: int
    tokens_after: int
    target_tokens: int
    memories_before: int
    memories_after: int
    #: Numbers of memories: duplicates removed at the beginning, then the edits of the agent.
    duplicates: int
    merged: int
    updated: int
    deleted: int
    protected: int
    steps: int
    journal_id: str | None
    #: Usage of each turn of this run, without the runs of the session that broke off.
    spent: Annotated[list[StepUsage], join_spent]


class RefinementInput(TypedDict, total=False):
    """Input of a refinement."""

    #: The scope key; the agent's own if missing.
    scope_key: Annotated[str, UntrackedValue]
    #: Also if it is within its budget.
    force: Annotated[bool, UntrackedValue]
    #: Only report the work to do.
    dry_run: Annotated[bool, UntrackedValue]


class RefinementState(RefinementInput, RefinementOutput, total=False):
    """Refinement's channels. The session's row and the memories hold all that must survive a crash."""

    #: The run's lease on the session.
    lease: Annotated[Lease, UntrackedValue]
    #: Settings that the agent overrides.
    overrides: Annotated[dict[str, Any], UntrackedValue]
    #: Memories as the model last saw them, by their numbers.
    by_number: Annotated[dict[int, LedgerEntry], UntrackedValue]
    #: Lost words that the model got at its first attempt to end.
    reported_losses: Annotated[list[str], UntrackedValue]
    #: Ids of the memories of each batch.
    batches: Annotated[list[list[str]], UntrackedValue]
    #: Number of the current batch, from 1.
    batch: Annotated[int, UntrackedValue]
    #: The current batch as it was at its beginning, and its turns so far.
    current_batch: Annotated[Batch, UntrackedValue]
    turns: Annotated[list[Turn], UntrackedValue]
    #: Reason of the session's end; None until then.
    ending: Annotated[Ended | None, UntrackedValue]


@dataclass(frozen=True, kw_only=True)
class Refinement:
    """One session, running or ended: figures only.

    Attributes:
        id: id of the refinement.
        scope_key: the scope key.
        started_at: its begin.
        actor: actor that requested it.
        ended: reason of the end; None if it runs, or waits to be resumed.
        ended_at: its end; None if it runs, or waits to be resumed.
        is_held: whether a run holds its lease.
        steps: turns of the agent.
        model_tokens: tokens of the model's calls.
        target_tokens: target of the tokens of the context memories.
        tokens_before: tokens of the context memories at the start.
        tokens_after: tokens of the context memories at the end; None until then.
        memories_before: number of context memories at the start.
        memories_after: number of context memories at the end; None until then.
        duplicates: number of duplicates that were removed at the start.
        merged: number of memories that the agent merged.
        updated: number of memories that the agent shortened.
        deleted: number of memories that the agent deleted.
        protected: number of memories that the agent protected.
        removed: memories removed without keeping their content.
        journal_id: journal memory of the outcome; None until the end, or if nothing changed.
    """

    id: UUID
    scope_key: str
    started_at: datetime
    actor: str
    ended: Ended | None
    ended_at: datetime | None
    is_held: bool
    steps: int
    model_tokens: int
    target_tokens: int
    tokens_before: int
    tokens_after: int | None
    memories_before: int
    memories_after: int | None
    duplicates: int
    merged: int
    updated: int
    deleted: int
    protected: int
    removed: int
    journal_id: UUID | None

    def as_result(self) -> RefinementState:
        """Return an ended session as the result of a refinement."""
        figures: dict[str, Any] = {}
        for name in RefinementOutput.__annotations__:
            if hasattr(self, name):
                figures[name] = getattr(self, name)
        figures["refinement_id"] = str(self.id)
        figures["journal_id"] = str(self.journal_id) if self.journal_id else None
        return cast("RefinementState", {**figures, "outcome": "ended"})
