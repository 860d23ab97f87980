"""Kinds, states, roles, events and reasons, each in one list; and the usage of models."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from types import MappingProxyType
from typing import Final, Literal, get_args

#: In the order in which they are listed.
Kind = Literal["core", "consolidation", "reflection", "fact", "episode", "insight", "procedure", "journal"]
#: Kinds of a sentence that a caller or an agent remembers explicitly.
ExplicitKind = Literal["fact", "core"]
KINDS: Final[tuple[Kind, ...]] = get_args(Kind)
#: Kinds that are always in context; a reflection until it is absorbed.
CONTEXT_KINDS: Final[tuple[Kind, ...]] = ("core", "consolidation", "reflection")
#: Kinds that a refinement merges.
MERGEABLE_KINDS: Final[tuple[Kind, ...]] = ("core", "reflection")
#: Kinds that every search includes; a reflection once it is absorbed.
SEARCHED_KINDS: Final[tuple[Kind, ...]] = ("reflection", "fact", "episode", "insight")
#: Kinds that a search includes if their category is requested.
KINDS_ON_REQUEST: Final[Mapping[str, Kind]] = MappingProxyType({"procedural": "procedure", "journal": "journal"})
#: Kinds with an entry in the search index.
INDEXED_KINDS: Final[tuple[Kind, ...]] = (*SEARCHED_KINDS, *KINDS_ON_REQUEST.values())
#: Kind of a search result: a memory's, or a message that was kept as a source.
ResultKind = Kind | Literal["message"]
#: Kinds that expire when they are not used.
EXPIRING_KINDS: Final[tuple[Kind, ...]] = ("fact", "episode", "insight")
#: Kinds that are propagated to wider scopes.
PROPAGATED_KINDS: Final[tuple[Kind, ...]] = ("fact", "reflection")
#: Kinds that insights are drawn from.
INSIGHT_SOURCE_KINDS: Final[tuple[Kind, ...]] = ("fact", "episode")
State = Literal["active", "absorbed", "superseded", "soft_deleted", "purged"]
STATES: Final[tuple[State, ...]] = get_args(State)
#: States in which a memory holds: in context or in the search, or absorbed by a consolidation.
RETAINED_STATES: Final[tuple[State, ...]] = ("active", "absorbed")
Provenance = Literal["asserted", "inferred", "consolidated"]
PROVENANCES: Final[tuple[Provenance, ...]] = get_args(Provenance)
#: An attachment came with a message and was not typed, such as a file: it has no author.
Role = Literal["user", "assistant", "tool", "other", "attachment"]
ROLES: Final[tuple[Role, ...]] = get_args(Role)
SearchType = Literal["hybrid", "semantic", "text"]
#: `sequential` extracts facts, decisions and reflections in turn; `single` extracts observations in one call.
Extraction = Literal["sequential", "single"]
#: `merged_from`, `propagated_from` and `drawn_from` lead to the sources of a memory, `related_to` to similar memories,
#: `same_as` to removed exact duplicates.
RelationType = Literal["related_to", "merged_from", "same_as", "propagated_from", "drawn_from"]
#: Relations from a memory to those that it replaced by a merge or as exact duplicates.
MERGE_RELATIONS: Final[tuple[RelationType, ...]] = ("merged_from", "same_as")
RELATION_TYPES: Final[tuple[RelationType, ...]] = get_args(RelationType)
#: Events of the history that are announced to agents; the other events change nothing that an agent reads.
ChangeEvent = Literal["ADD", "UPDATE", "SUPERSEDE", "ABSORB", "MERGE", "DELETE", "TTL", "PURGE", "ERASE", "RESTORE"]
#: Work of graphs that holds a lease. A retry forms quarantined messages, apart from the pending ones.
LeasedWork = Literal["formation", "retry", "consolidation", "refinement", "maintenance"]
LEASED_WORK: Final[tuple[LeasedWork, ...]] = get_args(LeasedWork)
#: Reason for a formation.
FormationReason = Literal["messages", "tokens", "cold", "turn", "forced"]


@dataclass(frozen=True, kw_only=True)
class Usage:
    """Tokens of one step, over all its calls.

    Attributes:
        step: name of the step.
        model: name of the model.
        tier: `fast`, `slow` or `agent`.
        calls: number of calls.
        input_tokens: input tokens.
        cached_tokens: input tokens that the provider had in its cache.
        output_tokens: output tokens.
        unreported_calls: calls without reported tokens.
    """

    step: str
    model: str
    tier: str = ""
    calls: int = 0
    input_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    unreported_calls: int = 0


@dataclass(frozen=True, kw_only=True)
class RunUsage(Usage):
    """Tokens that one step of a run used, and their cost.

    Attributes:
        cost: US dollars; None without a price of the model, or if tokens were not reported.
    """

    cost: float | None = None


@dataclass(frozen=True, kw_only=True)
class DailyUsage(Usage):
    """Tokens of an agent's step on one day.

    Attributes:
        day: day in UTC.
        cost: US dollars by today's prices; None if the settings have no price of the model, or tokens were not
            reported.
    """

    day: date
    cost: float | None = None
