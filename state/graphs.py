"""Channels of each graph.

Text of a conversation or a memory flows through untracked channels of typed records: from node to node, and into no
checkpoint and no server's thread. Inputs are untracked too, since a thread would keep them for the next run. Tracked
channels, inputs and `Send` hold plain ids and numbers, which a server stores as JSON.

LangGraph itself stores the input of a graph if a checkpointer is in force. So hosts call the graphs from a node (or
through `Mnemic`'s methods), and servers keep questions, not memories.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, NamedTuple
from uuid import UUID

from langgraph.channels import UntrackedValue
from typing_extensions import TypedDict

from mnemic.state.consolidation import ConsolidationSnapshot
from mnemic.state.formation import Coverage, DuplicateDraft, SimilarFact
from mnemic.state.kinds import Extraction, FormationReason, LeasedWork
from mnemic.state.query import BudgetTokens, Delta
from mnemic.state.records import Message, NewMemory, ScopeContext, SearchResult, Supersession, WordCounts

#: `busy`: another run holds the lease. `backoff`: the last run failed, and its pause is not over.
Outcome = Literal["saved", "not_due", "busy", "backoff", "refused", "stale", "failed"]
#: `leased`: another run holds the lease. `backoff`: the last run failed, and its pause is not over.
Waits = Literal["leased", "backoff"]
#: `text_only`: the question could not be embedded, so the search used its text alone. `no_memory`: the database did not
#: respond in time, and the context is empty. `busy`: too many recalls ran at once, and the context is empty.
Degraded = Literal["text_only", "no_memory", "busy"]
#: `auto`: heuristics decide on a search; `always`: requested, or the agent is unsure; `never`: no search.
SearchMode = Literal["auto", "always", "never"]
#: `asked`: by `search="always"`; `phrase`: the message requests it; `own_question`: it is about the user's own affairs;
#: `past_question`: it is about the past; `known_word`: it has a name or a rare word of a memory; `follow_up`: it
#: continues the message before.
SearchReason = Literal["asked", "phrase", "own_question", "past_question", "known_word", "follow_up"]
#: Reason why the text of a consolidation is refused.
RefusedText = Literal["too_long", "empty", "degenerate", "stale", "lossy"]
Rows = Annotated[list[dict[str, Any]], UntrackedValue]
Text = Annotated[str, UntrackedValue]


class Lease(NamedTuple):
    """A claim on one kind of work on one scope key."""

    work: LeasedWork
    scope_key: str
    #: Run that holds the lease.
    holder: UUID


class StepUsage(TypedDict):
    """Usage of one step of a run."""

    step: str
    model: str
    tier: str
    calls: int
    input_tokens: int
    #: Input tokens from the provider's cache, among these.
    cached_tokens: int
    output_tokens: int
    #: Calls without a reported number of tokens.
    unreported_calls: int
    #: US dollars; None without a price of the model, or if tokens were not reported.
    cost: float | None


def join_spent(old: list[StepUsage], new: list[StepUsage]) -> list[StepUsage]:
    """Join the usage of a run's steps; an empty list resets it, since a server's thread keeps the last run's."""
    if not new:
        return []
    return [*old, *new]


class ConsolidationOutput(TypedDict, total=False):
    """The result for one scope key."""

    scope_key: str
    outcome: Outcome
    #: Absorbed reflections.
    absorbed: int
    #: Share of names, numbers, dates and quoted words kept; 1.0 if no text was written.
    kept_share: float
    #: Reason of a refused text.
    problem: RefusedText | None
    spent: Annotated[list[StepUsage], join_spent]


class FormationInput(TypedDict, total=False):
    """Input of a formation."""

    #: Form pending messages now, without a due condition and the pause after a failure.
    force: Annotated[bool, UntrackedValue]
    #: Form the quarantined messages now, and no others.
    retry: Annotated[bool, UntrackedValue]


def join_results(old: list[ConsolidationOutput], new: list[ConsolidationOutput]) -> list[ConsolidationOutput]:
    """Join the results of parallel runs, in the order of scope keys; an empty list resets them."""
    if not new:
        return []
    return sorted([*old, *new], key=lambda result: result["scope_key"])


class FormationOutput(TypedDict, total=False):
    """Result of a formation."""

    #: Reason of the run; None if nothing was due, or if the run has to wait.
    reason: FormationReason | None
    #: Reason to wait; None without one.
    waits: Waits | None
    #: Messages that were formed.
    formed: int
    #: Messages of the session that still wait for formation.
    pending: int
    #: Messages among them without a usable answer of the model; a retry takes them.
    quarantined: int
    #: Stored memories by kind.
    stored: dict[str, int]
    superseded: int
    #: New facts that were already stored.
    repeated: int
    #: Texts that passed the validator at once, were trimmed, were refused.
    checks: dict[str, int]
    #: Refused drafts by reason; `unrelated` counts stored facts that a decision named without being offered them.
    refused: dict[str, int]
    #: Formed messages that no memory and no statement of the model covers; their words are kept.
    uncovered_messages: int
    #: Usage of the formation's own steps, without its consolidations.
    spent: list[StepUsage]
    consolidations: Annotated[list[ConsolidationOutput], join_results]


@dataclass(frozen=True, kw_only=True)
class FormationRun:
    """One run of a formation, from its messages to the stored memories. Each step returns a copy with its results."""

    #: The run's lease on the session.
    lease: Lease
    #: Revision of the agent's history before the first read.
    read_revision: int
    #: Settings that the agent overrides.
    overrides: dict[str, Any]
    extraction: Extraction
    #: Id of the run for the history; None if the host gave none.
    run_id: str | None = None
    #: Reason of the run; None if nothing was due, or if it has to wait.
    reason: FormationReason | None = None
    #: Reason to wait; None without one.
    waits: Waits | None = None
    batch: Sequence[Message] = ()
    #: Messages of the session that wait behind the batch.
    pending: int = 0
    #: Messages among them without a usable answer of the model.
    quarantined: int = 0
    #: Guidance of the agent and its scopes for the extractor.
    guidance: str = ""
    #: Display names of scope keys from the host.
    names: Mapping[str, str] = field(default_factory=dict)
    #: Maximum number of facts, or observations, of the run.
    max_facts: int = 0
    #: Maximum number of memories of a turn, which count for its user's day; None if the run is not of a turn.
    max_writes: int | None = None

    #: Facts to store, and their vectors by id; None for a fact that has to wait for its vector.
    facts: Sequence[NewMemory] = ()
    vectors: Mapping[UUID, Sequence[float] | None] = field(default_factory=dict)
    #: Name of the embedder that made the vectors; None before there are any.
    embedder: str | None = None
    #: Whether a fact of the batch is private.
    has_private: bool = False
    #: Context memory of the identity's scope keys; None until the new facts were compared with stored ones.
    context: Sequence[ScopeContext] | None = None
    #: Stored facts that a new fact may change, by the id of the new one; each pair needs a decision.
    candidates: Mapping[UUID, Sequence[SimilarFact]] = field(default_factory=dict)
    supersessions: Sequence[Supersession] = ()
    duplicates: Sequence[DuplicateDraft] = ()
    #: Reflections and the episode.
    reflections: Sequence[NewMemory] = ()
    coverage: Coverage = field(default_factory=Coverage)

    #: Texts that passed the validator at once, were trimmed, were refused.
    checks: Mapping[str, int] = field(default_factory=dict)
    #: Refused drafts by reason.
    refused: Mapping[str, int] = field(default_factory=dict)
    #: New facts that were already stored.
    repeated: int = 0
    spent: Sequence[StepUsage] = ()
    #: Stored memories by kind.
    stored: Mapping[str, int] = field(default_factory=dict)
    superseded: int = 0
    uncovered_messages: int = 0
    #: Scope keys with a due consolidation.
    due: Sequence[str] = ()


class FormationState(FormationInput, FormationOutput, total=False):
    """Formation's channels."""

    lease: Annotated[Lease, UntrackedValue]
    run: Annotated[FormationRun, UntrackedValue]


class ConsolidationInput(TypedDict, total=False):
    """Input of a consolidation."""

    scope_key: str
    #: Consolidate below the threshold too, and without the pause after a failure.
    force: Annotated[bool, UntrackedValue]


class ConsolidationState(ConsolidationInput, ConsolidationOutput, total=False):
    """Consolidation's channels."""

    #: The run's lease on the scope key.
    lease: Annotated[Lease, UntrackedValue]
    #: The texts as they were read; not set if no consolidation is due.
    snapshot: Annotated[ConsolidationSnapshot, UntrackedValue]
    #: The new text; empty if it was refused.
    text: Text


class RecallInput(TypedDict, total=False):
    """Input of a recall."""

    #: The message that is about to be answered.
    question: Text
    #: The message of the user before it, to which a question such as `and the dog?` belongs.
    previous: Text
    search: Annotated[SearchMode, UntrackedValue]
    #: Maximum tokens of the retrieved lines; None for the setting.
    budget_tokens: Annotated[BudgetTokens | None, UntrackedValue]


@dataclass(frozen=True, kw_only=True)
class MemoryContext:
    """The memory context of a turn as XML: two texts, since a provider caches the beginning of a request.

    Either may be empty. `with_memory` puts both into a request.

    Attributes:
        standing: the part that rarely changes, for the place behind the host's system prompt.
        turn: changes since the session's last recall, and search results, for the place before the turn's message.
        message_id: id of that message; if it is None, the last message of a user.
    """

    standing: str
    turn: str
    message_id: str | None = None


class RecallOutput(TypedDict, total=False):
    """Result of a recall."""

    context: Annotated[MemoryContext, UntrackedValue]
    #: The search results that fitted, best first.
    memories: Rows
    #: Reason for the search; None if there was none.
    searched: SearchReason | None
    #: Tokens of the whole context.
    tokens: int
    #: The missing part of this recall; None if complete.
    degraded: Degraded | None
    #: Revision up to which changes were announced to the session, for `observe` after the turn; None if no changes were
    #: requested.
    revision: int | None
    #: Every change since the session's last recall, without a text: revision, event, sign, id of the memory.
    updates: Rows
    #: Scope keys with a context memory above its budget, for which a refinement is recommended.
    over_budget: list[str]


@dataclass(frozen=True, kw_only=True)
class RecallReading:
    """First read of a recall."""

    search: SearchMode
    #: Maximum number of tokens of the search results.
    budget_tokens: int = 0
    #: Settings that the agent overrides.
    overrides: dict[str, Any] = field(default_factory=dict)
    #: Memories that are always in context, by scope key.
    scopes: Sequence[ScopeContext] = ()
    #: Changes to announce, if there are any.
    delta: Delta | None = None
    #: Counts of the turn's words, if they decide on a search.
    counts: WordCounts | None = None


class RecallState(RecallInput, RecallOutput, total=False):
    """Channels of a recall. They hold records, since the graph keeps no checkpoints."""

    reading: Annotated[RecallReading, UntrackedValue]
    #: Search results that fit into the budget, best first.
    results: Annotated[Sequence[SearchResult], UntrackedValue]
