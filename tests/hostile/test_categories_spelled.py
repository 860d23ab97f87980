"""Ten thousand spellings of categories that a role may not read: refused in code, and without that, empty in SQL."""

from collections.abc import AsyncIterator, Mapping
from types import MappingProxyType
from typing import Any

import pytest

from mnemic.operations.run.resources import Resources
from mnemic.policy.categories import Categories, load_categories
from mnemic.service.memory import Mnemic
from mnemic.state.errors import CategoryRefusedError, InvalidInputError
from mnemic.state.identity import Identity
from mnemic.state.kinds import Kind
from mnemic.state.records import IndexedText, NewMemory, Relation
from mnemic.storage import inbox
from tests.support.loopback import LoopbackModel
from tests.support.scripted import scripted_resources
from tests.support.searching import fact, know
from tests.support.server import Clone
from tests.support.spellings import spellings
from tests.support.worlds import identity, message

ANA = identity("ana", session="s1")
ROLES = ("planner", "stylist", "researcher", "executor")
EVERY = tuple(load_categories().by_name)
#: Of each category, for each role.
SPELLINGS = 140
#: Categories that one request may name.
AT_ONCE = 64
QUESTION = "What about the catalogue?"
#: They come only where their category is named.
ON_REQUEST: Mapping[str, Kind] = MappingProxyType({"procedural": "procedure", "journal": "journal"})
KINDS_OF: dict[str, Kind] = {name: ON_REQUEST.get(name, "fact") for name in EVERY if name != "message"}
#: No list of names, though programs pass them.
NO_NAMES: tuple[Any, ...] = ("tasks", [["profile"]], {"profile": 1}, [None])


def acting(role: str) -> Identity:
    return ANA.model_copy(update={"role": role})


def refused_for(role: str) -> list[str]:
    """Every category that the role may not read, as it is written, and spellings of all there are."""
    allowed = load_categories().of_role(role).categories
    own = [name for name in EVERY if name not in allowed]
    return own + [spelling for name in EVERY for spelling in spellings(name, SPELLINGS, seed=len(role))]


async def world(resources: Resources) -> Mnemic:
    """One memory of each category and a message, all about the same, and each memory related to all before it."""
    known: list[NewMemory] = []
    for name in KINDS_OF:
        relations = tuple(Relation(to_id=each.id, strength=0.9) for each in known)
        known.append(fact(f"The catalogue has {name} in it.", name, kind=KINDS_OF[name], relations=relations))
    await know(resources, ANA, *known)
    kept = message(QUESTION, session="s1")
    async with resources.database.scoped(ANA) as scoped:
        await inbox.observe(scoped, "s1", [kept])
        await inbox.index_messages(scoped, resources.embedder.name, [IndexedText(item_id=kept.id, text=kept.content)])
    return Mnemic(resources)


@pytest.fixture
async def known(resources: Resources) -> Mnemic:
    return await world(resources)


def without_the_check(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is asked for gets into the statement."""
    monkeypatch.setattr(Categories, "requested", lambda _, role, names: tuple(names))


async def test_a_role_finds_what_it_may_read_and_what_is_related_within_that_alone(known: Mnemic) -> None:
    for role in ROLES:
        allowed = load_categories().of_role(role).categories
        found = {item.category for item in await known.query(acting(role), QUESTION, top_k=100)}
        asked = {item.category for item in await known.query(acting(role), QUESTION, categories=allowed)}
        assert (found, asked) == (set(allowed) - set(ON_REQUEST), set(allowed))
        best = await known.query(acting(role), QUESTION, top_k=1)
        assert {item.category for item in best} <= set(allowed)
        assert len([item for item in best if item.related_to]) == (2 if len(found) > 2 else 0), role


async def test_every_spelling_is_refused_and_nothing_is_asked(known: Mnemic, model: LoopbackModel) -> None:
    """`Categories.requested` refuses ten thousand of them (tests/policy/test_categories.py)."""
    model.embedding_requests.clear()
    may = load_categories().of_role("planner").categories[0]
    taken = []
    for spelling in refused_for("planner")[::20]:
        for names in ([spelling], [may, spelling]):
            try:
                taken.append((names, await known.query(acting("planner"), QUESTION, categories=names)))
            except (CategoryRefusedError, InvalidInputError) as error:
                if spelling not in EVERY and spelling in str(error):
                    taken.append((names, []))  # quoted
    for no_names in NO_NAMES:
        with pytest.raises((CategoryRefusedError, InvalidInputError)):
            await known.query(acting("planner"), QUESTION, categories=no_names)
    assert taken == []
    assert model.embedding_requests == []


@pytest.mark.thorough
@pytest.mark.parametrize("role", ROLES)
async def test_without_the_check_in_code_none_of_them_brings_a_row(
    known: Mnemic, monkeypatch: pytest.MonkeyPatch, role: str
) -> None:
    without_the_check(monkeypatch)
    assert await foreign(known, role) == set()
    with pytest.raises(InvalidInputError):  # a name that no text of the database can have
        await known.query(acting(role), QUESTION, categories=["profile", "profile\x00"])


async def foreign(memory: Mnemic, role: str) -> set[str]:
    """Categories of the rows that a role gets and may not read, over all spellings."""
    names = [spelling for spelling in refused_for(role) if "\x00" not in spelling]
    found = set()
    for place in range(0, len(names), AT_ONCE):
        rows = await memory.query(acting(role), QUESTION, categories=names[place : place + AT_ONCE], top_k=100)
        found |= {row.category for row in rows}
    return found - set(load_categories().of_role(role).categories)


# -- controls: without the check and without the policy, the same requests bring others' categories


@pytest.fixture
async def unguarded(fresh_db: Clone, model: LoopbackModel) -> AsyncIterator[Mnemic]:
    """The service on a database whose policies know no categories; they are changed once it has been checked."""
    async with scripted_resources(fresh_db, model) as resources:
        with fresh_db.as_superuser() as connection:
            for table in ("entries", "memories", "messages"):
                connection.execute(
                    f"alter policy service on mnemic.{table} using ("
                    " agent_id = nullif(current_setting('mnemic.agent_id', true), '') and"
                    " scope_key = any (nullif(current_setting('mnemic.scope_keys', true), '')::text[]))"
                )
        yield await world(resources)


@pytest.mark.thorough
async def test_without_either_the_rows_are_there(unguarded: Mnemic, monkeypatch: pytest.MonkeyPatch) -> None:
    without_the_check(monkeypatch)
    for role in ROLES:
        assert await foreign(unguarded, role) == set(EVERY) - set(load_categories().of_role(role).categories)
    monkeypatch.undo()  # the check alone keeps them too
    with pytest.raises(CategoryRefusedError):
        await unguarded.query(acting("planner"), QUESTION, categories=["profile"])
    found = {item.category for item in await unguarded.query(acting("planner"), QUESTION, top_k=100)}
    assert found == {"goals", "tasks", "projects"}
