"""What flows between the nodes of each graph.

Everything that carries words of a conversation or a memory is an untracked channel of typed records: it passes from
node to node, and no checkpoint and no server's thread holds it. Inputs are untracked too, for a thread would keep them
for the next run. Tracked channels, inputs and `Send` hold plain ids and numbers, for a server stores them as JSON.

What a caller gives a graph as its input, LangGraph itself writes down where a checkpointer is in force: hosts call the
graphs from a node (or through `Mnemic`'s methods), and servers keep questions, not memories.
"""

from collections.abc import Sequence
from typing import Annotated, Any, Literal, NamedTuple, NotRequired
from uuid import UUID

from langgraph.channels import UntrackedValue
from typing_extensions import TypedDict

from mnemic.state.formation import Account, Repeat, SimilarFact
from mnemic.state.kinds import Extraction, FormationReason
from mnemic.state.query import BudgetTokens, Delta
from mnemic.state.records import Found, Memory, Message, NewMemory, Outdated, Standing, Supersession

#: `busy`: another run works on it. `backoff`: the last one failed, and the next try has to wait.
Outcome = Literal["saved", "not_due", "busy", "backoff", "refused", "stale", "failed"]
#: `leased`: another run works on it. `backoff`: the last one failed, and the next try has to wait.
Waits = Literal["leased", "backoff"]
#: `text_only`: the question could not be embedded, and the search went by its words. `no_memory`: the database could
#: not be had in time, and the context is empty. `busy`: so many recalls came at once that this one was not reached, and
#: the context is empty.
Degraded = Literal["text_only", "no_memory", "busy"]
#: `auto`: heuristics decide on a search; `always`: asked for, or the agent is unsure; `never`: standing part only.
SearchMode = Literal["auto", "always", "never"]
#: A retry takes what was set aside, so that it stands in the way of nothing else.
Work = Literal["formation", "retry", "consolidation", "refinement", "maintenance"]
Rows = Annotated[list[dict[str, Any]], UntrackedValue]
Text = Annotated[str, UntrackedValue]


class Lease(NamedTuple):
    """A claim on one kind of work on one scope key."""

    work: Work
    scope_key: str
    #: The run that claims it.
    holder: UUID


class Spent(TypedDict):
    """What one step of a run used."""

    step: str
    model: str
    tier: str
    calls: int
    input_tokens: int
    #: Of these, what the provider had in its cache.
    cached_tokens: int
    output_tokens: int
    #: Calls whose tokens were not told.
    untold: int
    #: US dollars; None: the settings name no price for the model, or tokens were not told.
    cost: float | None


def join_spent(old: list[Spent], new: list[Spent]) -> list[Spent]:
    """Gathers what the steps of a run used; an empty list begins anew, for a server's thread keeps the last run's."""
    return [*old, *new] if new else []


class ConsolidationResult(TypedDict, total=False):
    """What became of one scope key."""

    scope_key: str
    outcome: Outcome
    #: Reflections taken in.
    absorbed: int
    #: Share of names, numbers, dates and quoted words kept; 1.0 where nothing was written.
    kept_share: float
    #: Why the text was refused.
    problem: Literal["too_long", "empty", "degenerate", "outdated", "lossy"] | None
    spent: Annotated[list[Spent], join_spent]


class FormationInput(TypedDict, total=False):
    """What a formation is asked."""

    #: Form what is pending now, whatever the triggers say, and without the wait after a failure.
    force: Annotated[bool, UntrackedValue]
    #: Form what was set aside, now, and nothing else.
    retry: Annotated[bool, UntrackedValue]


def add_counts(old: dict[str, int], new: dict[str, int]) -> dict[str, int]:
    """Adds figures by name; empty ones begin anew, for a server's thread keeps the last run's."""
    return {name: old.get(name, 0) + new.get(name, 0) for name in {**old, **new}} if new else {}


def join_results(old: list[ConsolidationResult], new: list[ConsolidationResult]) -> list[ConsolidationResult]:
    """Gathers what ran in parallel, in the order of scope keys; an empty list begins anew."""
    return sorted([*old, *new], key=lambda result: result["scope_key"]) if new else []


class FormationOutput(TypedDict, total=False):
    """What a formation did."""

    #: Why it ran; None: nothing was due, or it has to wait.
    reason: FormationReason | None
    #: What it has to wait for; None: nothing.
    waits: Waits | None
    #: Messages that were formed.
    formed: int
    #: Messages of the session that still wait.
    pending: int
    #: Those of them that no usable answer could be had for; a retry takes them up again.
    set_aside: int
    #: Stored memories by kind.
    stored: dict[str, int]
    superseded: int
    #: New facts that were known already.
    repeated: int
    #: Texts that passed the validator at once, were trimmed, were refused.
    checks: Annotated[dict[str, int], add_counts]
    #: Drafts that were refused, by what was wrong with them; `unrelated`: known facts that a decision was not to name.
    refused: Annotated[dict[str, int], add_counts]
    #: Messages that were formed and that no memory and no word of the model accounts for: their words are kept.
    unaccounted: int
    #: By the steps of the formation itself; its consolidations tell their own.
    spent: Annotated[list[Spent], join_spent]
    consolidations: Annotated[list[ConsolidationResult], join_results]


class FormationState(FormationInput, FormationOutput, total=False):
    """Formation's channels."""

    #: The run's lease on the session.
    lease: Annotated[Lease, UntrackedValue]
    #: How far the agent's history had come before anything was read.
    read_seq: int
    #: What the agent overrides, and the guidance of its scopes to the extractor.
    overrides: dict[str, Any]
    guidance: Text
    #: Display names of scope keys, where the host gave one.
    names: Annotated[dict[str, str], UntrackedValue]
    batch: Annotated[list[Message], UntrackedValue]
    extraction: Annotated[Extraction, UntrackedValue]
    #: Facts, or observations, that the run may bring.
    max_facts: Annotated[int, UntrackedValue]
    #: Memories that may be stored of a turn, and then count on its user's day. None: it is none.
    max_writes: Annotated[int | None, UntrackedValue]
    #: Facts on their way to be stored, and their vectors by id; None for a fact that has to wait for its vector.
    facts: Annotated[list[NewMemory], UntrackedValue]
    vectors: Annotated[dict[UUID, list[float] | None], UntrackedValue]
    #: Name of the embedder that made them.
    embedder: Annotated[str, UntrackedValue]
    #: Whether anything in the batch was said in confidence.
    private: Annotated[bool, UntrackedValue]
    #: What a decision is needed on: by the id of a new fact, the stored ones that it may change.
    candidates: Annotated[dict[UUID, list[SimilarFact]], UntrackedValue]
    closing: Annotated[list[Supersession], UntrackedValue]
    repeats: Annotated[list[Repeat], UntrackedValue]
    #: Reflections and the episode.
    reflections: Annotated[list[NewMemory], UntrackedValue]
    account: Annotated[Account, UntrackedValue]
    #: Scope keys whose consolidation became due.
    due: list[str]


class ConsolidationInput(TypedDict, total=False):
    """Which scope key to consolidate."""

    scope_key: str
    #: Also below the threshold, and without the wait after a failure.
    force: Annotated[bool, UntrackedValue]


class ConsolidationState(ConsolidationInput, ConsolidationResult, total=False):
    """Consolidation's channels."""

    #: The run's lease on the scope key.
    lease: Annotated[Lease, UntrackedValue]
    #: The living consolidation as it was read, if there is one, and the reflections to take in.
    current: Annotated[Memory | None, UntrackedValue]
    reflections: Annotated[list[Memory], UntrackedValue]
    #: What no longer holds of what they rest on.
    outdated: Annotated[list[Outdated], UntrackedValue]
    text: Text
    owner: Text
    #: Who the agent is; empty for another scope, or where nobody said.
    persona: Text
    word_limit: int
    guidance: Text


class RecallInput(TypedDict, total=False):
    """What to recall."""

    #: The message that is about to be answered.
    question: Text
    search: Annotated[SearchMode, UntrackedValue]
    #: Tokens the retrieved lines may take; None: the setting.
    budget_tokens: Annotated[BudgetTokens | None, UntrackedValue]


class MemoryContext(TypedDict):
    """What memory says to a turn, as XML: two texts, for a provider caches the beginning of a request.

    Either is empty where it has nothing to say. `with_memory` puts both into a request.
    """

    #: What changes seldom; it stands behind the host's own system prompt.
    standing: str
    #: What changed since the session was told last, and search results; it stands in front of the turn's own message.
    turn: str
    #: The id of that message; None, or not there: the last one of a user.
    message_id: NotRequired[str | None]


class RecallOutput(TypedDict, total=False):
    """What was recalled."""

    context: Annotated[MemoryContext, UntrackedValue]
    #: The search results that fitted, best first.
    memories: Rows
    #: Why a search ran; None: it did not.
    searched: str | None
    #: Tokens of the whole context.
    tokens: int
    #: What this recall had to do without; None: nothing.
    degraded: Degraded | None
    #: Up to where changes were announced to the session, to be passed on to `observe` once the turn is answered; None:
    #: nobody asked for them.
    revision: int | None
    #: Every change since the session was told last, without a text: seq, event, sign, memory_id.
    updates: Rows
    #: Scope keys whose core memory has outgrown its budget, so that a refinement is recommended.
    over_budget: list[str]


class RecallState(RecallInput, RecallOutput, total=False):
    """Recall's channels. Records as they are: the graph keeps no checkpoints."""

    #: What the agent overrides of the settings.
    overrides: Annotated[dict[str, Any], UntrackedValue]
    standing: Annotated[Sequence[Standing], UntrackedValue]
    #: The search results that fit, best first.
    found: Annotated[Sequence[Found], UntrackedValue]
    #: The delta header, if there is one.
    delta: Annotated[Delta | None, UntrackedValue]
