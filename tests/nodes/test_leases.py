"""One run at a time on a session and on a scope key; a failure waits before the next try, and tries are bounded."""

import asyncio
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any, LiteralString

import psycopg
import pytest

from mnemic.service.memory import Mnemic
from mnemic.state.errors import ModelError, ModelOutputError
from mnemic.state.results import FormationResult
from tests.support.loopback import LoopbackModel
from tests.support.scripted import (
    CONSOLIDATION,
    FACTS,
    REFLECTIONS,
    asked,
    consolidation,
    contents,
    fact,
    facts,
    last_prompt,
    meanwhile,
    reflection,
    reflections,
    say,
    scripted_memory,
    turns,
)
from tests.support.server import Clone
from tests.support.worlds import expire_leases, identity

ANA = identity("ana", session="s1")
KEY = "user:ana"
BEES = facts(fact("Ana keeps bees."))
WISH = reflections(user=[reflection("Ana wants short answers.")])
GARBAGE = "no JSON"


def waits(superuser: psycopg.Connection) -> list[int]:
    """Seconds until the next try, in tens."""
    rows = superuser.execute("select extract(epoch from until - clock_timestamp()) from mnemic.leases").fetchall()
    return [round(row[0], -1) for row in rows]  # a busy machine loses a second or two


async def test_while_one_run_forms_a_session_another_leaves_it_alone(memory: Mnemic, model: LoopbackModel) -> None:
    others: list[FormationResult] = []

    async def come_too() -> None:
        others.extend(await memory.form(ANA))

    model.answer(FACTS, meanwhile(come_too, BEES))
    await memory.observe(ANA, turns("I keep bees"))
    (run,) = await memory.form(ANA)

    assert [(other.reason, other.waits) for other in others] == [(None, "leased")]
    assert (run.formed, run.waits) == (1, None)
    assert asked(model) == [FACTS, REFLECTIONS]


async def test_a_run_that_is_cancelled_makes_room_at_once(
    memory: Mnemic, model: LoopbackModel, superuser: psycopg.Connection
) -> None:
    await memory.observe(ANA, turns(*[f"m{place}" for place in range(45)]))
    runs: list[asyncio.Task[Any]] = []

    async def cancel() -> None:
        runs[0].cancel()

    model.answer(FACTS, meanwhile(cancel, BEES), BEES)
    runs.append(asyncio.create_task(memory.form(ANA, force=False)))
    with pytest.raises(asyncio.CancelledError):
        await runs[0]

    assert superuser.execute("select attempts, failures from mnemic.leases").fetchall() == [(0, 0)]
    assert [run.formed for run in await memory.form(ANA, force=False)] == [45]


@pytest.mark.thorough
@pytest.mark.parametrize("work", ["form", "consolidate"])
async def test_wherever_a_run_is_cancelled_it_leaves_no_lease(
    memory: Mnemic, model: LoopbackModel, superuser: psycopg.Connection, work: str
) -> None:
    model.answer(REFLECTIONS, WISH)
    model.answer(CONSOLIDATION, "")  # refused, so that there is always something to do
    await say(memory, ANA, "be short")
    for place in range(40):
        await memory.observe(ANA, turns(f"m{place}", minutes=place + 1))
        act = memory.form(ANA) if work == "form" else memory.admin.consolidate(ANA, KEY, force=True)
        with suppress(TimeoutError, ModelOutputError):
            async with asyncio.timeout(place / 1000):
                await act
        async with asyncio.timeout(30):  # given back on the way out, behind the cancelled task
            while superuser.execute("select work from mnemic.leases where holder is not null").fetchall():  # noqa: ASYNC110
                await asyncio.sleep(0.01)


async def test_after_a_failure_only_a_forced_run_tries_at_once(
    memory: Mnemic, model: LoopbackModel, superuser: psycopg.Connection
) -> None:
    await memory.observe(ANA, turns(*[f"m{place}" for place in range(45)]))
    model.answer(FACTS, 401)
    pauses: list[int] = []
    for force in (False, True, True, True, True):
        with pytest.raises(ModelError):
            await memory.form(ANA, force=force)
        assert [run.waits for run in await memory.form(ANA, force=False)] == ["backoff"]
        pauses += waits(superuser)
    assert pauses == [60, 240, 960, 3600, 3600]
    assert len(model.chat_requests) == 5

    model.answer(FACTS, BEES)
    expire_leases(superuser)
    assert [run.formed for run in await memory.form(ANA, force=False)] == [45]


async def test_what_was_set_aside_stands_in_nobodys_way(
    memory: Mnemic, model: LoopbackModel, superuser: psycopg.Connection
) -> None:
    model.answer(FACTS, lambda request: GARBAGE if "POISON" in str(request["messages"]) else BEES)
    await memory.observe(ANA, turns("POISON"))
    for _ in range(memory.settings.max_attempts):
        with pytest.raises(ModelOutputError):
            await memory.form(ANA)
    assert [(run.formed, run.quarantined) for run in await memory.form(ANA)] == [(0, 1)]
    for place in range(6):
        await memory.observe(ANA, turns(f"news {place}", minutes=60 + place))
        assert [run.formed for run in await memory.form(ANA)] == [1, 0]
        with pytest.raises(ModelOutputError):
            await memory.form(ANA, retry=True)
    assert "POISON" in last_prompt(model, FACTS)
    assert "news" not in last_prompt(model, FACTS)

    await memory.observe(ANA, turns(*[f"more {place}" for place in range(45)], minutes=90))
    model.answer(FACTS, facts())
    assert [(run.formed, run.quarantined) for run in await memory.form(ANA, force=False)] == [(45, 1), (0, 1)]
    assert [(run.formed, run.quarantined) for run in await memory.form(ANA, retry=True)] == [(1, 0)]


async def test_nothing_is_set_aside_that_did_not_fail_alone(
    memory: Mnemic, model: LoopbackModel, superuser: psycopg.Connection
) -> None:
    model.answer(FACTS, lambda request: GARBAGE if "POISON" in str(request["messages"]) else BEES)
    await memory.observe(ANA, turns("POISON 1", "POISON 2"))
    for _ in range(5):
        with pytest.raises(ModelOutputError):
            await memory.form(ANA)
    await memory.observe(ANA, turns("my words", "and mine", minutes=5))
    for _ in range(5):
        with pytest.raises(ModelOutputError):  # the second one, which nobody has seen alone yet
            await memory.form(ANA)
    assert [(run.formed, run.quarantined) for run in await memory.form(ANA)] == [(2, 2), (0, 2)]


async def test_a_retry_reaches_what_stands_behind_a_message_that_still_fails(
    memory: Mnemic, model: LoopbackModel, superuser: psycopg.Connection
) -> None:
    model.answer(FACTS, lambda request: GARBAGE if "POISON" in str(request["messages"]) else BEES)
    await memory.observe(ANA, turns("POISON", *[f"m{place}" for place in range(3)]))
    superuser.execute("update mnemic.messages set quarantined = true")
    left: list[int] = []
    for _ in range(20):
        with suppress(ModelOutputError):
            await memory.form(ANA, retry=True)
        left += superuser.execute("select count(*) from mnemic.messages where formed_by is null").fetchone() or ()
    assert min(left) == left[-1] == 1


@pytest.mark.parametrize(
    ("work", "done", "outcome"),
    [
        ("form", "update mnemic.messages set formed_by = gen_random_uuid()", []),
        ("consolidate", "update mnemic.memories set state = 'soft_deleted'", "not_due"),
    ],
)
async def test_what_others_did_before_the_lease_came_is_left_alone(
    memory: Mnemic,
    model: LoopbackModel,
    clean_db: Clone,
    superuser: psycopg.Connection,
    work: str,
    done: LiteralString,
    outcome: object,
) -> None:
    model.answer(REFLECTIONS, WISH)
    await say(memory, ANA, "be short")
    await memory.observe(ANA, turns("I keep bees", minutes=5))
    act: Coroutine[Any, Any, Any] = (
        memory.form(ANA) if work == "form" else memory.admin.consolidate(ANA, KEY, force=True)
    )
    with clean_db.as_superuser() as holder, holder.transaction():
        holder.execute("lock table mnemic.leases in access exclusive mode")
        run = asyncio.create_task(act)
        while superuser.execute("select from pg_locks where not granted").fetchone() is None:  # noqa: ASYNC110 - the server tells
            await asyncio.sleep(0.01)
        superuser.execute("set session_replication_role = replica")
        superuser.execute(done)

    result = await run
    assert (result if work == "form" else result.outcome) == outcome
    assert asked(model) == [FACTS, REFLECTIONS]
    assert superuser.execute("select * from mnemic.leases").fetchall() == []


async def test_long_backlog_is_consolidated_in_pieces_and_smaller_after_failure(
    clean_db: Clone, model: LoopbackModel
) -> None:
    wishes = [f"Ana wants answers about topic {place}." for place in range(7)]
    model.answer(REFLECTIONS, reflections(user=[reflection(wish) for wish in wishes]))
    async with scripted_memory(clean_db, model, user_threshold=1, consolidation_reflections=4) as memory:
        await memory.admin.configure_scope(ANA, KEY, is_active=False)
        await say(memory, ANA, "be short")
        assert CONSOLIDATION not in asked(model)
        await memory.admin.configure_scope(ANA, KEY, is_active=True)
        model.answer(CONSOLIDATION, GARBAGE)
        with pytest.raises(ModelOutputError):
            await memory.admin.consolidate(ANA, KEY, force=True)
        model.answer(CONSOLIDATION, consolidation("Ana wants answers about the topics 0, 1, 2, 3, 4, 5, 6."))
        absorbed = [(await memory.admin.consolidate(ANA, KEY, force=True)).absorbed for _ in range(4)]
    assert absorbed == [2, 4, 1, 0]


async def test_who_consolidates_takes_in_what_others_formed_meanwhile(clean_db: Clone, model: LoopbackModel) -> None:
    other = identity("ana", session="s2")
    both = "Ana wants short answers and sails on Fridays."
    async with scripted_memory(clean_db, model, user_threshold=1) as memory:

        async def form_too() -> None:
            model.answer(REFLECTIONS, reflections(user=[reflection("Ana sails on Fridays.")]))
            model.answer(CONSOLIDATION, consolidation(both))
            await memory.observe(other, turns("I sail on Fridays"))
            (run,) = await memory.form(other)
            assert [result.outcome for result in run.consolidations] == ["busy"]

        model.answer(REFLECTIONS, WISH)
        model.answer(CONSOLIDATION, meanwhile(form_too, consolidation("Ana wants short answers.")))
        await memory.observe(ANA, turns("be short"))
        (run,) = await memory.form(ANA)

        assert [(result.outcome, result.absorbed) for result in run.consolidations] == [("saved", 2)]
        assert await contents(memory, ANA, "consolidation") == [both]
        assert await contents(memory, ANA, "reflection") == []


async def test_a_refused_consolidation_waits_for_its_next_try(
    clean_db: Clone, model: LoopbackModel, superuser: psycopg.Connection
) -> None:
    model.answer(REFLECTIONS, WISH)
    model.answer(CONSOLIDATION, consolidation(""), consolidation(""), consolidation("Ana wants short answers."))
    async with scripted_memory(clean_db, model, user_threshold=1) as memory:
        await say(memory, ANA, "be short")
        assert (await memory.admin.consolidate(ANA, KEY)).outcome == "backoff"
        expire_leases(superuser)
        assert (await memory.admin.consolidate(ANA, KEY)).outcome == "saved"
    assert superuser.execute("select * from mnemic.leases").fetchall() == []
