"""Schedules under a clock that the test gives: a week of sweeps, both changes of daylight saving, lines of agents."""

from collections import defaultdict
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest

from mnemic import Identity, Mnemic
from mnemic.memory.background import sweep as sweep_module
from mnemic.memory.background.schedules import next_fire
from mnemic.memory.background.sweep import sweep
from mnemic.memory.background.work import Job, Work
from mnemic.state.background import Target
from mnemic.state.errors import ConfigurationError
from mnemic.state.settings import Settings
from mnemic.storage import background
from mnemic.storage.queue import open_queue
from tests.support.loopback import LoopbackModel
from tests.support.scripted import scripted_memory
from tests.support.server import Clone
from tests.support.worlds import identity, memory, remember

MONDAY = datetime(2026, 3, 2, tzinfo=UTC)


@asynccontextmanager
async def sweeping(clone: Clone, model: LoopbackModel, **settings: Any) -> AsyncIterator[tuple[Mnemic, Work]]:
    """A service and its queue without a worker, whose sweeps would be of today."""
    async with (
        scripted_memory(clone, model, **settings) as service,
        open_queue(service.resources.database) as queue,
    ):
        yield service, Work(service.resources, service.graphs, queue)


def moments(begin: datetime, *, minutes: int) -> Iterator[datetime]:
    """The moments of a week's sweeps: each hour, and from three to four at such distances."""
    for hour in range(7 * 24):
        now = begin + timedelta(hours=hour)
        yield now
        if now.hour == 3:
            yield from (now + timedelta(minutes=minute) for minute in range(minutes, 60, minutes))


async def sweep_and_take(work: Work, now: datetime) -> list[tuple[str, Target]]:
    """Sweep, and take the queued jobs out of the queue, as a worker does that is quick."""
    await sweep(work, now)
    taken = []
    for queued in await work.queue.jobs():
        await work.queue.cancel(queued.id)
        taken.append((queued.job, Target(queued.agent_id, queued.scope_key)))
    return taken


# -- the changes of daylight saving


@pytest.mark.parametrize(
    ("line", "before", "expected"),
    [
        # skipped: the clock goes from 01:00 to 02:00, or from 02:00 to 03:00
        ("30 1 * * * Europe/Lisbon", "2026-03-28T12:00Z", ["2026-03-29T01:00Z", "2026-03-30T00:30Z"]),
        ("30 2 * * * Europe/Lisbon", "2026-03-28T12:00Z", ["2026-03-29T01:30Z", "2026-03-30T01:30Z"]),
        ("30 2 * * * America/New_York", "2026-03-07T12:00Z", ["2026-03-08T07:00Z", "2026-03-09T06:30Z"]),
        ("30 1 * * * America/New_York", "2026-03-07T12:00Z", ["2026-03-08T06:30Z", "2026-03-09T05:30Z"]),
        # twice: from 02:00 back to 01:00
        ("30 1 * * * Europe/Lisbon", "2026-10-24T12:00Z", ["2026-10-25T00:30Z", "2026-10-26T01:30Z"]),
        ("30 2 * * * Europe/Lisbon", "2026-10-24T12:00Z", ["2026-10-25T02:30Z", "2026-10-26T02:30Z"]),
        ("30 1 * * * America/New_York", "2026-10-31T12:00Z", ["2026-11-01T05:30Z", "2026-11-02T06:30Z"]),
        ("30 2 * * * America/New_York", "2026-10-31T12:00Z", ["2026-11-01T07:30Z", "2026-11-02T07:30Z"]),
        # a worker that looks for the first time between the two
        ("30 1 * * * Europe/Lisbon", "2026-10-25T01:10Z", ["2026-10-26T01:30Z"]),
    ],
)
def test_a_local_time_that_is_skipped_or_comes_twice_fires_once(line: str, before: str, expected: list[str]) -> None:
    fires, after = [], datetime.fromisoformat(before)
    for _ in expected:
        fire = next_fire(line, after)
        assert fire is not None
        fires.append(after := fire)
    assert fires == [datetime.fromisoformat(moment) for moment in expected]


# -- lines


@pytest.mark.parametrize(
    "line",
    ["", "never", "0 4 * *", "61 4 * * *", "0 0 30 2 *", "0 4 * * sun Europe/Atlantis", "0 4 * * sun ../etc", "@daily"],
)
async def test_a_line_that_never_fires_is_refused(line: str, clean_db: Clone, model: LoopbackModel) -> None:
    with pytest.raises(ConfigurationError, match="refinement_schedule"):
        Settings(refinement_schedule=line)
    async with scripted_memory(clean_db, model) as service:
        with pytest.raises(ConfigurationError, match="refinement_schedule"):
            await service.admin.configure_agent(Identity(agent_id="guide"), refinement_schedule=line)
        assert (await service.admin.agent_settings(Identity(agent_id="guide"))).refinement_schedule == "0 4 * * sun"


async def test_an_agents_own_line_holds_from_the_next_sweep_on(clean_db: Clone, model: LoopbackModel) -> None:
    who = identity("ana", agent="guide")
    async with sweeping(clean_db, model) as (service, work):

        async def next_at() -> datetime:
            await sweep(work, MONDAY)
            listed = await background.list_schedules(service.resources.database, 10)
            (schedule,) = [item for item in listed if item.job == "refine"]
            return schedule.next_at

        await service.admin.configure_agent(who, refinement_schedule="30 2 * * * America/New_York")
        assert await next_at() == MONDAY.replace(hour=7, minute=30)
        await service.admin.configure_agent(who, refinement_schedule="off")
        assert await next_at() > MONDAY + timedelta(days=1000)
        await service.admin.configure_agent(who, refinement_schedule=None)
        assert await next_at() == datetime(2026, 3, 8, 4, tzinfo=UTC)


# -- a week


@pytest.mark.thorough
async def test_agent_is_refined_weekly_and_at_once_if_its_budget_is_exceeded(
    clean_db: Clone, model: LoopbackModel, superuser: psycopg.Connection
) -> None:
    lines = {"plain": None, "own": "0 9 * * wed Europe/Lisbon", "never": "off", "full": "off"}
    woken: dict[str, list[datetime]] = defaultdict(list)
    budgets = {"refinement_budget_tokens": 60, "refinement_target_tokens": 20}
    async with sweeping(clean_db, model, **budgets) as (service, work):
        for agent, line in lines.items():
            who = identity("ana", agent=agent)
            text = "Ana keeps bees on the roof. " * (10 if agent == "full" else 5)
            await remember(service.resources.database, who, memory(text, kind="core", key="user:ana"))
            await service.admin.configure_agent(
                who, refinement_schedule=line, maintenance_schedule="off", insights=False
            )
        superuser.execute("set session_replication_role = replica")

        for now in moments(MONDAY, minutes=30):
            for job, target in await sweep_and_take(work, now):
                assert (job, target.scope_key) == ("refine", "user:ana")
                woken[target.agent_id].append(now)
                if target.agent_id == "full":
                    superuser.execute("update mnemic.memories set content = 'Bees.' where agent_id = 'full'")

    assert woken == {
        "full": [MONDAY],
        "own": [MONDAY + timedelta(days=2, hours=9)],
        "plain": [MONDAY + timedelta(days=6, hours=4)],
    }


async def no_work(work: Work, target: Target) -> None:
    """Leave everything as it is."""


@pytest.mark.thorough
async def test_daily_job_runs_once_per_local_day_and_catches_up_once(
    clean_db: Clone, model: LoopbackModel, superuser: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    upkeep = Job(name="upkeep", run=no_work, schedule="refinement_schedule", stagger_minutes=60)
    monkeypatch.setattr(sweep_module, "JOBS", {"upkeep": upkeep})
    tenants = {"guide": "north", "pilot": "north", "baker": "south", "smith": "west"}
    woken: dict[str, list[datetime]] = defaultdict(list)
    async with sweeping(clean_db, model, refinement_schedule="0 3 * * *") as (service, work):
        for agent, tenant in tenants.items():
            await service.admin.configure_agent(Identity(agent_id=agent), rag=True)
            superuser.execute("update mnemic.agents set tenant_id = %s where agent_id = %s", (tenant, agent))
        for now in moments(MONDAY, minutes=5):
            if now.day in (4, 5):  # all workers are away from Wednesday on, and back on Friday
                continue
            for _, target in await sweep_and_take(work, now):
                assert target.scope_key == f"agent:{target.agent_id}"
                woken[target.agent_id].append(now)

    days = [2, 3, 6, 6, 7, 8]
    assert {agent: [moment.day for moment in fired] for agent, fired in woken.items()} == dict.fromkeys(tenants, days)
    times = {agent: {moment.time() for moment in fired if moment.time().hour} for agent, fired in woken.items()}
    assert all(len(own) == 1 and next(iter(own)).hour == 3 for own in times.values())
    assert times["guide"] == times["pilot"]
    assert len({moment for own in times.values() for moment in own}) > 1
