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
    """One run of an agent's maintenance: its changes and its cost, without contents.

    Attributes:
        id: id of the run, which `history.undo_run` takes.
        actor: person or program that requested it.
        is_dry_run: whether it only counted its changes.
        started_at: begin of the run.
        ended_at: end of the run; None while it runs, or if it broke off.
        counts: numbers by name, such as `unused` memories.
        failed: names of the steps that failed; the next run does them again.
        spent: usage of its steps.
    """

    id: UUID
    actor: str
    is_dry_run: bool
    started_at: datetime
    ended_at: datetime | None
    counts: dict[str, int]
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
