"""An error that nobody expected ends its run: the lease is free at once, and the log names frames and ids, no words."""

import asyncio
import logging
from functools import partial
from typing import Any
from uuid import uuid4

import psycopg
import pytest

from mnemic.memory.formation import extraction, intake, saving
from mnemic.memory.runtime import graph as run_graphs
from mnemic.memory.runtime.background import background
from mnemic.memory.runtime.graph import formation_lease
from mnemic.service.memory import Mnemic
from mnemic.storage import leases
from tests.support.loopback import LoopbackModel
from tests.support.scripted import (
    CONSOLIDATION,
    FACTS,
    REFLECTIONS,
    consolidation,
    fact,
    facts,
    reflection,
    reflections,
    say,
    turns,
)
from tests.support.worlds import identity

ANA = identity("ana", session="s1")
SECRET = "Ana is in debt"


def failing(*_: Any, **__: Any) -> Any:
    raise KeyError(SECRET)


def holders(superuser: psycopg.Connection) -> list[Any]:
    return superuser.execute("select work from mnemic.leases where holder is not null").fetchall()


#: A function that a node calls, and where it is looked up: before, under and at the end of the lease.
PLACES = [
    (intake, "_with_guidance"),
    (intake, "facts_of_batch"),
    (extraction, "run_step"),
    (saving, "within_limit"),
    (saving, "submitters"),
]


@pytest.mark.parametrize(("module", "name"), PLACES)
async def test_a_run_that_ends_by_an_unexpected_error_makes_room_at_once(
    memory: Mnemic,
    model: LoopbackModel,
    superuser: psycopg.Connection,
    monkeypatch: pytest.MonkeyPatch,
    module: Any,
    name: str,
) -> None:
    model.answer(FACTS, facts(fact("Ana keeps bees.")))
    await memory.observe(ANA, turns("I keep bees."))
    with monkeypatch.context() as patch:
        patch.setattr(module, name, failing)
        with pytest.raises(KeyError):  # not by a method, which would give the lease back once more
            await memory.graphs.formation.ainvoke({"force": True}, context=ANA)
    assert holders(superuser) == []
    assert [run.formed for run in await memory.form(ANA)] == [1]


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, asyncio.CancelledError])
async def test_process_or_task_end_releases_the_lease_and_counts_no_attempt(
    memory: Mnemic, superuser: psycopg.Connection, monkeypatch: pytest.MonkeyPatch, error: type[BaseException]
) -> None:
    async def ending(*_: Any, **__: Any) -> Any:
        raise error

    await memory.observe(ANA, turns("I keep bees."))
    lease = formation_lease(ANA, uuid4())
    monkeypatch.setattr(run_graphs, "run_graph", ending)
    claim = partial(leases.claim, lease=lease, settings=memory.settings, forced=True)
    assert await memory.resources.database.write(ANA, claim) == 0
    with pytest.raises(error):
        await run_graphs.run_leased(memory.resources, memory.graphs.formation, {}, ANA, lease)
    assert holders(superuser) == []
    assert superuser.execute("select attempts, failures from mnemic.leases").fetchall() == [(0, 0)]


async def test_error_caused_by_a_message_quarantines_it_after_some_attempts(
    memory: Mnemic, model: LoopbackModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    await memory.observe(ANA, turns("I keep bees."))
    with monkeypatch.context() as patch:
        patch.setattr(saving, "within_limit", failing)
        for _ in range(memory.settings.max_attempts):
            with pytest.raises(KeyError):
                await memory.form(ANA)
        assert [(run.formed, run.quarantined) for run in await memory.form(ANA)] == [(0, 1)]


async def test_a_consolidation_and_a_refinement_make_room_at_once(
    memory: Mnemic, model: LoopbackModel, superuser: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    model.answer(REFLECTIONS, reflections(user=[reflection("Ana wants short answers.")]))
    model.answer(CONSOLIDATION, consolidation("Ana wants short answers."))
    await say(memory, ANA, "be short")
    await memory.remember(ANA, "Ana is never called before nine.", category="constraints", kind="core")
    with monkeypatch.context() as patch:
        patch.setattr("mnemic.memory.consolidation.writing.judge_draft", failing)
        patch.setattr("mnemic.memory.refinement.turns._step_input", failing)
        for act in (memory.admin.consolidate(ANA, "user:ana", force=True), memory.refine(ANA, "user:ana", force=True)):
            with pytest.raises(KeyError):
                await act
            assert holders(superuser) == []
    assert (await memory.admin.consolidate(ANA, "user:ana", force=True)).outcome == "saved"


async def test_the_log_of_background_work_names_frames_and_ids_and_no_words(
    memory: Mnemic, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    await memory.admin.configure_agent(ANA, formation_mode="per_turn")
    await memory.observe(ANA, turns("I keep bees."))
    monkeypatch.setattr(saving, "within_limit", failing)
    with caplog.at_level(logging.WARNING, logger="mnemic"):
        await memory.admin.form_later(ANA)
        await memory.resources.background.finish()

    (record,) = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert (record.agent_id, record.session_id) == ("harbor", "s1")  # type: ignore[attr-defined]
    shown = record.getMessage()
    assert "KeyError" in shown
    for frame in ("test_unexpected_errors.py", "in failing", "saving.py", "in save"):
        assert frame in shown
    assert SECRET not in caplog.text
    assert record.exc_info is None


async def test_an_error_behind_another_is_named_too(caplog: pytest.LogCaptureFixture) -> None:
    async def fail() -> None:
        try:
            failing()
        except KeyError as error:
            raise RuntimeError(SECRET) from error

    async with background() as work:
        work.begin("work", fail)
    assert "RuntimeError" in caplog.text
    assert "KeyError" in caplog.text
    assert "in failing" in caplog.text
    assert SECRET not in caplog.text
