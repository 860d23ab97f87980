"""Protection by administrators: what it keeps off a memory, who it was, and which ids it knows."""

import uuid
from typing import Any

import psycopg
import pytest

from mnemic import Administration, Mnemic
from mnemic.operations.run.resources import Resources
from mnemic.state.errors import NotForgottenError, UnknownMemoryError
from tests.support.loopback import LoopbackModel
from tests.support.played_refinements import keep, merge, play, refined
from tests.support.rollbacks import ANA, everything, forgotten, saved, states
from tests.support.server import Clone

SHORT, ENGLISH = "Ana always wants short answers.", "Ana wants answers in English."
BOTH = "Ana always wants short answers in English."


def events(superuser: psycopg.Connection) -> list[tuple[Any, ...]]:
    rows = superuser.execute(
        "select event, actor, actor_kind, reason from mnemic.history where event like '%PROTECT' order by seq"
    )
    return rows.fetchall()


async def test_it_is_set_and_lifted_and_the_audit_names_who_did(
    clean_db: Clone, resources: Resources, superuser: psycopg.Connection
) -> None:
    (bees,) = await saved(resources.database, "Ana keeps bees.")
    async with Administration.open(admin_url=clean_db.administrator_dsn, actor="keeper") as administration:
        changes = [
            await administration.protect("harbor", bees.id),
            await administration.protect("harbor", str(bees.id)),
            await administration.unprotect("harbor", bees.id),
            await administration.unprotect("harbor", bees.id),
        ]
        assert changes == [True, False, True, False]
        assert await administration.verify("harbor") == []
    assert events(superuser) == [
        ("PROTECT", "keeper", "admin", "protection"),
        ("UNPROTECT", "keeper", "admin", "protection"),
    ]


async def test_only_a_living_memory_of_the_agent_is_known(
    memory: Mnemic, administration: Administration, resources: Resources, superuser: psycopg.Connection
) -> None:
    bees, boat, kept = await saved(resources.database, "Ana keeps bees.", "Ana has a boat.", "Ana paints.")
    await forgotten(resources.database, bees)
    await memory.erase(ANA, boat.id)
    before = everything(superuser)
    for agent, memory_id in (
        ("harbor", bees.id),
        ("harbor", boat.id),
        ("museum", kept.id),
        ("harbor", uuid.UUID(int=1)),
    ):
        for act in (administration.protect, administration.unprotect):
            with pytest.raises(UnknownMemoryError, match="nothing was written"):
                await act(agent, memory_id)
    assert everything(superuser) == before
    assert await administration.protect("harbor", kept.id)  # the control


async def test_what_is_protected_no_refinement_merges(
    memory: Mnemic,
    administration: Administration,
    model: LoopbackModel,
    superuser: psycopg.Connection,
) -> None:
    short, english = await keep(memory, SHORT, ENGLISH)
    assert await administration.protect("harbor", short.id)
    _, result = await play(memory, model, merge(1, 2, into=BOTH))
    assert (result["merged"], result["memories_after"]) == (0, 2)
    with pytest.raises(NotForgottenError):
        await memory.forget(ANA, short.id)

    assert await administration.unprotect("harbor", short.id)  # the control
    _, result = await play(memory, model, merge(1, 2, into=BOTH))
    assert (result["merged"], result["memories_after"]) == (2, 1)
    assert states(superuser)[english.content] == "soft_deleted"


async def test_what_an_agent_protected_an_administrator_lifts(
    memory: Mnemic, administration: Administration, model: LoopbackModel, superuser: psycopg.Connection
) -> None:
    await refined(memory, model, SHORT, ENGLISH, into=BOTH, protects=True)
    (law,) = await memory.memories(ANA, ["core"])
    with pytest.raises(NotForgottenError):
        await memory.forget(ANA, law.id)
    assert await administration.unprotect("harbor", law.id)
    await memory.forget(ANA, law.id)
    assert [event[0] for event in events(superuser)] == ["PROTECT", "UNPROTECT"]
