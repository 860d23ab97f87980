"""What a step of the maintenance works with, and what it reports."""

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
    #: The agent, and the actor whom the audit names.
    identity: Identity
    #: `run_id` of every operation of the run.
    run_id: UUID
    #: Whether a step only counts what it would change.
    is_dry_run: bool


class StepOutcome(NamedTuple):
    """What a step did, without contents."""

    #: Numbers by name; a name belongs to one step.
    counts: Mapping[str, int]
    spent: Sequence[StepUsage] = ()


class MaintenanceStep(NamedTuple):
    """One step: it does what is due, and nothing the second time."""

    name: str
    run: Callable[[Maintenance], Awaitable[StepOutcome]]
