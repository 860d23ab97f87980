"""A refinement undone as a whole: by the person or an administrator, by method or command, with what it protected."""

import uuid
from typing import Any
from uuid import UUID

import psycopg
import pytest

from mnemic import Administration, Mnemic
from mnemic.state.errors import MnemicError, UnknownOperationError
from tests.support.loopback import LoopbackModel
from tests.support.played_refinements import refined
from tests.support.rollbacks import ANA, everything, states
from tests.support.surfaces import Surface
from tests.support.worlds import identity

SHORT, ENGLISH = "Ana always wants short answers.", "Ana wants answers in English."
BOTH = "Ana always wants short answers in English."


async def merged(memory: Mnemic, model: LoopbackModel, **how: Any) -> UUID:
    """Two core memories, and the refinement that has merged them."""
    result = await refined(memory, model, SHORT, ENGLISH, into=BOTH, **how)
    assert (result["ended"], result["merged"]) == ("completed", 2)
    return UUID(result["refinement_id"])


def living(superuser: psycopg.Connection) -> set[str]:
    """What is said, journals of refinements as such."""
    said = (text for text, state in states(superuser).items() if state == "active")
    return {"journal" if text.startswith("Refinement: ") else text for text in said}


async def test_all_of_it_is_undone_and_done_again(
    surface: Surface, memory: Mnemic, model: LoopbackModel, superuser: psycopg.Connection
) -> None:
    refinement_id = await merged(memory, model)
    assert living(superuser) == {BOTH, "journal"}
    undone = await surface.undo_refinement(refinement_id)
    assert undone.op_id is not None
    assert living(superuser) == {SHORT, ENGLISH}
    await surface.undo(undone.op_id)
    assert living(superuser) == {BOTH, "journal"}


async def test_a_dry_run_writes_nothing(
    surface: Surface, memory: Mnemic, model: LoopbackModel, superuser: psycopg.Connection
) -> None:
    refinement_id = await merged(memory, model)
    before = everything(superuser)
    planned = await surface.undo_refinement(refinement_id, dry_run=True)
    assert (planned.op_id, len(planned.changes)) == (None, 4)
    assert everything(superuser) == before


async def test_what_it_protected_an_administrator_alone_undoes(
    surface: Surface, memory: Mnemic, model: LoopbackModel, superuser: psycopg.Connection
) -> None:
    refinement_id = await merged(memory, model, protects=True)
    before = everything(superuser)
    if surface.administers:
        await surface.undo_refinement(refinement_id)
        assert living(superuser) == {SHORT, ENGLISH}
    else:
        with pytest.raises(MnemicError):
            await surface.undo_refinement(refinement_id)
        assert everything(superuser) == before


async def test_an_unknown_one_is_refused(surface: Surface, superuser: psycopg.Connection) -> None:
    before = everything(superuser)
    with pytest.raises(MnemicError) as caught:
        await surface.undo_refinement(uuid.UUID(int=1))
    assert "no such refinement" in str(caught.value)
    assert "`mnemic refinements`" in str(caught.value)
    assert everything(superuser) == before


async def test_somebody_elses_is_unknown(
    memory: Mnemic, administration: Administration, model: LoopbackModel, superuser: psycopg.Connection
) -> None:
    refinement_id = await merged(memory, model)
    before = everything(superuser)
    bo = identity("bo")
    with pytest.raises(UnknownOperationError):
        await memory.undo_refinement(bo, refinement_id)
    with pytest.raises(UnknownOperationError):
        await administration.undo_refinement("museum", refinement_id)
    assert await memory.refinements(bo) == []
    assert await administration.refinements("museum") == []
    assert {name: rows for name, rows in everything(superuser).items() if name != "heads"} == {
        name: rows for name, rows in before.items() if name != "heads"
    }
    assert [one.id for one in await memory.refinements(ANA)] == [refinement_id]  # the control
    assert await administration.refinements("harbor") == await memory.refinements(ANA)
