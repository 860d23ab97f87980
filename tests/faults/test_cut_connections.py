"""Connections that the server ends while a model works, as a restart or an administrator does: the run goes on."""

import asyncio

import psycopg
import pytest

from mnemic.operations.run.resources import Resources
from mnemic.service.memory import Mnemic
from mnemic.state.errors import DatabaseUnavailableError
from tests.faults.checker import check_exactly_once
from tests.faults.fleet import CUT
from tests.faults.jobs import job
from tests.faults.traps import TrappedModel
from tests.support.scripted import REFLECTIONS, scripted_resources
from tests.support.server import Clone

JOB = job(1)


async def fill_pool(resources: Resources, connections: int) -> None:
    """So many connections lie idle afterwards."""
    everybody = asyncio.Barrier(connections)

    async def hold() -> None:
        async with resources.database.scoped(JOB.who):
            await everybody.wait()

    await asyncio.gather(*(hold() for _ in range(connections)))


# the control needs a second dead one: noting what a step cost meets the first, and a failure of that is only logged
@pytest.mark.parametrize(
    ("idle", "is_checked"),
    [(3, True), pytest.param(3, False, marks=pytest.mark.thorough)],
    ids=["three", "control: three, unchecked"],
)
async def test_no_dead_connection_is_handed_out(
    clean_db: Clone, model: TrappedModel, superuser: psycopg.Connection, idle: int, is_checked: bool
) -> None:
    async with scripted_resources(clean_db, model) as resources:
        if not is_checked:
            resources.database.pool._check = None
        memory = Mnemic(resources)
        await memory.observe(JOB.who, JOB.messages)
        await fill_pool(resources, idle)
        model.at(REFLECTIONS, lambda: superuser.execute(CUT))

        if is_checked:
            await memory.form(JOB.who)
            check_exactly_once(superuser, [JOB])
        else:
            with pytest.raises(DatabaseUnavailableError):
                await memory.form(JOB.who)
