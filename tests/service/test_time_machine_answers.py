"""What a rollback's answer names: the operation that was done, if one was, and operations as a whole."""

import uuid

import psycopg
import pytest

from mnemic import Administration, Mnemic
from mnemic.operations.run.resources import Resources
from mnemic.state.errors import RollbackRefusedError, UnknownOperationError
from tests.support.rollbacks import ANA, forgotten, op_ids, saved

BEES = "Ana keeps bees."
UNKNOWN = uuid.UUID(int=1)


async def test_one_unknown_operation_among_several_is_refused(
    memory: Mnemic, resources: Resources, superuser: psycopg.Connection
) -> None:
    await saved(resources.database, BEES)
    with pytest.raises(UnknownOperationError):
        await memory.undo(ANA, *op_ids(superuser), UNKNOWN)


async def test_a_refusal_names_no_operation_of_its_own(
    memory: Mnemic, resources: Resources, superuser: psycopg.Connection
) -> None:
    (bees,) = await saved(resources.database, BEES)
    await forgotten(resources.database, bees)
    with pytest.raises(RollbackRefusedError) as refused:
        await memory.undo(ANA, op_ids(superuser)[0])
    assert refused.value.rollback.op_id is None


async def test_a_rollback_that_changes_nothing_names_no_operation(memory: Mnemic, resources: Resources) -> None:
    await saved(resources.database, BEES)
    assert (await memory.restore(ANA, "user:ana", 1)).op_id is None


async def test_an_operation_that_a_moment_divides_is_told_whole(
    administration: Administration, resources: Resources
) -> None:
    for text in ("Ana keeps bees.", "Ana has a boat."):
        await saved(resources.database, text)
    done = await administration.restore("harbor", "user:ana", 0)
    newest, *_ = await administration.operations("harbor")
    assert newest.op_id == done.op_id
    assert await administration.operations("harbor", since=newest.ts) == [newest]
