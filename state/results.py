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
    """A change of one memory that a recall announces to its session."""

    #: The memory.
    id: UUID
    #: The revision of the change.
    revision: int
    event: ChangeEvent
    sign: Sign


#: Readers of the rows in a graph's output; built when first used.
_CHANGES: TypeAdapter[tuple[AnnouncedChange, ...]] = TypeAdapter(
    tuple[AnnouncedChange, ...], config={"defer_build": True}
)


@dataclass(frozen=True, kw_only=True)
class RecallResult:
    """The memory context of one turn."""

    #: The text for `with_memory`.
    context: MemoryContext
    #: Search results in the context, best first.
    memories: tuple[SearchResult, ...]
    #: Reason of the search; None without a search.
    searched: SearchReason | None
    #: Tokens of the whole context.
    tokens: int
    #: The missing part of this recall; None if it is complete.
    degraded: Degraded | None
    #: Revision up to which changes are announced; pass it to `observe`. None without a session.
    revision: int | None
    #: Changes since the session's last recall, oldest first.
    updates: tuple[AnnouncedChange, ...]
    #: Scope keys with context memories above their budget, for which a refinement is recommended.
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
    """The result of a consolidation of one scope key."""

    scope_key: str
    outcome: Outcome
    #: Number of absorbed reflections.
    absorbed: int = 0
    #: Share of names, numbers, dates and quoted words that the new text keeps; 1.0 without a new text.
    kept_share: float = 1.0
    #: Reason why the new text was refused; None if it was not.
    problem: RefusedText | None = None
    spent: tuple[RunUsage, ...] = ()

    @classmethod
    def from_output(cls, output: ConsolidationOutput) -> Self:
        """Return the result of the graph's output."""
        return cls(**_shared_fields(cls, output))


@dataclass(frozen=True, kw_only=True)
class FormationResult:
    """The result of one run of formation."""

    #: Reason of the run; None if nothing was due, or if it has to wait.
    reason: FormationReason | None = None
    #: Reason to wait; None without one.
    waits: Waits | None = None
    #: Number of messages that were formed.
    formed: int
    #: Number of messages of the session that still wait for formation.
    pending: int
    #: Number of messages among them without a usable answer of the model; a retry takes them.
    quarantined: int
    #: Number of stored memories by kind.
    stored: Mapping[str, int]
    #: Number of facts that new ones closed.
    superseded: int
    #: Number of new facts that were already stored.
    repeated: int
    #: Number of texts that passed the validator at once, were trimmed, or were refused.
    checks: Mapping[str, int]
    #: Number of refused drafts by reason.
    refused: Mapping[str, int]
    #: Number of formed messages that no memory covers; their words are kept.
    uncovered_messages: int
    #: Usage of the formation's own steps, without its consolidations.
    spent: tuple[RunUsage, ...]
    #: Consolidations that followed.
    consolidations: tuple[ConsolidationResult, ...]

    @classmethod
    def from_output(cls, output: FormationOutput) -> Self:
        """Return the result of the graph's output."""
        consolidations = [ConsolidationResult.from_output(each) for each in output["consolidations"]]
        return cls(**{**_shared_fields(cls, output), "consolidations": tuple(consolidations)})


@dataclass(frozen=True, kw_only=True)
class RefinementResult:
    """The result of a refinement; of a dry run, the work that is due."""

    #: The refinement; None if none was needed.
    id: UUID | None = None
    scope_key: str
    outcome: RefinementOutcome
    #: Whether this call resumed a refinement that had been broken off.
    resumed: bool = False
    #: Reason of the end.
    ended: Ended | None = None
    #: Tokens of the context memories, and the target.
    tokens_before: int = 0
    tokens_after: int | None = None
    target_tokens: int | None = None
    memories_before: int = 0
    memories_after: int | None = None
    #: Numbers of memories: duplicates removed at the start, then the changes of the agent.
    duplicates: int = 0
    merged: int = 0
    updated: int = 0
    deleted: int = 0
    protected: int = 0
    #: Turns of the agent.
    steps: int = 0
    #: The memory that records the outcome; None without a change.
    journal_id: UUID | None = None
    #: Usage of each turn of this run, without earlier runs that were broken off.
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
    """The result of a `forget`."""

    #: The memory.
    id: UUID
    #: Whether this call soft-deleted it; False if it was not active.
    changed: bool


@dataclass(frozen=True, kw_only=True)
class Protection:
    """The protection of a memory after a `protect` or an `unprotect`."""

    #: The memory.
    id: UUID
    protected: bool
    #: Whether this call changed it.
    changed: bool


def _shared_fields(result: type, output: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of the output for the fields of a result, with the usage as records."""
    values = {field.name: output[field.name] for field in fields(result) if output.get(field.name) is not None}
    values["spent"] = tuple(RunUsage(**row) for row in output.get("spent") or ())
    return values
