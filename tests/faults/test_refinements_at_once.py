"""A scope key has one refinement at a time; whoever lost it, frozen or failed, changes nothing and blocks nobody."""

import asyncio
import re
import threading
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from typing import Any, cast

import psycopg
import pytest

from mnemic.operations.run.resources import Resources
from mnemic.service.memory import Mnemic
from mnemic.state.errors import (
    ConcurrentChangeError,
    DatabaseUnavailableError,
    ModelError,
    RefinementOverError,
    RefinementRunningError,
)
from mnemic.storage import leases, refinements
from tests.faults.chaos import worsen
from tests.faults.crashing import CrashingServer
from tests.faults.processes import Worker
from tests.faults.refining import (
    ANA,
    KEY,
    REFINING,
    all_ended,
    check_refined_once,
    happened,
    script_refinement,
    settle_in,
)
from tests.faults.strikes import repeat
from tests.faults.test_frozen_worker import freeze_in
from tests.faults.traps import EMBEDDINGS, REFINE, Roadblock, TrappedModel, await_no_transaction
from tests.support.loopback import Answer, Request, calling, hang_up, offering
from tests.support.matrix import mostly_thorough
from tests.support.mutating import mutate
from tests.support.scripted import scripted_resources, scripted_settings
from tests.support.server import Clone
from tests.support.worlds import expire_leases, memory, remember

#: Sessions that nobody else may take up.
HELD = "select work from mnemic.leases where holder is not null and until > clock_timestamp()"
COMPLETE = calling(("complete_refinement", {"summary": "Nothing to do."}))


@asynccontextmanager
async def settled(clone: Clone, model: TrappedModel, **settings: Any) -> AsyncIterator[Resources]:
    """The product, with the core memory stored."""
    async with scripted_resources(clone, model, **settings) as resources:
        await settle_in(resources.database)
        script_refinement(model)
        yield resources


# -- at once


async def both_at_once(model: TrappedModel, one: Mnemic, other: Mnemic) -> list[Any]:
    """What comes of two runs begun together: a result or an error each. None ends before the other has begun."""
    go_on, arrived = threading.Event(), threading.Semaphore(1)

    def answer(request: Request) -> Answer:
        if "core memory of the scope user" in request["messages"][0]["content"]:
            if not arrived.acquire(blocking=False):
                go_on.set()  # both are in their first turn
            assert go_on.wait(30)
        return COMPLETE

    model.answer(offering(REFINE), answer)
    runs = [asyncio.create_task(run.refine(ANA, KEY, force=True)) for run in (one, other)]
    await asyncio.wait(runs, return_when=asyncio.FIRST_COMPLETED)
    if not go_on.is_set():
        assert (await other.refine(ANA, force=True))["outcome"] == "ended"  # the agent's own memory meanwhile
    go_on.set()
    return await asyncio.gather(*runs, return_exceptions=True)


def assert_one_was_refused(outcomes: list[Any]) -> None:
    """One ran, and the other was told since when."""
    refused = [outcome for outcome in outcomes if isinstance(outcome, BaseException)]
    assert [type(error) for error in refused] == [RefinementRunningError], "one is refused"
    assert re.search(r"has been running for [0-9]+ seconds", str(refused[0]))
    assert [outcome["ended"] for outcome in outcomes if isinstance(outcome, dict)] == ["completed"]


@pytest.mark.thorough
async def test_of_two_refinements_at_once_one_is_refused_and_another_scope_key_goes_on(
    clean_db: Clone, model: TrappedModel
) -> None:
    async with AsyncExitStack() as stack:
        first = await stack.enter_async_context(settled(clean_db, model))
        second = await stack.enter_async_context(scripted_resources(clean_db, model))
        await remember(first.database, ANA, memory("The ferry leaves at nine.", kind="core", key="agent:harbor"))
        for _ in range(5):
            assert_one_was_refused(await both_at_once(model, Mnemic(first), Mnemic(second)))


@pytest.mark.thorough
async def test_control_where_nobody_looks_both_run(
    fresh_db: Clone, model: TrappedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    with fresh_db.as_superuser() as superuser:
        superuser.execute("drop index mnemic.refinements_one_running")
    worsen(monkeypatch, refinements, running=("and r.ended is null", "and false"))
    worsen(
        monkeypatch,
        leases,
        claim=("where l.until <= clock_timestamp() or (l.holder is null and %(forced)s)", ""),
        renew=("and holder = %(holder)s", ""),
    )
    async with settled(fresh_db, model) as first, scripted_resources(fresh_db, model) as second:
        with fresh_db.as_superuser() as superuser:
            mutate(superuser, "begin_refinement_act", "and l.holder = p_holder", "")
        outcomes = await both_at_once(model, Mnemic(first), Mnemic(second))

    with pytest.raises(AssertionError, match="one is refused"):
        assert_one_was_refused(outcomes)


# -- frozen


@pytest.mark.thorough
@pytest.mark.parametrize("is_fenced", [True, False], ids=["", "control: unfenced"])
def test_a_refinement_frozen_past_its_lease_changes_nothing_any_more(
    fresh_db: Clone, model: TrappedModel, is_fenced: bool
) -> None:
    """It wakes while another run holds its session, and has a turn's answer to execute."""
    settings = scripted_settings(fresh_db, model)
    held, go_on = threading.Event(), threading.Event()

    def hold() -> None:
        held.set()
        assert go_on.wait(30)

    with fresh_db.as_superuser() as superuser, Worker(settings) as sleeper, Worker(settings) as other:
        _settle(fresh_db, model)
        assert other.do("refinements", ANA) == []  # it is open
        freeze_in(model, REFINE, REFINING, sleeper)
        if not is_fenced:
            mutate(superuser, "begin_refinement_act", "and l.holder = p_holder", "")
        expire_leases(superuser)
        model.at(REFINE, hold)
        REFINING.ask(other)
        assert held.wait(30)
        sleeper.thaw()
        woken, done = sleeper.answer(), dict(happened(superuser))
        go_on.set()
        taken_up = other.answer()

    assert woken.error is RefinementOverError
    assert taken_up.result["resumed"]
    if is_fenced:
        assert done == {"DEDUP": 1}
        check_refined_once(fresh_db)
    else:
        assert done == {"DEDUP": 1, "MERGE": 5, "UPDATE": 1}


@pytest.mark.thorough
def test_a_refinement_frozen_in_its_transaction_is_ended_by_the_server(fresh_db: Clone, model: TrappedModel) -> None:
    settings = scripted_settings(fresh_db, model, lock_timeout_seconds=60)
    _settle(fresh_db, model)
    with fresh_db.as_superuser() as superuser, Worker(settings) as sleeper, Worker(settings) as other:
        lock = "select from mnemic.memories where content like '%beta%' for update"
        with Roadblock(fresh_db.superuser_dsn, lock) as road:
            road.close()
            REFINING.ask(sleeper)
            road.await_victim()
            sleeper.freeze()
        await_no_transaction(superuser, but=1)  # the other worker's start is over
        expire_leases(superuser)  # which waits until the server has ended the frozen one's transaction
        waiting = (ConcurrentChangeError, DatabaseUnavailableError, RefinementRunningError)
        repeat([other], REFINING, until=lambda: all_ended(superuser), expected=waiting)
        sleeper.thaw()

        assert sleeper.answer().error in (RefinementOverError, DatabaseUnavailableError)
        check_refined_once(fresh_db)


def _settle(clone: Clone, model: TrappedModel) -> None:
    async def prepare() -> None:
        async with clone.database() as database:
            await settle_in(database)

    asyncio.run(prepare())
    script_refinement(model)


# -- failed


def left(superuser: psycopg.Connection) -> tuple[Any, ...] | None:
    """Whether the session is free, and its turns so far."""
    return superuser.execute(f"select not exists ({HELD}), steps from mnemic.refinements").fetchone()


async def fail(memory: Mnemic, model: TrappedModel, answer: Answer) -> None:
    """A run whose model fails."""
    model.answer(offering(REFINE), answer)
    with pytest.raises(ModelError):
        await memory.refine(ANA, KEY, force=True)
    script_refinement(model)


@pytest.mark.parametrize("answer", mostly_thorough({"500": 500, "401": 401, "hang up": hang_up}, "401"))
async def test_a_refinement_whose_model_fails_goes_on_without_a_wait(
    clean_db: Clone, model: TrappedModel, superuser: psycopg.Connection, answer: Answer
) -> None:
    async with settled(clean_db, model) as resources:
        await fail(Mnemic(resources), model, answer)
        assert left(superuser) == (True, 1)
        result = await Mnemic(resources).refine(ANA, KEY)

    assert (result["resumed"], result["ended"], result["steps"]) == (True, "completed", 3)
    check_refined_once(clean_db)


@pytest.mark.thorough
async def test_control_a_session_that_is_not_released_has_to_be_waited_for(
    clean_db: Clone, model: TrappedModel, superuser: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    worsen(monkeypatch, leases, give_back=("set holder = null, tries", "set tries"))
    async with settled(clean_db, model) as resources:
        await fail(Mnemic(resources), model, 500)
        assert left(superuser) == (False, 1)
        with pytest.raises(RefinementRunningError):
            await Mnemic(resources).refine(ANA, KEY)


@pytest.mark.parametrize(("step", "steps"), [(REFINE, 1), (EMBEDDINGS, 1)], ids=["in its turn", "in an update"])
async def test_a_cancelled_refinement_goes_on_without_a_wait(
    clean_db: Clone, model: TrappedModel, superuser: psycopg.Connection, step: str, steps: int
) -> None:
    loop, is_over = asyncio.get_running_loop(), threading.Event()

    def cancel() -> None:
        loop.call_soon_threadsafe(running.cancel)
        assert is_over.wait(30)

    async with settled(clean_db, model) as resources:
        model.at(step, cancel)
        running = asyncio.create_task(Mnemic(resources).refine(ANA, KEY, force=True))
        with pytest.raises(asyncio.CancelledError):
            await running
        is_over.set()
        assert left(superuser) == (True, steps)
        result = await Mnemic(resources).refine(ANA, KEY)

    assert (result["resumed"], result["ended"]) == (True, "completed")
    check_refined_once(clean_db)


@pytest.mark.thorough
async def test_control_a_host_that_leaves_the_graph_between_two_nodes_keeps_the_session(
    clean_db: Clone, model: TrappedModel, superuser: psycopg.Connection
) -> None:
    """Whoever runs the graph by themselves has what its nodes do, and its lease after that."""
    async with settled(clean_db, model) as resources:
        graph = Mnemic(resources).graphs.refinement
        streamed = graph.astream({"scope_key": KEY, "force": True}, context=ANA)
        async with aclosing(cast("AsyncGenerator[Any, None]", streamed)) as steps:
            await anext(steps)
        assert len(superuser.execute(HELD).fetchall()) == 1


# -- without its database


@pytest.mark.thorough
@pytest.mark.parametrize("step", [REFINE, EMBEDDINGS])
@pytest.mark.parametrize("is_killed", [True, False], ids=["kill -9", "restart"])
def test_a_refinement_outlives_its_database(
    crashing: CrashingServer, model: TrappedModel, step: str, is_killed: bool
) -> None:
    def restart() -> None:
        crashing.stop()
        crashing.restart()

    _settle(crashing.clone, model)
    settings = scripted_settings(crashing.clone, model, pool_timeout_seconds=0.5)
    with Worker(settings) as worker:
        model.at(step, crashing.kill if is_killed else restart)
        REFINING.ask(worker)
        error = worker.answer().error
        assert error is DatabaseUnavailableError or (error is None and not is_killed), error
        crashing.restart()
        with crashing.clone.as_superuser() as superuser:
            if error:
                expire_leases(superuser)
                expected = (DatabaseUnavailableError, RefinementRunningError)
                repeat([worker], REFINING, until=lambda: all_ended(superuser), expected=expected)

    check_refined_once(crashing.clone)
