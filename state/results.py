"""Results of the public methods, as frozen dataclasses.

A graph streams its output as plain JSON. A method of `Mnemic` converts that output to one of these classes.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Self
from uuid import UUID

from pydantic import TypeAdapter

from mnemic.state.graphs import (
    ConsolidationOutput,
    Degraded,
    FormationOutput,
    MemoryContext,
    Outcome,
    RecallState,
    RefusedText,
    SearchReason,
    Waits,
)
from mnemic.state.kinds import ChangeEvent, FormationReason, RunUsage
from mnemic.state.query import Sign
from mnemic.state.records import SearchResult
from mnemic.state.refinement import Ended, RefinementOutcome, RefinementOutput


@dataclass(frozen=True, kw_only=True)
class AnnouncedChange:
    """A change of one memory that a recall announces to its session.

    Attributes:
        id: the memory.
        revision: the revision of the change.
        event: kind of the change, such as `ADD` or `SUPERSEDE`.
        sign: sign of the change in the context: added, changed or removed.
    """

    id: UUID
    revision: int
    event: ChangeEvent
    sign: Sign


#: Readers of the rows in a graph's output; built when first used.
_CHANGES: TypeAdapter[tuple[AnnouncedChange, ...]] = TypeAdapter(
    tuple[AnnouncedChange, ...], config={"defer_build": True}
)


@dataclass(frozen=True, kw_only=True)
class RecallResult:
    """The memory context of one turn.

    Attributes:
        context: the text for `with_memory`.
        memories: search results in the context, best first.
        searched: reason of the search; None without a search.
        tokens: tokens of the whole context.
        degraded: the missing part of this recall; None if it is complete.
        revision: revision up to which changes are announced; pass it to `observe`. None without a session.
        updates: changes since the session's last recall, oldest first.
        over_budget: scope keys with context memories above their budget, for which a refinement is recommended.
    """

    context: MemoryContext
    memories: tuple[SearchResult, ...]
    searched: SearchReason | None
    tokens: int
    degraded: Degraded | None
    revision: int | None
    updates: tuple[AnnouncedChange, ...]
    over_budget: tuple[str, ...]

    @classmethod
    def from_state(cls, state: RecallState) -> Self:
        """Return the result of a recall."""
        return cls(
            context=state["context"],
            memories=tuple(state["results"]),
            searched=state["searched"],
            tokens=state["tokens"],
            degraded=state["degraded"],
            revision=state["revision"],
            updates=_CHANGES.validate_python(state["updates"]),
            over_budget=tuple(state["over_budget"]),
        )


@dataclass(frozen=True, kw_only=True)
class ConsolidationResult:
    """The result of a consolidation of one scope key.

    Attributes:
        scope_key: the scope key.
        outcome: `saved`, or the reason why no text was stored, such as `not_due`.
        absorbed: number of absorbed reflections.
        kept_share: share of names, numbers, dates and quoted words that the new text keeps; 1.0 without a new text.
        problem: reason why the new text was refused; None if it was not.
        spent: usage of its steps.
    """

    scope_key: str
    outcome: Outcome
    absorbed: int = 0
    kept_share: float = 1.0
    problem: RefusedText | None = None
    spent: tuple[RunUsage, ...] = ()

    @classmethod
    def from_output(cls, output: ConsolidationOutput) -> Self:
        """Return the result of the graph's output."""
        return cls(**_shared_fields(cls, output))


@dataclass(frozen=True, kw_only=True)
class FormationResult:
    """The result of one run of formation.

    Attributes:
        reason: reason of the run; None if nothing was due, or if it has to wait.
        waits: reason to wait; None without one.
        formed: number of messages that were formed. This is no number of memories: see `stored`.
        pending: number of messages of the session that still wait for formation.
        quarantined: number of messages among them without a usable answer of the model; a retry takes them.
        stored: number of stored memories by kind. It is empty if the messages held nothing to keep, or if `refused`,
            `repeated` or `uncovered_messages` has the reason; the offline rules use few sentences.
        superseded: number of facts that new ones closed.
        repeated: number of new facts that were already stored.
        checks: number of drafts that passed the rules at once, were trimmed, or were refused.
        refused: number of refused drafts by the code of the reason, such as `first_person`.
        uncovered_messages: number of formed messages that no memory covers; their words are kept.
        spent: usage of the formation's own steps, without its consolidations.
        consolidations: consolidations that followed.
    """

    reason: FormationReason | None = None
    waits: Waits | None = None
    formed: int
    pending: int
    quarantined: int
    stored: Mapping[str, int]
    superseded: int
    repeated: int
    checks: Mapping[str, int]
    refused: Mapping[str, int]
    uncovered_messages: int
    spent: tuple[RunUsage, ...]
    consolidations: tuple[ConsolidationResult, ...]

    @classmethod
    def from_output(cls, output: FormationOutput) -> Self:
        """Return the result of the graph's output."""
        consolidations = [ConsolidationResult.from_output(each) for each in output["consolidations"]]
        return cls(**{**_shared_fields(cls, output), "consolidations": tuple(consolidations)})


@dataclass(frozen=True, kw_only=True)
class RefinementResult:
    """The result of a refinement; of a dry run, the work that is due.

    Attributes:
        id: the refinement; None if none was needed.
        scope_key: the scope key.
        outcome: `ended`, `not_due` or `planned`; the last is the outcome of a dry run.
        resumed: whether this call resumed a refinement that had been broken off.
        ended: reason of the end; None if there was none.
        tokens_before: tokens of the context memories at the start.
        tokens_after: tokens of the context memories at the end; None without one.
        target_tokens: target of these tokens; None if no refinement was needed.
        memories_before: number of context memories at the start.
        memories_after: number of context memories at the end; None without one.
        duplicates: number of duplicates that were removed at the start.
        merged: number of memories that the agent merged.
        updated: number of memories that the agent shortened.
        deleted: number of memories that the agent deleted.
        protected: number of memories that the agent protected.
        steps: turns of the agent.
        journal_id: the memory that records the outcome; None without a change.
        spent: usage of each turn of this run, without earlier runs that were broken off.
    """

    id: UUID | None = None
    scope_key: str
    outcome: RefinementOutcome
    resumed: bool = False
    ended: Ended | None = None
    tokens_before: int = 0
    tokens_after: int | None = None
    target_tokens: int | None = None
    memories_before: int = 0
    memories_after: int | None = None
    duplicates: int = 0
    merged: int = 0
    updated: int = 0
    deleted: int = 0
    protected: int = 0
    steps: int = 0
    journal_id: UUID | None = None
    spent: tuple[RunUsage, ...] = ()

    @classmethod
    def from_output(cls, output: RefinementOutput) -> Self:
        """Return the result of the graph's output."""
        values = _shared_fields(cls, output)
        refinement_id, journal_id = output.get("refinement_id"), output.get("journal_id")
        values["id"] = UUID(refinement_id) if refinement_id else None
        values["journal_id"] = UUID(journal_id) if journal_id else None
        return cls(**values)


@dataclass(frozen=True, kw_only=True)
class Forgotten:
    """The result of a `forget`.

    Attributes:
        id: the memory.
        changed: whether this call soft-deleted it; False if it was not active.
    """

    id: UUID
    changed: bool


@dataclass(frozen=True, kw_only=True)
class Protection:
    """The protection of a memory after a `protect` or an `unprotect`.

    Attributes:
        id: the memory.
        protected: whether it is protected now.
        changed: whether this call changed it.
    """

    id: UUID
    protected: bool
    changed: bool


def _shared_fields(result: type, output: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of the output for the fields of a result, with the usage as records."""
    values = {field.name: output[field.name] for field in fields(result) if output.get(field.name) is not None}
    values["spent"] = tuple(RunUsage(**row) for row in output.get("spent") or ())
    return values
