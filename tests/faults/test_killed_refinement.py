"""A refinement that is killed, frozen, cancelled, or fails: the next run ends it, and nothing is done twice."""

import asyncio
import threading
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, LiteralString

import psycopg
import pytest

from mnemic.memory.runtime.resources import Resources
from mnemic.service.memory import Mnemic
from mnemic.state.errors import (
    ModelError,
    RefinementOverError,
    RefinementRunningError,
)
from mnemic.storage import leases
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
from tests.faults.strikes import (
    EMBEDDINGS,
    REFINE,
    Scene,
    Strike,
    Survive,
    TrappedModel,
    at_lock,
    await_no_transaction,
    freeze_in,
    in_request,
    wait_until,
)
from tests.support.loopback import Answer, hang_up, offering
from tests.support.matrix import mostly_thorough
from tests.support.mutating import mutate, worsen
from tests.support.scripted import scripted_resources, scripted_settings
from tests.support.server import Clone
from tests.support.worlds import expire_leases


def ended_unheard(scene: Scene) -> None:
    """The victim dies once its session has ended, and nobody hears of it."""
    REFINING.ask(scene.victim)
    wait_until(lambda: all_ended(scene.superuser), "the session does not end")
    scene.victim.kill()
    await_no_transaction(scene.superuser)


def at_memory(said: LiteralString) -> Strike:
    """The victim dies in the operation that changes memories which say this."""
    return at_lock(f"select from mnemic.memories where content like '%{said}%' for update", REFINING)


#: Where, and how many changes of memories are committed by then.
STRIKES: Mapping[str, tuple[Strike, int]] = {
    "beginning": (at_lock("lock table mnemic.refinements in access exclusive mode", REFINING), 0),
    "removing duplicates": (at_memory("crate 61"), 0),
    "in the first turn": (in_request(REFINE, REFINING), 1),
    "noting what it cost": (
        at_lock("lock table mnemic.token_usage in access exclusive mode", REFINING, after=REFINE),
        1,
    ),
    "merging": (at_memory("alpha"), 1),
    "merging again": (at_memory("beta"), 3),
    "embedding an update": (in_request(EMBEDDINGS, REFINING), 6),
    "updating": (at_memory("length"), 6),
    "in the second turn": (in_request(REFINE, REFINING, nth=2), 7),
    "deleting": (at_memory("obsolete"), 7),
    "protecting": (at_memory("promise"), 8),
    "about to complete": (in_request(EMBEDDINGS, REFINING, nth=2), 9),
    "completing": (
        at_lock("lock table mnemic.entries in access exclusive mode", REFINING, after=EMBEDDINGS, nth=2),
        9,
    ),
    "ended, not acknowledged": (ended_unheard, 9),
}
#: Puts memories together without closing what it put together.
UNCLOSED_MERGE = {
    "refinements.close_merged": (
        "select m.id from memories m where m.agent_id = %(agent_id)s and m.id = any(%(ids)s)"
        " and cardinality(%(versions)s::integer[]) > 0"
    )
}


def prepare(clone: Clone, model: TrappedModel) -> None:
    """The core memory is stored, and the model knows what to do with it."""

    async def settle() -> None:
        async with clone.database() as database:
            await settle_in(database)

    asyncio.run(settle())
    script_refinement(model)


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("where", "others"),
    [*((where, 1) for where in STRIKES), ("in the first turn", 2), ("merging", 2), ("completing", 2)],
)
def test_killed_refinement_is_ended_by_the_next_and_changes_apply_once(
    survive: Survive, clean_db: Clone, model: TrappedModel, where: str, others: int
) -> None:
    strike, done = STRIKES[where]

    assert die_and_finish(survive, clean_db, model, strike, others=others) == done
    check_refined_once(clean_db)


@pytest.mark.thorough
def test_control_a_merge_that_leaves_the_merged_is_noticed(
    survive: Survive, clean_db: Clone, model: TrappedModel
) -> None:
    die_and_finish(survive, clean_db, model, STRIKES["embedding an update"][0], sabotage=UNCLOSED_MERGE)

    with pytest.raises(AssertionError, match="a merge is not one operation with all that belongs to it"):
        check_refined_once(clean_db)


def die_and_finish(survive: Survive, clone: Clone, model: TrappedModel, strike: Strike, **how: Any) -> int:
    """One worker dies of a strike, others end its session. How many changes the first had made."""
    with clone.as_superuser() as superuser:
        done: int = survive(
            strike,
            (REFINING, all_ended),
            settle=lambda _: prepare(clone, model),
            look=lambda: sum(happened(superuser).values()),
            **how,
        )
    return done


@asynccontextmanager
async def settled(clone: Clone, model: TrappedModel, **settings: Any) -> AsyncIterator[Resources]:
    """The product, with the core memory stored."""
    async with scripted_resources(clone, model, **settings) as resources:
        await settle_in(resources.database)
        script_refinement(model)
        yield resources


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
        prepare(fresh_db, model)
        assert other.do("admin.refinements", ANA) == []  # it is open
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
    assert taken_up.result.resumed
    if is_fenced:
        assert done == {"DEDUP": 1}
        check_refined_once(fresh_db)
    else:
        assert done == {"DEDUP": 1, "MERGE": 5, "UPDATE": 1}


# -- failed


def left(superuser: psycopg.Connection) -> tuple[Any, ...] | None:
    """Whether the session is free, and its turns so far."""
    return superuser.execute(
        "select not exists (select from mnemic.leases where holder is not null and until > clock_timestamp()), steps"
        " from mnemic.refinements"
    ).fetchone()


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

    assert (result.resumed, result.ended, result.steps) == (True, "completed", 4)
    check_refined_once(clean_db)


@pytest.mark.thorough
async def test_control_a_session_that_is_not_released_has_to_be_waited_for(
    clean_db: Clone, model: TrappedModel, superuser: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    worsen(monkeypatch, leases, release=("set holder = null, attempts", "set attempts"))
    async with settled(clean_db, model) as resources:
        await fail(Mnemic(resources), model, 500)
        assert left(superuser) == (False, 1)
        with pytest.raises(RefinementRunningError):
            await Mnemic(resources).refine(ANA, KEY)


@pytest.mark.parametrize("step", [REFINE, EMBEDDINGS], ids=["in its turn", "in an update"])
async def test_a_cancelled_refinement_goes_on_without_a_wait(
    clean_db: Clone, model: TrappedModel, superuser: psycopg.Connection, step: str
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
        assert left(superuser) == (True, 1)
        result = await Mnemic(resources).refine(ANA, KEY)

    assert (result.resumed, result.ended) == (True, "completed")
    check_refined_once(clean_db)
