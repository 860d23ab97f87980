"""Governance as methods of `Mnemic` and `Administration`: each reaches its operation, and says what it cannot use."""

import uuid
from collections.abc import Awaitable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from mnemic import Administration, Identity, Mnemic
from mnemic.state.errors import InvalidInputError, UnknownOperationError
from mnemic.storage.database import Database
from tests.support.rollbacks import ANA, forgotten, saved

BEES, BOAT = "Ana keeps bees.", "Ana has a boat."
UNKNOWN = uuid.UUID(int=1)
NOBODY = Identity(agent_id="harbor")


@pytest.mark.parametrize("face", ["Mnemic", "Administration"])
async def test_the_same_methods_roll_back_for_a_person_and_an_administrator(
    memory: Mnemic, administration: Administration, db: Database, face: str
) -> None:
    machine: Any = memory if face == "Mnemic" else administration
    whose = ANA if face == "Mnemic" else "harbor"

    async def living() -> set[str]:
        return {one.content for one in await memory.memories(ANA.model_copy(update={"role": "owner"}))}

    began = datetime.now(UTC) - timedelta(minutes=1)
    (bees,) = await saved(db, BEES)
    await forgotten(db, bees)
    await saved(db, BOAT)
    stored, forgot, first = (one.op_id for one in await machine.operations(whose))
    assert (
        await machine.operations(whose, session_id="s1", since=began, limit=1) == (await machine.operations(whose))[:1]
    )

    assert (await machine.undo(whose, forgot, dry_run=True)).op_id is None
    assert await living() == {BOAT}
    undone = await machine.undo(whose, str(forgot))
    assert await living() == {BEES, BOAT}
    await machine.undo(whose, undone.op_id, stored)
    assert await living() == set()
    await machine.restore(whose, "user:ana", 3)
    assert await living() == {BOAT}
    await machine.undo(whose, first, cascade=True, skip_erased=True)
    assert await living() == {BOAT}
    await machine.undo_session(whose, "s1", began, cascade=True)
    assert await living() == set()
    assert [one.id for one in await machine.as_of(whose, "user:ana", 1)] == [bees.id]
    with pytest.raises(UnknownOperationError):
        await machine.undo_refinement(whose, UNKNOWN)


NO_MOMENTS = [True, "2026-03-02T09:14:00Z", "1", datetime(2026, 3, 2, 9), 0.5, 1.0, -1, 2**63, None]  # noqa: DTZ001
NO_IDS: list[Any] = [(), ("no id",), (UNKNOWN, 5), ([UNKNOWN],), (None,), ({"a": 1},)]


async def test_what_cannot_be_used_is_told_by_the_arguments_name(
    memory: Mnemic, administration: Administration
) -> None:
    acts: list[tuple[str, Awaitable[object]]] = [
        (name, act)
        for moment in NO_MOMENTS
        for name, act in (
            ("moment", memory.restore(ANA, "user:ana", moment)),  # type: ignore[arg-type]
            ("moment", memory.as_of(ANA, "user:ana", moment)),  # type: ignore[arg-type]
            ("moment", administration.restore("harbor", "user:ana", moment)),  # type: ignore[arg-type]
            ("moment", administration.as_of("harbor", "user:ana", moment)),  # type: ignore[arg-type]
        )
    ]
    acts += [
        (name, act)
        for ids in NO_IDS
        for name, act in (
            ("op_ids", memory.undo(ANA, *ids)),
            ("op_ids", administration.undo("harbor", *ids)),
            ("memory_ids", memory.erase(ANA, *ids)),
        )
    ]
    acts += [
        ("user_id", act)
        for act in (
            memory.operations(NOBODY),
            memory.undo(NOBODY, UNKNOWN),
            memory.undo_session(NOBODY, "s1", datetime.now(UTC)),
            memory.restore(NOBODY, "user:ana", 0),
            memory.erase(NOBODY, UNKNOWN),
            memory.erase_person(NOBODY),
            memory.erase_person(Identity(agent_id="harbor", session_id="s1")),
        )
    ]
    for name, act in acts:
        with pytest.raises(InvalidInputError) as refused:
            await act
        assert str(refused.value).startswith(f"{name}: ")


async def test_no_tool_of_any_role_reaches_it(memory: Mnemic) -> None:
    roles = ["supervisor", "planner", "stylist", "researcher", "executor"]
    names = {tool.name for role in roles for tool in memory.tools(role)}
    assert names == {"memory_query", "remember", "remember_procedure", "forget"}
