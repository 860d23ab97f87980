"""Events: counted without contents, written in batches that no turn waits for, and pruned."""

import logging
from datetime import UTC, datetime, timedelta
from time import process_time
from typing import Any

import psycopg
import pytest

from mnemic import Identity, Mnemic
from mnemic.memory.background.jobs import JOBS
from mnemic.memory.runtime.events import BATCH, EventLog
from mnemic.memory.runtime.resources import Resources
from mnemic.service.metrics import metrics_text
from mnemic.state.events import Event
from tests.background.test_budget import idle_work
from tests.support.loopback import LoopbackModel
from tests.support.scripted import (
    CONSOLIDATION,
    DECISIONS,
    FACTS,
    REFLECTIONS,
    consolidation,
    decision,
    decisions,
    fact,
    facts,
    reflection,
    reflections,
    turns,
)
from tests.support.scripted import memory as memory
from tests.support.scripted import resources as resources
from tests.support.server import Clone
from tests.support.worlds import identity

ANA = identity("ana", session="monday")
#: Words that occur in messages, memories, questions and answers of models.
CANARY = "xylocopa"


def rows(superuser: psycopg.Connection, columns: str = "node, op, status") -> list[tuple[Any, ...]]:
    return superuser.execute(f"select {columns} from mnemic.events order by ts, node, op").fetchall()


async def talk(memory: Mnemic, model: LoopbackModel) -> None:
    """A whole conversation with a canary word in everything that is said, kept, asked, corrected and forgotten."""
    model.answer(FACTS, facts(fact(f"Ana keeps a {CANARY} on the quay.")), facts(fact(f"Ana sold the {CANARY}.")))
    model.answer(DECISIONS, decisions(decision(1, "DELETE", 1, text=f"Ana sold the {CANARY}.")))
    model.answer(REFLECTIONS, reflections(user=[reflection(f"Ana loves her {CANARY}.")]))
    model.answer(CONSOLIDATION, consolidation(f"Ana loves her {CANARY}."))
    await memory.observe(ANA, turns(f"I keep a {CANARY} on the quay.", f"assistant: A {CANARY}!"))
    await memory.form(ANA, force=True)
    await memory.recall(ANA, f"Where is my {CANARY}?", search="always")
    await memory.recall(ANA, "Thanks.", search="never")
    await memory.query(ANA, CANARY)
    await memory.observe(ANA, turns(f"I keep a {CANARY} on the quay.", f"I sold the {CANARY}.", minutes=3))
    await memory.form(ANA, force=True)
    await memory.admin.consolidate(ANA, "user:ana", force=True)
    kept = await memory.remember(ANA, f"Ana feeds her {CANARY} at noon.", category="activity")
    changed = await memory.correct(ANA, str(kept.id), f"Ana feeds her {CANARY} at dusk.")
    await memory.forget(ANA, str(changed.id))


async def test_a_conversation_is_counted_and_no_event_or_stat_has_a_word_of_it(
    memory: Mnemic, model: LoopbackModel, superuser: psycopg.Connection
) -> None:
    await talk(memory, model)
    stats = await memory.usage.stats(ANA)

    seen = set(rows(superuser))
    assert {("recall", "search", "ok"), ("recall", "classify", "skipped"), ("query", "search", "ok")} <= seen
    assert {("formation", "extract_facts", "ok"), ("formation", "create", "ok"), ("formation", "save", "ok")} <= seen
    assert {("consolidation", "save", "ok"), ("consolidation", "merge", "ok")} <= seen
    assert {("explicit", "create", "ok"), ("explicit", "update", "ok"), ("explicit", "delete", "ok")} <= seen
    (search,) = superuser.execute("select user_id, sim, duration_ms from mnemic.events where node = 'query'").fetchall()
    assert search[0] == "ana"
    assert 0 < search[1] <= 1
    assert search[2] > 0
    created = superuser.execute(
        "select memory_id, category from mnemic.events where op = 'create' and node = 'formation'"
    )
    assert all(memory_id and category for memory_id, category in created.fetchall())

    text = "select coalesce(string_agg(t::text, ' '), '') from mnemic.{} t"
    everything = {table: str(superuser.execute(text.format(table)).fetchone()) for table in ("events", "messages")}
    assert CANARY in everything["messages"]  # the control
    assert CANARY not in everything["events"]
    assert CANARY not in repr(stats)
    assert CANARY not in await metrics_text(memory.resources)
    assert "ana" not in repr(stats)


async def test_a_failure_is_counted_and_a_lost_database_costs_counts_alone(
    resources: Resources, model: LoopbackModel, superuser: psycopg.Connection, caplog: pytest.LogCaptureFixture
) -> None:
    service = Mnemic(resources)
    model.answer(FACTS, 400)
    await service.observe(ANA, turns("I keep bees.", "assistant: Good."))
    with pytest.raises(Exception, match="gpt-fast"):
        await service.form(ANA, force=True)
    superuser.execute("revoke insert on mnemic.events from mnemic_app")
    try:
        with caplog.at_level(logging.WARNING, "mnemic"):
            await resources.events.write(resources.database)
    finally:
        superuser.execute("grant insert on mnemic.events to mnemic_app")
    assert rows(superuser) == []
    assert resources.events.lost > 0
    assert "Could not record" in caplog.text

    with pytest.raises(Exception, match="gpt-fast"):
        await service.form(ANA, force=True)
    await resources.events.write(resources.database)
    assert ("formation", "extract_facts", "error") in rows(superuser)


async def test_a_batch_is_written_without_a_call_and_equal_events_are_one_row(
    resources: Resources, superuser: psycopg.Connection
) -> None:
    for number in range(BATCH):
        resources.events.note(Event(agent_id="harbor", node="worker", op=f"job {number}", duration_ms=1.0))
        resources.events.note(Event(agent_id="harbor", node="recall", op="read", duration_ms=2.0))
    resources.write_events()
    await resources.background.finish("events")

    found = rows(superuser, "op, occurrences, duration_ms")
    assert ("read", BATCH, 2.0 * BATCH) in found
    assert len(found) == BATCH + 1


async def test_old_events_are_pruned_and_others_stay(
    clean_db: Clone, superuser: psycopg.Connection, model: LoopbackModel
) -> None:
    async with idle_work(clean_db, model, events_days=3) as (memory, work):
        log, now, job = memory.resources.events, datetime.now(UTC), JOBS["prune_events"]
        for days in (1, 5, 9):
            log.note(Event(agent_id="harbor", node="worker", op=f"{days}", ts=now - timedelta(days=days)))
        await log.write(memory.resources.database)
        for target in await job.find_due(work, now):
            await job.run(work, target)

        assert rows(superuser, "op") == [("1",)]
        assert await job.find_due(work, now) == []


def test_an_event_costs_a_turn_microseconds() -> None:
    log, who = EventLog(), Identity(agent_id="harbor", user_id="ana", session_id="monday")
    began, events = process_time(), 3000
    for number in range(events):
        with log.timed(who, "recall", "search") as outcome:
            outcome.sim = number / events
    each = (process_time() - began) / events
    print(f"an event costs {each * 1e6:.1f} microseconds of CPU; a recall with a search has three")
    assert each < 0.0002
