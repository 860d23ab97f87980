"""Records of an agent's maintenance, and the channels of its graph."""

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated
from uuid import UUID

from langgraph.channels import UntrackedValue
from typing_extensions import TypedDict

from mnemic.state.graphs import StepUsage
from mnemic.state.kinds import RunUsage


@dataclass(frozen=True, kw_only=True)
class MaintenanceRun:
    """One run of an agent's maintenance: its changes and its cost, without contents."""

    id: UUID
    actor: str
    #: Whether it only counted its changes.
    is_dry_run: bool
    started_at: datetime
    #: None while it runs, or if it broke off.
    ended_at: datetime | None
    #: Numbers by name, such as `unused` memories.
    counts: dict[str, int]
    #: Names of the steps that failed; the next run does them again.
    failed: list[str]
    spent: list[RunUsage]


class MaintenanceInput(TypedDict, total=False):
    """Input of a maintenance."""

    #: Count the changes without making them. None: the agent's setting.
    dry_run: Annotated[bool | None, UntrackedValue]


class MaintenanceResult(TypedDict, total=False):
    """Result of a maintenance."""

    run_id: str
    is_dry_run: bool
    counts: dict[str, int]
    spent: list[StepUsage]


class MaintenanceState(MaintenanceInput, MaintenanceResult, total=False):
    """The channels of the maintenance graph."""
