"""Models that misbehave in refinement sessions: within their scope key, nothing protected touched, all undoable."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from random import Random
from typing import Any

import psycopg
import pytest

from mnemic.nodes import refinement as close_refinement
from mnemic.operations.refinement.session import CoreMemoryEditor
from mnemic.service.governance.administration import Administration
from mnemic.state.refinement import LedgerEntry
from mnemic.storage import refinements
from mnemic.storage.database import Database
from tests.hostile.misbehaving import NAMES
from tests.hostile.refinement_world import SMALL, World, foreign, keys, settle_world
from tests.support.loopback import offering
from tests.support.mutating import mutate
from tests.support.scripted import scripted_memory, scripted_model
from tests.support.server import Clone

pytestmark = pytest.mark.thorough
AGENTS = tuple(f"agent{number}" for number in range(8))


@asynccontextmanager
async def opened(clone: Clone, superuser: psycopg.Connection, agents: Sequence[str] = AGENTS) -> AsyncIterator[World]:
    """Agents with three scope keys each to refine, and the rest of the world."""
    with scripted_model() as model:
        async with (
            scripted_memory(clone, model, refinement_steps=6, embedder="hash", pool_size=8, **SMALL) as service,
            Administration.open(admin_url=clone.administrator_dsn) as administration,
        ):
            await settle_world(service, superuser, agents, seed=1)
            world = World(service, administration, superuser, tuple(agents), foreign(superuser))
            model.answer(offering("complete_refinement"), world.answer)
            yield world


async def misbehave(world: World, sessions: int, *, seed: int = 7) -> None:
    """So many sessions, on two scope keys of each agent at once, each wave undone before the next one."""
    random = Random(seed)
    for wave in range(-(-sessions // (2 * len(world.agents)))):
        pairs = [(agent, key) for agent in world.agents for key in random.sample(keys(agent), 2)]
        await world.run(pairs, seed=seed * 1000 + wave)
    assert await world.administration.verify() == []


@pytest.mark.parametrize("sessions", [96, pytest.param(1000, marks=pytest.mark.slow)])
async def test_whatever_a_model_does_with_the_tools_it_stays_in_its_bounds(
    clean_db: Clone, superuser: psycopg.Connection, sessions: int
) -> None:
    async with opened(clean_db, superuser) as world:
        await misbehave(world, sessions)

        assert sum(world.ends.values()) >= sessions
        # it was no test of doing nothing: each kind of misbehaviour and of honest work was there, and often
        assert world.moves.keys() == NAMES
        assert min(world.moves.values()) >= sessions // 20
        assert min(world.done.values()) >= sessions // 20, world.done
        assert world.ends.keys() == {"completed", "finished", "steps", "tokens"}


# -- controls: what breaks one bound is seen by the same checks


async def caught(clone: Clone, *mutation: str) -> str:
    """What the checks say of some sessions, several on each scope key, with a function of the database made wrong."""
    with clone.as_superuser() as superuser:
        async with opened(clone, superuser, AGENTS[:3]) as world:
            if mutation:  # not before, for no service opens a database whose functions were changed
                mutate(superuser, *mutation)
            with pytest.raises(AssertionError) as failure:
                await misbehave(world, 60)
    return str(failure.value).splitlines()[0]


LIVING = CoreMemoryEditor._living


def as_free(self: CoreMemoryEditor, number: int) -> LedgerEntry | None:
    """As if nothing were protected."""
    entry = LIVING(self, number)
    return replace(entry, protected=False) if entry else None


async def test_control_without_the_check_and_without_the_guard_a_protected_memory_changes(
    fresh_db: Clone, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(CoreMemoryEditor, "_living", as_free)
    guard = "new.protected or (tg_op = 'UPDATE' and old.protected)"

    assert await caught(fresh_db, "guard_memory", guard, "false") == "a protected memory changed"


def seeing_more(transaction: Callable[..., Any]) -> Callable[..., Any]:
    """A transaction of a session, which sees every scope key of its identity."""
    return lambda self, *given, only=None, **named: transaction(self, *given, **named)


async def test_control_a_session_that_sees_more_scope_keys_changes_them(
    fresh_db: Clone, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("scoped", "write"):
        monkeypatch.setattr(Database, name, seeing_more(getattr(Database, name)))

    assert await caught(fresh_db) == "rows of another scope key changed"


async def test_control_a_session_that_is_not_closed_is_seen(fresh_db: Clone, monkeypatch: pytest.MonkeyPatch) -> None:
    async def leave_it(*_: Any) -> None:
        """Ends nothing."""

    monkeypatch.setattr(close_refinement, "finish", leave_it)

    assert await caught(fresh_db) == "no reason"


@pytest.mark.parametrize("reason", ["merge", "protect"])
async def test_control_what_is_left_out_of_the_undoing_is_seen(
    fresh_db: Clone, monkeypatch: pytest.MonkeyPatch, reason: str
) -> None:
    fewer = f"{refinements._SQL['operations'].removesuffix(';')} and h.reason <> '{reason}'"
    monkeypatch.setattr(refinements, "_SQL", {**refinements._SQL, "operations": fewer})

    assert await caught(fresh_db) in ("not as before", "something new stayed", "a relation stayed")
