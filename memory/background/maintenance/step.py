"""The input and the outcome of a step of the maintenance."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple
from uuid import UUID

from mnemic.memory.runtime.resources import Resources
from mnemic.state.graphs import StepUsage
from mnemic.state.identity import Identity
from mnemic.state.settings import Settings


@dataclass(frozen=True, kw_only=True)
class Maintenance:
    """One run of an agent's maintenance."""

    resources: Resources
    #: Settings of the agent.
    settings: Settings
    #: The agent, and the actor in the audit.
    identity: Identity
    #: `run_id` of every operation of the run.
    run_id: UUID
    #: Whether a step only counts its changes.
    is_dry_run: bool


class StepOutcome(NamedTuple):
    """Figures of a step, without contents."""

    #: Numbers by name; a name belongs to one step.
    counts: Mapping[str, int]
    spent: Sequence[StepUsage] = ()


class MaintenanceStep(NamedTuple):
    """One step: it does the due work, and nothing the second time."""

    name: str
    run: Callable[[Maintenance], Awaitable[StepOutcome]]
