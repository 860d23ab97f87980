"""What was recalled is counted, once per session and day, when the turn is over, and nothing waits for it."""

import asyncio
import logging
import random
from datetime import date
from uuid import UUID, uuid4

import psycopg
import pytest

from mnemic.memory.runtime import resources as uses_module
from mnemic.memory.runtime.resources import AccessTracker, Resources
from mnemic.service.memory import Mnemic
from mnemic.state.errors import MnemicError
from mnemic.state.settings import Settings
from mnemic.storage import memories
from mnemic.storage.database import Database
from tests.support.loopback import LoopbackModel
from tests.support.matrix import mostly_thorough
from tests.support.scripted import (
    FACTS,
    REFLECTIONS,
    fact,
    facts,
    reflection,
    reflections,
    say,
    scripted_resources,
    scripted_settings,
    turns,
)
from tests.support.server import PATIENT, Clone, see_deadlocks_quickly
from tests.support.worlds import identity, memory, remember, text_of

HERE = identity("ana", session="here")
THERE = identity("ana", session="there")
BEES = "Ana keeps bees on the north quay."
BRIEF = "Ana wants short answers."
PAST = "Where on the quay were the bees?"
MONDAY, TUESDAY = date(2026, 3, 2), date(2026, 3, 3)


async def fill(service: Mnemic, model: LoopbackModel) -> None:
    model.answer(FACTS, facts(fact(BEES)))
    model.answer(REFLECTIONS, reflections(user=[reflection(BRIEF)]))
    await say(service, THERE, "I keep bees on the north quay.")


def counted(superuser: psycopg.Connection) -> dict[str, int]:
    return dict(
        superuser.execute(
            "select m.content, u.access_count from mnemic.memory_use u join mnemic.memories m on m.id = u.memory_id"
        ).fetchall()
    )


# -- what is noted


def test_a_memory_counts_once_per_session_and_day() -> None:
    day, memory_id = [MONDAY], uuid4()
    noted = AccessTracker(today=lambda: day[0])
    for _ in range(3):
        noted.note(HERE, [memory_id, memory_id])
    assert noted.take(HERE) == {memory_id}
    noted.note(HERE, [memory_id])
    assert noted.take(HERE) == set()

    noted.note(THERE, [memory_id])
    assert (noted.take(HERE), noted.take(THERE)) == (set(), {memory_id})
    day[0] = TUESDAY
    noted.note(HERE, [memory_id])
    assert noted.take(HERE) == {memory_id}


def test_without_a_session_it_counts_once_per_user() -> None:
    noted, memory_id = AccessTracker(), uuid4()
    for who in (identity("ana"), identity("ana"), identity("ben"), identity("ana", agent="other")):
        noted.note(who, [memory_id])
    assert [len(noted.take(identity(user))) for user in ("ana", "ben")] == [1, 1]
    assert len(noted.take(identity("ana", agent="other"))) == 1


def test_what_waits_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uses_module, "MAX_NOTED", 100)
    noted = AccessTracker()
    for number in range(1000):
        noted.note(identity(f"u{number}"), [uuid4() for _ in range(7)])
        assert len(noted._counted) < 107
        assert sum(len(waiting) for _, waiting in noted._waiting.values()) < 107
    noted.note(HERE, [])
    assert noted.take(HERE) == set()


# -- what is written


async def test_a_recall_counts_once_its_turn_is_observed(
    resources: Resources, model: LoopbackModel, superuser: psycopg.Connection
) -> None:
    service = Mnemic(resources)
    await fill(service, model)
    for _ in range(2):
        recalled = await service.recall(HERE, PAST)
        assert BEES in text_of(recalled.context)
        assert BRIEF in text_of(recalled.context)  # as always, so that it is not counted
        assert {found.kind for found in recalled.memories} >= {"fact"}
    assert counted(superuser) == {}  # a recall writes nothing
    await service.observe(HERE, turns("Where were they?"))
    assert counted(superuser) == {BEES: 1}
    await service.recall(HERE, PAST)
    await service.observe(HERE, turns("And now?"))
    assert counted(superuser) == {BEES: 1}

    await service.recall(THERE, PAST)
    await service.observe(THERE, turns("And there?"))
    assert counted(superuser) == {BEES: 2}
    rows = superuser.execute("select scope_key, now() - last_accessed_at < '1 min' from mnemic.memory_use").fetchall()
    assert rows == [("user:ana", True)]


async def test_closing_writes_what_no_turn_has_written(
    clean_db: Clone, model: LoopbackModel, superuser: psycopg.Connection
) -> None:
    settings = scripted_settings(clean_db, model).model_dump(exclude_unset=True)
    async with Mnemic.open(settings=Settings(**settings)) as service:
        await fill(service, model)
        for who in (HERE, identity("ana")):
            await service.recall(who, PAST)
        assert counted(superuser) == {}
    assert counted(superuser) == {BEES: 2}


async def test_a_failure_costs_the_counts_and_is_logged_without_a_word_of_them(
    fresh_db: Clone, model: LoopbackModel, caplog: pytest.LogCaptureFixture
) -> None:
    async with scripted_resources(fresh_db, model) as resources:
        service = Mnemic(resources)
        await fill(service, model)
        await service.recall(HERE, PAST)
        with fresh_db.as_superuser() as connection:
            connection.execute("revoke insert on mnemic.memory_use from mnemic_app")
        observed = await service.observe(HERE, turns("Hello."))
        assert observed.accepted == 1
        assert resources.uses.take(HERE) == set()

    (record,) = [record for record in caplog.records if record.name == "mnemic"]
    assert record.levelno == logging.WARNING
    assert record.getMessage().startswith("Could not count 1 uses of recalled memories: ")
    assert "bees" not in caplog.text


# -- by whom, and how many at once


async def count(db: Database, memory_ids: list[UUID], user: str = "ana") -> None:
    async with db.transaction(identity(user)) as tx:
        await memories.count_uses(tx, memory_ids)


@pytest.mark.parametrize("held_by", mostly_thorough(["both", "the policies", "the statement", "neither"], "both"))
async def test_foreign_and_unknown_ids_count_nothing_in_statements_and_policies(
    fresh_db: Clone, monkeypatch: pytest.MonkeyPatch, held_by: str
) -> None:
    with fresh_db.as_superuser() as connection:
        if held_by in ("the statement", "neither"):
            for table in ("memories", "memory_use"):
                connection.execute(f"alter table mnemic.{table} disable row level security")
        if held_by in ("the policies", "neither"):
            careless = memories._SQL["count_uses"].replace("and scope_key = any(%(scope_keys)s) ", "")
            assert careless != memories._SQL["count_uses"]
            monkeypatch.setattr(memories, "_SQL", {**memories._SQL, "count_uses": careless})
        async with fresh_db.database() as db:
            own, foreign = memory("Ana's."), memory("Ben's.", key="user:ben")
            await remember(db, identity("ana"), own, foreign, also=["user:ben"])
            await count(db, [own.id, foreign.id, uuid4()])
        assert counted(connection) == {"Ana's.": 1} | ({"Ben's.": 1} if held_by == "neither" else {})


async def count_all_at_once(db: Database, rounds: int) -> list[MnemicError]:
    """Eight turns that end at the same time and have recalled the same memories; what they met."""
    shared = [memory(f"Fact {number}.", key="agent:harbor") for number in range(60)]
    await remember(db, identity("ana"), *shared)
    chance = random.Random(5)
    met: list[MnemicError] = []

    async def turn(user: str) -> None:
        ids = [item.id for item in chance.sample(shared, 40)]
        try:
            await count(db, ids, user)
        except MnemicError as error:
            met.append(error)

    for _ in range(rounds):
        await asyncio.gather(*(turn(f"u{number}") for number in range(8)))
    return met


@pytest.mark.thorough
@pytest.mark.parametrize("ordered", [True, False], ids=["", "control"])
async def test_turns_that_end_at_once_do_not_deadlock_and_none_is_lost(
    fresh_db: Clone, monkeypatch: pytest.MonkeyPatch, ordered: bool
) -> None:
    """The control counts in no order."""
    see_deadlocks_quickly(fresh_db)
    if not ordered:
        shuffled = memories._SQL["count_uses"].replace("order by id", "order by random()")
        assert shuffled != memories._SQL["count_uses"]
        monkeypatch.setattr(memories, "_SQL", {**memories._SQL, "count_uses": shuffled})
    async with fresh_db.database(PATIENT) as db:
        met = await count_all_at_once(db, rounds=20)
    assert {error.sqlstate for error in met} == (set() if ordered else {"40P01"})
    with fresh_db.as_superuser() as connection:
        assert (sum(counted(connection).values()) == 20 * 8 * 40) == ordered


async def test_a_process_that_only_recalls_has_its_uses_written_too(
    resources: Resources, superuser: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(uses_module, "MAX_WAITING", 2)
    bees = memory(BEES)
    await remember(resources.database, HERE, bees)
    for who in (HERE, THERE):
        assert await Mnemic(resources).query(who, "bees", search_type="text")
    await resources.background.finish()
    assert counted(superuser) == {BEES: 2}
