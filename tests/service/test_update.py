"""`update`: pinning, tags, importance and the end of a memory change, and what it says stays."""

from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import psycopg
import pytest

from mnemic import Mnemic
from mnemic.state.errors import CategoryRefusedError, InvalidInputError, NotUpdatedError
from mnemic.state.records import CANDIDATE
from tests.support.loopback import LoopbackModel
from tests.support.scripted import scripted_memory
from tests.support.server import Clone
from tests.support.worlds import AGENT, identity, memory, remember, text_of

ANA = identity(session="s1", groups=["crew"]).model_copy(update={"role": "owner"})
KEYS = ["user:ana", "group:crew", "user:bo"]
JULY = datetime(2026, 7, 1, tzinfo=UTC)


@pytest.fixture
async def service(clean_db: Clone, model: LoopbackModel) -> AsyncIterator[Mnemic]:
    async with scripted_memory(clean_db, model) as opened:
        yield opened


async def test_it_changes_what_is_given_is_audited_and_undone(service: Mnemic) -> None:
    new = memory("Ana sails to Faro.")
    await remember(service.resources.database, ANA, new)
    talking = ANA.model_copy(update={"role": "supervisor"})
    first = await service.recall(talking)
    await service.observe(talking, [{"role": "user", "content": "Hello."}], revision=first.revision)

    tagged = await service.update(ANA, new.id, tags=[" sea ", "sea", "plan"], valid_until=JULY)
    changed = await service.update(ANA, new.id, pinned=True, importance=5)

    assert (tagged.tags, tagged.pinned, tagged.importance) == (["sea", "plan"], False, 2)
    assert (changed.tags, changed.pinned, changed.importance) == (["sea", "plan"], True, 5)
    assert (changed.valid_until, changed.content) == (JULY, new.content)
    assert [event.event for event in await service.history.events(ANA, new.id)] == ["ADD", "UPDATE", "UPDATE"]
    assert "<Updates" not in text_of((await service.recall(talking)).context)  # it says what it said
    newest, *_ = await service.history.operations(ANA)
    await service.history.undo(ANA, newest.id)
    (restored,) = await service.memories(ANA)
    assert (restored.pinned, restored.importance, restored.tags) == (False, 2, ["sea", "plan"])
    assert (await service.update(ANA, new.id, tags=[])).tags == []


async def test_what_may_not_be_changed_is_refused(service: Mnemic, superuser: psycopg.Connection) -> None:
    hers, protected, gone = (memory(f"Ana sails to {place}.") for place in ("Faro", "Sines", "Lagos"))
    shared, his = memory("The crew sails.", key="group:crew"), memory("Bo rows.", key="user:bo")
    await remember(service.resources.database, ANA, hers, protected, gone, shared, his, also=KEYS)
    superuser.execute("select mnemic.set_protection(%s, %s, true, 'keeper')", (AGENT, protected.id))
    await service.forget(ANA, gone.id)

    for new in (protected, gone, shared):
        with pytest.raises(NotUpdatedError):
            await service.update(ANA, new.id, pinned=True)
    for unknown in (his.id, uuid4()):
        with pytest.raises(InvalidInputError, match="no memory"):
            await service.update(ANA, unknown, pinned=True)
    wrong: list[dict[str, Any]] = [
        {},
        {"importance": 6},
        {"tags": "sea"},
        {"tags": [""]},
        {"tags": [CANDIDATE]},
        {"tags": ["a"] * 21},
        {"valid_until": datetime(2026, 7, 1)},  # noqa: DTZ001 - what is refused
    ]
    for values in wrong:
        with pytest.raises(InvalidInputError):
            await service.update(ANA, hers.id, **values)
    with pytest.raises(CategoryRefusedError):
        await service.update(ANA.model_copy(update={"role": "stranger"}), hers.id, pinned=True)
    assert not any(event.event == "UPDATE" for event in await service.history.events(ANA, hers.id))

    teacher = ANA.model_copy(update={"teaches_agent": True})
    assert (await service.update(teacher, shared.id, pinned=True)).pinned


async def test_the_mark_of_what_may_be_shared_later_stays(service: Mnemic) -> None:
    marked = replace(memory("Ana sails to Faro."), tags=(CANDIDATE,))
    await remember(service.resources.database, ANA, marked)

    assert (await service.update(ANA, marked.id, tags=["sea"])).tags == ["sea", CANDIDATE]
