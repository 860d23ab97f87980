"""The first lines of a context: what changed since the session was told last, and how that is acknowledged."""

import xml.etree.ElementTree as ElementTree
from collections.abc import Sequence
from dataclasses import replace
from typing import Any
from uuid import UUID

import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnemic.operations.run.resources import Resources
from mnemic.prompts.memory_context import PREAMBLE, render_context
from mnemic.service.memory import Mnemic
from mnemic.state.errors import InvalidInputError
from mnemic.state.graphs import RecallOutput
from mnemic.state.identity import Identity
from mnemic.state.query import Bullet, Delta
from mnemic.state.records import NewMemory, Supersession
from mnemic.storage import memories
from mnemic.storage.database import Database
from mnemic.storage.transaction import ScopedTransaction
from tests.support.loopback import LoopbackModel
from tests.support.scripted import (
    REFLECTIONS,
    reflection,
    reflections,
    say,
    scripted_memory,
    scripted_resources,
    turns,
)
from tests.support.server import Clone
from tests.support.worlds import MORNING, identity, memory, operate, remember

HERE = identity("ana", session="here")
THERE = identity("ana", session="there")
BEES = "Ana keeps bees on the north quay."


@pytest.fixture
def service(resources: Resources) -> Mnemic:
    return Mnemic(resources)


async def told(service: Mnemic, who: Identity = HERE) -> RecallOutput:
    """A turn: what the context said, acknowledged."""
    recalled = await service.recall(who)
    await service.observe(who, [], revision=recalled["revision"])
    return recalled


def header(recalled: RecallOutput) -> list[str]:
    lines = recalled["context"].splitlines()
    if "<Updates" not in recalled["context"]:
        return []
    assert lines[:2] == ["<MemoryContext>", PREAMBLE]
    assert lines[2].startswith("<Updates since=")
    return lines[3 : lines.index("</Updates>")]


def fact(content: str, *, importance: int = 3, category: str = "goals", key: str = "user:ana") -> NewMemory:
    return replace(memory(content, key=key), importance=importance, category=category)


async def set_state(db: Database, who: Identity, memory_id: UUID, state: str) -> None:
    async def act(scoped: ScopedTransaction) -> None:
        values = {"id": memory_id, "state": state}
        await scoped.execute(
            "update memories set state = %(state)s where agent_id = %(agent_id)s and id = %(id)s", values
        )

    await operate(db, who, act)


async def test_the_header_is_the_contexts_first_lines_and_is_told_once(service: Mnemic, resources: Resources) -> None:
    await told(service)
    bees, row = fact(BEES), fact("Ana means to row to Ryd.", importance=5)
    await remember(resources.database, THERE, bees, row)
    recalled = await told(service)

    assert recalled["context"].splitlines()[2] == '<Updates since="0">'
    assert header(recalled) == [
        "Memory updates since rev 0:",
        "- +created: [Goals] Ana means to row to Ryd.",
        f"- +created: [Goals] {BEES}",
    ]
    assert recalled["updates"] == [  # without a text
        {"seq": seq, "event": "ADD", "sign": "+created", "memory_id": str(new.id)}
        for seq, new in enumerate(sorted((bees, row), key=lambda new: new.id), start=1)
    ]
    again = await told(service)
    assert (header(again), again["updates"], again["revision"]) == ([], [], 2)


async def test_each_kind_of_change_has_its_line(service: Mnemic, resources: Resources) -> None:
    database = resources.database
    old, gone, back = fact("Ana moors at quay 3."), fact("Ana sails alone.", category="activity"), fact("Ana rows.")
    erased = fact("Ana was ill.", category="recent_activity")
    whole = memory("Ana is brief.", kind="consolidation")
    thoughts = [memory(f"Thought {n}.", kind="reflection") for n in range(2)]
    await remember(database, THERE, old, gone, back, erased, whole, *thoughts)
    await set_state(database, THERE, back.id, "soft_deleted")
    await told(service)

    lines = []
    new = fact("Ana moors at quay 7.")
    await remember(database, THERE, new)
    closing = Supersession(old_id=old.id, old_version=1, new_id=new.id)
    await operate(database, THERE, lambda scoped: memories.supersede(scoped, [(closing, MORNING)]))
    lines += header(await told(service))[1:]
    for memory_id, state in ((gone.id, "soft_deleted"), (back.id, "active")):
        await set_state(database, THERE, memory_id, state)
        lines += header(await told(service))[1:]
    await service.erase(THERE, erased.id)
    lines += header(await told(service))[1:]
    await operate(
        database, THERE, lambda scoped: memories.absorb(scoped, whole.id, [thought.id for thought in thoughts])
    )
    lines += header(await told(service))[1:]

    assert lines == [
        "- ↑updated: [Goals] Ana moors at quay 7.",
        "- ~soft-deleted: [Activity] Ana sails alone.",
        "- ⟲restored: [Goals] Ana rows.",
        "- −deleted: [Recent activity] a memory whose words are not shown",
        "- ↔merged: [Profile] Combined 2 notes: Ana is brief.",
    ]


async def test_what_the_sessions_own_formation_made_is_told(service: Mnemic, model: LoopbackModel) -> None:
    await told(service)
    model.answer(REFLECTIONS, reflections(user=[reflection("Ana wants short answers.")]))
    await say(service, HERE, "Be short.")

    assert header(await told(service))[1:] == ["- +created: [Goals] Ana wants short answers."]


# -- who is told


async def test_what_one_person_was_told_is_not_kept_from_another(service: Mnemic, resources: Resources) -> None:
    bob = identity("bob", session="here")
    await told(service)
    await told(service, bob)
    await remember(resources.database, THERE, fact("Ana means to row to Ryd."))
    await remember(resources.database, identity("bob", session="x"), fact("Bob means to swim.", key="user:bob"))

    assert "swim" in (await told(service, bob))["context"]
    shown = (await told(service))["context"]
    assert ("Ryd" in shown, "swim" in shown) == (True, False)
    assert (await told(service))["updates"] == []


async def test_nor_what_one_role_was_told_from_another(service: Mnemic, resources: Resources) -> None:
    planner = HERE.model_copy(update={"role": "planner"})
    await told(service)
    await told(service, planner)
    await remember(resources.database, THERE, fact("Ana knows knots.", category="knowledge"))
    await remember(resources.database, THERE, fact("Ana means to swim."))

    shown = (await told(service, planner))["context"]
    assert ("swim" in shown, "knots" in shown) == (True, False)
    assert "knots" in (await told(service))["context"]


async def test_who_joins_a_group_is_not_told_its_history_as_news(service: Mnemic, resources: Resources) -> None:
    await told(service)
    crew = [fact(f"The crew means to build boat {number}.", key="group:crew") for number in range(5)]
    await remember(resources.database, identity("carl", session="y", groups=["crew"]), *crew)
    await told(service)

    member = identity("ana", session="here", groups=["crew"])
    assert (await told(service, member))["updates"] == []
    await remember(resources.database, member, fact("The crew means to sail.", key="group:crew"))
    assert "sail" in (await told(service, member))["context"]


async def test_with_both_halves_off_nothing_is_told(clean_db: Clone, model: LoopbackModel) -> None:
    async with scripted_resources(clean_db, model) as resources:
        await told(Mnemic(resources))
        await remember(resources.database, THERE, fact(BEES))
    async with scripted_memory(clean_db, model, always_in_context=False, rag=False) as off:
        recalled = await off.recall(HERE)
        assert (recalled["revision"], recalled["updates"], recalled["context"]) == (None, [], "")
    async with scripted_memory(clean_db, model, always_in_context=False) as half:
        assert len(header(await half.recall(HERE))) == 2


# -- what it costs, and what it writes


@pytest.mark.parametrize("revision", [-1, 2, 2**63, 2**70, True, 1.0, "1", [1]])
async def test_a_revision_that_cannot_be_one_is_refused_and_nothing_is_stored(
    service: Mnemic, resources: Resources, superuser: psycopg.Connection, revision: Any
) -> None:
    await remember(resources.database, THERE, fact(BEES))
    with pytest.raises(InvalidInputError):
        await service.observe(HERE, turns("Hello."), revision=revision)

    for table in ("sessions", "messages", "thread_revisions"):
        assert superuser.execute(f"select count(*) from mnemic.{table}").fetchone() == (0,)


# -- how it is written down


def updates_of(bullets: Sequence[Bullet]) -> Delta:
    return Delta(since=7, bullets=tuple(bullets), total=len(bullets))


any_text = st.text(st.characters(categories=["L", "N", "P", "S", "Zs"], include_characters="\n"), min_size=1)


@given(text=any_text, category=any_text)
def test_any_text_stays_on_the_line_of_its_bullet(text: str, category: str) -> None:
    bullet = Bullet(sign="+created", category=category, text=text)
    context = render_context([], [], names={}, delta=updates_of([bullet]))

    (element,) = ElementTree.fromstring(context)
    assert (element.tag, element.attrib) == ("Updates", {"since": "7"})
    assert len((element.text or "").strip().splitlines()) == 2


@pytest.mark.parametrize(("combined", "text"), [(1, "Combined 1 note: x"), (12, "Combined 12 notes: x")])
def test_merged_notes_are_counted(combined: int, text: str) -> None:
    bullet = Bullet(sign="↔merged", category="recent_activity", text="x", combined=combined)

    assert f"- ↔merged: [Recent activity] {text}" in render_context([], [], names={}, delta=updates_of([bullet]))
    silent = replace(bullet, text="")
    assert text.partition(":")[0] + "\n" in render_context([], [], names={}, delta=updates_of([silent]))
