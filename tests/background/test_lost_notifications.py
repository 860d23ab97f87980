"""A worker whose notifications do not arrive, such as behind a pooler, looks for its jobs by itself."""

import asyncio
from dataclasses import replace
from typing import NamedTuple

import psycopg
import pytest

from mnemic.service.worker import background_work
from mnemic.state.background import Target
from mnemic.storage.queue import Pace
from tests.background.test_jobs import ANA, TURNS, age, is_idle, until
from tests.background.working import SHORT
from tests.support.loopback import LoopbackModel
from tests.support.relays import losing_notifications
from tests.support.scripted import FACTS, fact, facts, scripted_memory
from tests.support.server import Clone

#: A worker that waits for a notification and does not look in between.
LOOKS_NEVER = replace(SHORT, poll=3600)


class Case(NamedTuple):
    hides_process: bool
    pace: Pace
    listens: bool
    is_formed: bool


CASES = {
    "a pooler that is found": Case(hides_process=True, pace=SHORT, listens=False, is_formed=True),
    "a pooler that is not found": Case(hides_process=False, pace=SHORT, listens=True, is_formed=True),
    "control: without the look": Case(hides_process=False, pace=LOOKS_NEVER, listens=True, is_formed=False),
}


@pytest.mark.thorough
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
async def test_work_is_done_by_a_worker_that_gets_no_notification(
    clean_db: Clone, superuser: psycopg.Connection, model: LoopbackModel, case: Case
) -> None:
    model.answer(FACTS, facts(fact("Ana lives in Porto.", 1, category="profile")))
    async with (
        losing_notifications(clean_db, hides_process=case.hides_process) as relay,
        scripted_memory(relay.clone, model, insights=False) as memory,
        background_work(memory.resources, memory.graphs, case.pace) as work,
    ):
        await memory.observe(ANA, TURNS)
        await until(lambda: is_idle(work))
        await asyncio.sleep(1)  # until the worker listens, and has looked once
        age(superuser, 11)
        before = relay.lost
        await work.queue.wake("form", [Target("guide", "session:monday")])
        if case.is_formed:
            await until(lambda: memory.memories(ANA))
        else:
            await asyncio.sleep(2)
            assert await memory.memories(ANA) == []
        assert (relay.lost > before) == case.listens
