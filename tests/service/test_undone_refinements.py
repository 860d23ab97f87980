"""A refinement undone as a whole: by the person or an administrator, with what it protected."""

import uuid
from typing import Any
from uuid import UUID

import psycopg
import pytest

from mnemic import Administration, Mnemic
from mnemic.operations.governance import rollback
from mnemic.operations.governance.actor import Actor
from mnemic.state.errors import RollbackConflictError, UnknownOperationError
from mnemic.state.governance import RollbackOptions
from tests.support.loopback import LoopbackModel
from tests.support.played_refinements import BOTH, ENGLISH, SHORT, refined
from tests.support.rollbacks import ANA, everything, states, undo
from tests.support.worlds import identity

OPTIONS, DRY = RollbackOptions(), RollbackOptions(dry_run=True)


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
    actor: Actor, memory: Mnemic, model: LoopbackModel, superuser: psycopg.Connection
) -> None:
    refinement_id = await merged(memory, model)
    before = everything(superuser)
    planned = await rollback.undo_refinement(actor, refinement_id, DRY)
    assert (planned.op_id, len(planned.changes)) == (None, 4)
    assert everything(superuser) == before

    undone = await rollback.undo_refinement(actor, refinement_id, OPTIONS)
    assert undone.op_id is not None
    assert living(superuser) == {SHORT, ENGLISH}
    await undo(actor, undone.op_id)
    assert living(superuser) == {BOTH, "journal"}


async def test_what_it_protected_an_administrator_alone_undoes(
    actor: Actor, memory: Mnemic, model: LoopbackModel, superuser: psycopg.Connection
) -> None:
    refinement_id = await merged(memory, model, protects=True)
    before = everything(superuser)
    if actor.administers:
        await rollback.undo_refinement(actor, refinement_id, OPTIONS)
        assert living(superuser) == {SHORT, ENGLISH}
    else:
        with pytest.raises(RollbackConflictError):
            await rollback.undo_refinement(actor, refinement_id, OPTIONS)
        assert everything(superuser) == before


async def test_an_unknown_one_and_somebody_elses_are_refused(
    memory: Mnemic, administration: Administration, model: LoopbackModel, superuser: psycopg.Connection
) -> None:
    refinement_id = await merged(memory, model)
    before = everything(superuser)
    bo = identity("bo")
    for act in (
        memory.undo_refinement(ANA, uuid.UUID(int=1)),
        memory.undo_refinement(bo, refinement_id),
        administration.undo_refinement("harbor", uuid.UUID(int=1)),
        administration.undo_refinement("museum", refinement_id),
    ):
        with pytest.raises(UnknownOperationError):
            await act
    assert await memory.refinements(bo) == []
    assert await administration.refinements("museum") == []
    assert {name: rows for name, rows in everything(superuser).items() if name != "heads"} == {
        name: rows for name, rows in before.items() if name != "heads"
    }
    assert [one.id for one in await memory.refinements(ANA)] == [refinement_id]  # the control
    assert await administration.refinements("harbor") == await memory.refinements(ANA)
