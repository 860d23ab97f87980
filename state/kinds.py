"""The words by which memories, messages and what is done with them are told apart, and what calls of models used."""

from dataclasses import dataclass
from datetime import date, datetime
from typing import Literal, get_args

#: In the order in which they are listed.
Kind = Literal["core", "consolidation", "reflection", "fact", "episode", "insight", "procedure", "journal"]
ALL_KINDS: tuple[Kind, ...] = get_args(Kind)
State = Literal["active", "absorbed", "superseded", "soft_deleted", "purged"]
Provenance = Literal["asserted", "inferred", "consolidated"]
#: An attachment is what came with a message and was not typed, such as a file: the words of no speaker.
Role = Literal["user", "assistant", "tool", "other", "attachment"]
SearchType = Literal["hybrid", "semantic", "text"]
#: Facts, decisions and reflections in turn, or observations in one call.
Extraction = Literal["sequential", "single"]
#: `merged_from` and `propagated_from` tell where a memory comes from, `related_to` what lies near it; `same_as` leads
#: to what went because it says exactly the same.
RelationType = Literal["related_to", "merged_from", "same_as", "propagated_from", "drawn_from"]
#: Why a formation runs.
FormationReason = Literal["messages", "tokens", "cold", "turn", "forced"]
#: Not strftime's: those follow the locale of the host application.
MONTHS = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)


def long_date(moment: datetime) -> str:
    """`8 May 2026`."""
    return f"{moment.day} {MONTHS[moment.month - 1]} {moment.year}"


@dataclass(frozen=True, kw_only=True)
class Usage:
    """Tokens that one step used, over all its calls."""

    step: str
    model: str
    #: `fast`, `slow` or `agent`.
    tier: str = ""
    calls: int = 0
    input_tokens: int = 0
    #: Of these, what the provider had in its cache.
    cached_tokens: int = 0
    output_tokens: int = 0
    #: Calls whose tokens the provider, or its client, did not tell.
    unreported_calls: int = 0


@dataclass(frozen=True, kw_only=True)
class DailyUsage(Usage):
    """What an agent's step used on one day."""

    #: In UTC.
    day: date
    #: US dollars by today's prices; None: the settings name none for the model, or tokens were not told.
    cost: float | None = None
