"""The first lines of a context: what changed since the session was told last, and how that is acknowledged."""

import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any
from uuid import UUID

import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnemic.operations.explicit.forget import forget
from mnemic.operations.explicit.remember import remember as remember_fact
from mnemic.operations.explicit.remember import remember_procedure
from mnemic.operations.run.resources import Resources
from mnemic.prompts.memory_context import PREAMBLE, render_context
from mnemic.service.memory import Mnemic
from mnemic.state.errors import InvalidInputError
from mnemic.state.formation import ProcedureRequest, RememberRequest
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

Statements = Callable[[Database], AbstractContextManager[list[str]]]

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


async def test_three_bullets_at_most_and_the_rest_is_counted(service: Mnemic, resources: Resources) -> None:
    await told(service)
    importance = {7: 4, 11: 5, 30: 3}
    await remember(resources.database, THERE, *(fact(f"Fact {n}.", importance=importance.get(n, 2)) for n in range(40)))
    recalled = await told(service)

    assert header(recalled) == [
        "Memory updates since rev 0 (3 of 40):",
        "- +created: [Goals] Fact 11.",
        "- +created: [Goals] Fact 7.",
        "- +created: [Goals] Fact 30.",
    ]
    assert len(recalled["updates"]) == 40


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


async def test_what_an_agent_does_by_its_tools_is_told_to_other_sessions_alone(
    service: Mnemic, resources: Resources
) -> None:
    for who in (HERE, THERE):
        await told(service, who)
    kept = await remember_fact(resources, HERE, RememberRequest(content=BEES, category="goals"))
    steps = ProcedureRequest(title="How Ana opens the quay", steps=("Unlock the gate.", "Raise the flag."))
    await remember_procedure(resources, HERE, steps)
    own, others = await told(service, HERE), await told(service, THERE)
    assert (own["updates"], header(own), own["revision"]) == ([], [], others["revision"])
    assert header(others)[1:] == [f"- +created: [Goals] {BEES}"]  # a supervisor reads no procedures

    assert kept.id
    assert await forget(resources, HERE, kept.id)
    assert header(await told(service, HERE)) == []
    assert header(await told(service, THERE))[1:] == [f"- ~soft-deleted: [Goals] {BEES}"]


async def test_what_is_not_acknowledged_is_told_again(service: Mnemic, resources: Resources) -> None:
    await told(service)
    await remember(resources.database, THERE, fact(BEES))
    first = await service.recall(HERE)
    await service.observe(HERE, turns("Good morning."))
    await remember(resources.database, THERE, fact("Ana rows."))
    second = await service.recall(HERE)

    assert (len(header(first)), len(header(second))) == (2, 3)
    await service.observe(HERE, turns("Good evening."), revision=first["revision"])
    third = await told(service)
    assert header(third)[1:] == ["- +created: [Goals] Ana rows."]


async def test_a_session_that_begins_is_told_of_nothing_that_was_before(service: Mnemic, resources: Resources) -> None:
    await remember(resources.database, THERE, fact(BEES))
    first = await told(service)
    await remember(resources.database, THERE, fact("Ana rows."))

    assert (header(first), first["revision"], first["updates"]) == ([], 1, [])
    assert header(await told(service))[1:] == ["- +created: [Goals] Ana rows."]


# -- who is told


@pytest.mark.parametrize(
    ("role", "lines"),
    [
        ("supervisor", {"[Goals] A goal.", "[Tone] A tone.", "[Profile] A text."}),
        ("planner", {"[Goals] A goal."}),
        ("stylist", {"[Tone] A tone."}),
        ("executor", set()),
    ],
)
async def test_a_role_is_told_of_what_it_may_read(
    service: Mnemic, resources: Resources, role: str, lines: set[str]
) -> None:
    who = HERE.model_copy(update={"role": role})
    await told(service, who)
    new = [fact("A goal."), fact("A tone.", category="tone"), memory("A text.", kind="consolidation")]
    await remember(resources.database, THERE, *new)
    recalled = await told(service, who)

    assert {line.removeprefix("- +created: ") for line in header(recalled)[1:]} == lines
    assert len(recalled["updates"]) == len(lines)


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


async def test_without_a_session_nothing_is_asked_and_nothing_told(
    service: Mnemic, resources: Resources, statements: Statements
) -> None:
    await remember(resources.database, THERE, fact(BEES))
    with statements(resources.database) as sent:
        recalled = await service.recall(identity("ana"))

    assert (recalled["revision"], recalled["updates"], header(recalled)) == (None, [], [])
    assert not any("thread_revisions" in statement for statement in sent)


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


async def test_it_is_one_statement_of_a_recall_and_one_of_an_observation(
    clean_db: Clone, model: LoopbackModel, statements: Statements
) -> None:
    async with scripted_resources(clean_db, model, pool_size=1) as resources:
        service = Mnemic(resources)
        await told(service)
        await remember(resources.database, THERE, fact(BEES))
        with statements(resources.database) as recalling:
            revision = (await service.recall(HERE))["revision"]
        with statements(resources.database) as observing:
            await service.observe(HERE, turns("Hello."), revision=revision)

    assert (len(recalling), len(observing)) == (4, 5)
    assert sum("thread_revisions" in statement for statement in recalling) == 1
    assert sum("insert into thread_revisions" in statement for statement in observing) == 1


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
