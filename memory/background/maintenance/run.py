"""One run of an agent's maintenance: under a lease, recorded, and undone as one by its id."""

import logging
from functools import partial
from uuid import UUID, uuid4

from mnemic.memory.background.maintenance.step import Maintenance, MaintenanceStep, StepOutcome
from mnemic.memory.background.maintenance.steps import STEPS
from mnemic.memory.runtime.agent_settings import agent_settings
from mnemic.memory.runtime.graph import release_lease_on_error
from mnemic.memory.runtime.resources import Resources
from mnemic.state.errors import MaintenanceRunningError, MnemicError
from mnemic.state.graphs import Lease
from mnemic.state.identity import Identity, scope_key
from mnemic.state.maintenance import MaintenanceRun
from mnemic.storage import leases, maintenance, scopes
from mnemic.storage.transaction import ScopedTransaction

_LOG = logging.getLogger("mnemic")


async def maintain(resources: Resources, identity: Identity, *, dry_run: bool | None = None) -> MaintenanceRun:
    """Run the due maintenance of the whole agent of an identity; a second run changes nothing.

    If a step fails, the others run all the same, and the first error is raised at the end.

    Args:
        resources: database and models.
        identity: names the agent and the actor; its user and session do not matter.
        dry_run: whether to count the changes without making them; None for the agent's setting.

    Returns:
        The record of the run.

    Raises:
        MaintenanceRunningError: if another run of the same agent is under way.
        MnemicError: if a step failed.
    """
    agent = Identity(agent_id=identity.agent_id, actor_id=identity.actor)
    settings = await agent_settings(resources, agent)
    is_dry_run = settings.maintenance_dry_run
    if dry_run is not None:
        is_dry_run = dry_run
    run = Maintenance(resources=resources, settings=settings, identity=agent, run_id=uuid4(), is_dry_run=is_dry_run)
    lease = Lease("maintenance", scope_key("agent", agent.agent_id), run.run_id)
    await resources.database.write(agent, partial(_begin, run=run, lease=lease))
    async with release_lease_on_error(resources, agent, lease):
        errors: list[MnemicError] = []
        for step in STEPS:
            error = await _take_step(run, lease, step)
            if error:
                errors.append(error)
        record = await resources.database.write(agent, partial(_end, run_id=run.run_id, lease=lease))
    if errors:
        raise errors[0]
    return record


async def list_runs(resources: Resources, identity: Identity, *, limit: int) -> list[MaintenanceRun]:
    """Return the maintenance runs of the identity's agent, the newest first."""
    async with resources.database.transaction(identity) as tx:
        return await maintenance.list_runs(tx, limit)


async def _begin(tx: ScopedTransaction, run: Maintenance, lease: Lease) -> None:
    await scopes.ensure_agent(tx)
    if await leases.claim(tx, lease, run.resources.settings, forced=True) is None:
        raise MaintenanceRunningError
    await maintenance.begin_run(tx, run.run_id, is_dry_run=run.is_dry_run)


async def _take_step(run: Maintenance, lease: Lease, step: MaintenanceStep) -> MnemicError | None:
    """Run a step, record its figures, and return its error, if it failed."""
    outcome, failure = StepOutcome({}), None
    try:
        outcome = await step.run(run)
    except MnemicError as error:
        ids = {"agent_id": run.identity.agent_id, "run_id": str(run.run_id)}
        _LOG.warning("Step %s of the maintenance of agent %s failed: %s", step.name, ids["agent_id"], error, extra=ids)
        failure = error
    failed = [step.name] if failure else []

    async def note(tx: ScopedTransaction) -> None:
        await leases.renew(tx, lease, run.resources.settings)
        await maintenance.note_step(tx, run.run_id, outcome.counts, outcome.spent, failed)

    await run.resources.database.write(run.identity, note)
    return failure


async def _end(tx: ScopedTransaction, run_id: UUID, lease: Lease) -> MaintenanceRun:
    await leases.finish(tx, lease)
    return await maintenance.end_run(tx, run_id)
