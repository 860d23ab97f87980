"""Background work by a worker on a real queue: cold sessions, failures, schedules, several workers."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest

from mnemic import Identity, Mnemic
from mnemic.memory.background.sweep import sweep
from mnemic.memory.background.work import Work
from mnemic.service.worker import background_work
from mnemic.state.background import Target
from mnemic.storage import background
from mnemic.storage.queue import open_queue
from tests.background.working import SHORT
from tests.support.loopback import LoopbackModel
from tests.support.scripted import FACTS, fact, facts, meanwhile, scripted_memory
from tests.support.server import Clone

ANA = Identity(agent_id="guide", user_id="ana", session_id="monday")
TURNS = [
    {"role": "user", "content": "I live in Porto."},
    {"role": "assistant", "content": "Noted."},
    {"role": "user", "content": "My boat is called Zinnia."},
    {"role": "assistant", "content": "A fine name."},
]
#: No event is waited for longer.
MAX_SECONDS_LENGTH = 30.0


@asynccontextmanager
async def working(clone: Clone, model: LoopbackModel, **settings: Any) -> AsyncIterator[tuple[Mnemic, Work]]:
    """A service that does background work."""
    async with (
        scripted_memory(clone, model, insights=False, **settings) as memory,  # which are drawn at every quarter
        background_work(memory.resources, memory.graphs, SHORT) as work,
    ):
        yield memory, work


async def until(condition: Callable[[], Awaitable[Any]]) -> Any:
    """The first true value of the condition."""
    async with asyncio.timeout(MAX_SECONDS_LENGTH):
        while not (value := await condition()):  # noqa: ASYNC110 - a worker's act on the database has no event
            await asyncio.sleep(0.02)
    return value


def age(superuser: psycopg.Connection, minutes: int) -> None:
    """All sessions had their last message so much earlier."""
    superuser.execute(
        "update mnemic.sessions set last_activity_at = last_activity_at - make_interval(mins => %s)", (minutes,)
    )


async def is_idle(work: Work) -> bool:
    return not await work.queue.jobs()


@pytest.fixture
def homes(model: LoopbackModel) -> LoopbackModel:
    model.answer(FACTS, facts(fact("Ana lives in Porto.", 1, category="profile")))
    return model


async def test_a_conversation_that_simply_ends_is_formed(
    clean_db: Clone, superuser: psycopg.Connection, homes: LoopbackModel
) -> None:
    async with working(clean_db, homes) as (memory, work):
        await memory.observe(ANA, TURNS)
        await sweep(work)
        await until(lambda: is_idle(work))
        assert await memory.memories(ANA) == []  # it is not cold yet

        age(superuser, 11)
        await sweep(work)
        (home,) = await until(lambda: memory.memories(ANA))

        assert home.content == "Ana lives in Porto."
        await until(lambda: is_idle(work))
        requests = len(homes.chat_requests)
        await sweep(work)
        await until(lambda: is_idle(work))
        assert len(homes.chat_requests) == requests  # nothing is due twice


async def test_messages_that_arrive_during_formation_are_formed_when_cold_again(
    clean_db: Clone, superuser: psycopg.Connection, homes: LoopbackModel
) -> None:
    later = [{"role": "user", "content": f"My cabin has window {number}."} for number in range(4)]
    async with working(clean_db, homes) as (memory, work):
        homes.answer(FACTS, meanwhile(lambda: memory.observe(ANA, later), facts(fact("Ana lives in Porto.", 1))))
        await memory.observe(ANA, TURNS)
        age(superuser, 11)
        await sweep(work)
        await until(lambda: memory.memories(ANA))
        await until(lambda: is_idle(work))
        unformed = "select count(*) from mnemic.messages where formed_by is null"
        await work.queue.wake("form", [Target("guide", "session:monday")])  # before it is cold
        await until(lambda: is_idle(work))
        assert superuser.execute(unformed).fetchone() == (4,)

        homes.answer(FACTS, facts())
        age(superuser, 11)
        await sweep(work)
        await until(lambda: is_idle(work))
        assert superuser.execute(unformed).fetchone() == (0,)


async def test_cold_group_session_is_formed_with_the_groups_of_its_last_run(
    clean_db: Clone, superuser: psycopg.Connection, homes: LoopbackModel
) -> None:
    said = "We sail on Friday at seven from the north quay."
    homes.answer(FACTS, facts(fact("The crew sails on Friday at seven from the north quay.", 1, scope="group")))
    here = ANA.model_copy(update={"group_ids": ("crew",)})
    async with working(clean_db, homes) as (memory, work):
        await memory.observe(here, [{"role": "user", "content": said}, *TURNS[1:]])
        age(superuser, 11)
        await sweep(work)
        (plan,) = await until(lambda: memory.memories(here))

    assert plan.scope_key == "group:crew"


async def test_work_without_a_reachable_model_waits_with_its_reason_and_resumes(
    clean_db: Clone, superuser: psycopg.Connection, homes: LoopbackModel
) -> None:
    homes.answer(FACTS, 400)
    async with working(clean_db, homes) as (memory, work):
        await memory.observe(ANA, TURNS)
        age(superuser, 11)
        await sweep(work)
        (failed,) = await until(lambda: background.list_failures(memory.resources.database, 10))

        assert (failed.job, failed.scope_key, failed.failures) == ("form", "session:monday", 1)
        assert failed.retry_at is not None
        assert "gpt-fast" in failed.reason
        assert "Porto" not in failed.reason
        await sweep(work)
        await until(lambda: is_idle(work))
        (again,) = await background.list_failures(memory.resources.database, 10)
        assert again.failures == 1  # the pause is kept

        homes.answer(FACTS, facts(fact("Ana lives in Porto.", 1, category="profile")))
        superuser.execute("update mnemic.job_failures set retry_at = now(); update mnemic.leases set until = now()")
        await sweep(work)
        await until(lambda: memory.memories(ANA))
        await until(lambda: is_idle(work))
        assert await background.list_failures(memory.resources.database, 10) == []


async def test_a_wake_up_of_two_workers_is_done_once(
    clean_db: Clone, superuser: psycopg.Connection, homes: LoopbackModel
) -> None:
    async with working(clean_db, homes) as (memory, work), working(clean_db, homes):
        await memory.observe(ANA, TURNS)
        age(superuser, 11)
        woken = [await work.queue.wake("form", [Target("guide", "session:monday")]) for _ in range(3)]
        await until(lambda: memory.memories(ANA))
        await until(lambda: is_idle(work))

    assert woken[0] == 1
    assert len([request for request in homes.chat_requests if request["model"] == "gpt-fast"]) == 1


async def test_a_schedule_fires_once_for_each_time_and_a_missed_one_once(clean_db: Clone, homes: LoopbackModel) -> None:
    sunday = datetime(2026, 3, 1, 3, 59, tzinfo=UTC)
    fired: list[datetime] = []
    async with scripted_memory(clean_db, homes) as memory, open_queue(memory.resources.database) as queue:
        work = Work(memory.resources, memory.graphs, queue)  # no worker: its sweep is of today
        await memory.observe(ANA, TURNS)
        for hours in (0, 1, 2, 24, 24 * 30, 24 * 30 + 1):
            now = sunday + timedelta(hours=hours)
            await sweep(work, now)
            listed = await background.list_schedules(memory.resources.database, 10)
            (schedule,) = [item for item in listed if item.job == "refine"]
            if schedule.last_at is not None and schedule.last_at not in fired:
                fired.append(schedule.last_at)

    assert fired == [sunday + timedelta(hours=1), sunday + timedelta(days=30)]
    assert schedule.next_at == datetime(2026, 4, 5, 4, tzinfo=UTC)
