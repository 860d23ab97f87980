"""A tenant's daily token budget stops background work with models until the next day, and says so."""

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest

from mnemic import Identity, Mnemic
from mnemic.memory.background.jobs import JOBS
from mnemic.memory.background.runner import run_job
from mnemic.memory.background.work import Work
from mnemic.state.background import Target
from mnemic.state.kinds import Usage
from mnemic.storage import background, scopes
from mnemic.storage.database import Database
from mnemic.storage.queue import open_queue
from mnemic.storage.transaction import ScopedTransaction
from tests.background.test_jobs import ANA, TURNS, age, homes
from tests.support.loopback import LoopbackModel
from tests.support.scripted import scripted_memory
from tests.support.server import Clone

__all__ = ["homes"]
MONDAY = Target("guide", "session:monday")
NEIGHBOUR = Identity(agent_id="clerk", user_id="ana")


@asynccontextmanager
async def idle_work(clone: Clone, model: LoopbackModel, **settings: Any) -> AsyncIterator[tuple[Mnemic, Work]]:
    """A service whose jobs run where the test runs them."""
    async with scripted_memory(clone, model, **settings) as memory, open_queue(memory.resources.database) as queue:
        yield memory, Work(memory.resources, memory.graphs, queue)


async def spend(db: Database, who: Identity, tokens: int) -> None:
    """The agent has used so many tokens today."""

    async def act(tx: ScopedTransaction) -> None:
        await scopes.ensure_agent(tx)
        await scopes.record_usage(tx, Usage(step="decide", model="m", calls=1, input_tokens=tokens))

    await db.write(who, act)


async def test_work_waits_until_the_next_day_with_its_reason_and_is_done_then(
    clean_db: Clone, superuser: psycopg.Connection, homes: LoopbackModel, caplog: pytest.LogCaptureFixture
) -> None:
    async with idle_work(clean_db, homes, tenant_daily_tokens=1000) as (memory, work):
        db = memory.resources.database
        await memory.observe(ANA, TURNS)
        await spend(db, NEIGHBOUR, 1000)  # of the same tenant
        age(superuser, 11)
        with caplog.at_level(logging.WARNING, "mnemic"):
            for _ in range(2):
                await run_job(work, "form", MONDAY)
                await memory.admin.form_later(ANA)
                await memory.resources.background.finish()

        (waiting,) = await background.list_failures(db, 10)
        assert (waiting.job, waiting.failures) == ("form", 0)
        assert "token budget" in waiting.reason
        midnight = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0) + timedelta(days=1)
        assert waiting.retry_at == midnight
        (warning,) = caplog.messages
        assert "1000 of 1000 tokens" in warning
        assert homes.chat_requests == []
        assert await JOBS["form"].find_due(work, datetime.now(UTC)) == []

        superuser.execute("update mnemic.token_usage set day = day - 1")
        assert await JOBS["form"].find_due(work, midnight) == [MONDAY]
        await run_job(work, "form", MONDAY)
        (home,) = await memory.memories(ANA)

        assert home.content == "Ana lives in Porto."
        assert await background.list_failures(db, 10) == []


async def test_what_another_tenant_uses_and_what_a_host_asks_for_is_not_stopped(
    clean_db: Clone, homes: LoopbackModel
) -> None:
    async with idle_work(clean_db, homes, tenant_daily_tokens=1000) as (memory, work):
        db = memory.resources.database
        await memory.observe(ANA, TURNS)
        await memory.admin.assign_tenant(NEIGHBOUR, "acme")
        await spend(db, NEIGHBOUR, 1000)
        await memory.admin.form_later(ANA)
        await memory.resources.background.finish()
        await run_job(work, "form", MONDAY)
        assert await background.list_failures(db, 10) == []

        await spend(db, ANA, 1000)
        await memory.form(ANA, force=True)
        assert await memory.memories(ANA)


def test_every_job_that_calls_models_is_held() -> None:
    assert {"form", "consolidate", "refine"} <= {job.name for job in JOBS.values() if job.calls_models}


async def test_an_agents_tenant_stays_if_its_settings_are_changed(clean_db: Clone, homes: LoopbackModel) -> None:
    async with scripted_memory(clean_db, homes) as memory:
        await memory.admin.assign_tenant(ANA, "acme")
        await memory.admin.configure_agent(ANA, rag=False)
        await spend(memory.resources.database, ANA, 7)

        assert (await memory.usage.tenant_stats("acme")).tokens_today == 7
        assert (await memory.usage.tenant_stats("default")).tokens_today == 0
