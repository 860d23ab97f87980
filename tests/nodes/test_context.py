"""A context: what changed since the session was told last, how that is acknowledged, and which facts find room."""

import xml.etree.ElementTree as ElementTree
from collections.abc import Sequence
from dataclasses import asdict, replace
from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnemic.memory.recall.context import fit_facts
from mnemic.memory.runtime.resources import Resources
from mnemic.memory.text.shape import count_tokens
from mnemic.prompts.recall.memory_context import PREAMBLE, memory_line, render_turn
from mnemic.service.memory import Mnemic
from mnemic.state.identity import Identity
from mnemic.state.query import Bullet, Delta
from mnemic.state.records import Memory, ScopeContext
from mnemic.state.results import RecallResult
from tests.support.loopback import LoopbackModel
from tests.support.scripted import scripted_memory, scripted_resources
from tests.support.searching import fact
from tests.support.server import Clone
from tests.support.worlds import BEGAN, identity, remember, remembered, text_of

HERE = identity("ana", session="here")
THERE = identity("ana", session="there")
BEES = "Ana keeps bees on the north quay."


async def told(memory: Mnemic, who: Identity = HERE) -> RecallResult:
    """A turn: what the context said, acknowledged."""
    recalled = await memory.recall(who)
    await memory.observe(who, [], revision=recalled.revision)
    return recalled


def header(recalled: RecallResult) -> list[str]:
    lines = recalled.context.turn.splitlines()
    if "<Updates" not in text_of(recalled.context):
        return []
    assert lines[:2] == ["<MemoryContext>", PREAMBLE]
    assert lines[2].startswith("<Updates since=")
    return lines[3 : lines.index("</Updates>")]


async def test_the_header_is_the_turns_first_lines_and_is_told_once(memory: Mnemic, resources: Resources) -> None:
    await told(memory)
    bees, row = fact(BEES, "goals"), fact("Ana means to row to Ryd.", "goals", importance=5)
    await remember(resources.database, THERE, bees, row)
    recalled = await told(memory)

    assert recalled.context.turn.splitlines()[2] == '<Updates since="0">'
    assert header(recalled) == [
        "Memory updates since rev 0:",
        "- +created: [Goals] Ana means to row to Ryd. (imp=5)",
        f"- +created: [Goals] {BEES} (imp=2)",
    ]
    assert [asdict(change) for change in recalled.updates] == [  # without a text
        {"revision": revision, "event": "ADD", "sign": "+created", "id": new.id}
        for revision, new in enumerate(sorted((bees, row), key=lambda new: new.id), start=1)
    ]
    again = await told(memory)
    assert (header(again), again.updates, again.revision) == ([], (), 2)


# -- who is told


async def test_what_one_person_was_told_is_not_kept_from_another(memory: Mnemic, resources: Resources) -> None:
    bob = identity("bob", session="here")
    await told(memory)
    await told(memory, bob)
    await remember(resources.database, THERE, fact("Ana means to row to Ryd.", "goals"))
    await remember(
        resources.database, identity("bob", session="x"), fact("Bob means to swim.", "goals", key="user:bob")
    )

    assert "swim" in text_of((await told(memory, bob)).context)
    shown = text_of((await told(memory)).context)
    assert ("Ryd" in shown, "swim" in shown) == (True, False)
    assert (await told(memory)).updates == ()


async def test_who_joins_a_group_is_not_told_its_history_as_news(memory: Mnemic, resources: Resources) -> None:
    await told(memory)
    crew = [fact(f"The crew means to build boat {number}.", "goals", key="group:crew") for number in range(5)]
    await remember(resources.database, identity("carl", session="y", groups=["crew"]), *crew)
    await told(memory)

    member = identity("ana", session="here", groups=["crew"])
    assert (await told(memory, member)).updates == ()
    await remember(resources.database, member, fact("The crew means to sail.", "goals", key="group:crew"))
    assert "sail" in text_of((await told(memory, member)).context)


async def test_with_both_halves_off_nothing_is_told(clean_db: Clone, model: LoopbackModel) -> None:
    async with scripted_resources(clean_db, model) as resources:
        await told(Mnemic(resources))
        await remember(resources.database, THERE, fact(BEES, "goals"))
    async with scripted_memory(clean_db, model, always_in_context=False, rag=False) as off:
        recalled = await off.recall(HERE)
        assert (recalled.revision, recalled.updates, text_of(recalled.context)) == (None, (), "")
    async with scripted_memory(clean_db, model, always_in_context=False) as half:
        assert len(header(await half.recall(HERE))) == 2


# -- how it is written down


def updates_of(bullets: Sequence[Bullet]) -> Delta:
    return Delta(since=7, bullets=tuple(bullets), total=len(bullets))


any_text = st.text(st.characters(categories=["L", "N", "P", "S", "Zs"], include_characters="\n"), min_size=1)


@given(text=any_text, category=any_text)
def test_any_text_stays_on_the_line_of_its_bullet(text: str, category: str) -> None:
    bullet = Bullet(sign="+created", category=category, text=text)
    context = render_turn([], updates_of([bullet]))

    (element,) = ElementTree.fromstring(context)
    assert (element.tag, element.attrib) == ("Updates", {"since": "7"})
    assert len((element.text or "").strip().splitlines()) == 2


@pytest.mark.parametrize(("combined", "text"), [(1, "Combined 1 note: x"), (12, "Combined 12 notes: x")])
def test_merged_notes_are_counted(combined: int, text: str) -> None:
    bullet = Bullet(sign="↔merged", category="relationship_dynamic", text="x", combined=combined)

    assert f"- ↔merged: [Relationship dynamic] {text}" in render_turn([], updates_of([bullet]))
    silent = replace(bullet, text="")
    assert text.partition(":")[0] + "\n" in render_turn([], updates_of([silent]))
    erased = Bullet(sign="−deleted", category="relationship_dynamic", text="")
    line = "- −deleted: [Relationship dynamic] a memory whose words are not shown\n"
    assert line in render_turn([], updates_of([erased]))


# -- which facts stand in it


def scope_of(place: int, facts: list[tuple[str, int, int]], core: str) -> ScopeContext:
    key = f"group:{place}"
    text = remembered(core, kind="core", key=key)
    dated = [(n, draft, importance, BEGAN + timedelta(days=day)) for n, (draft, importance, day) in enumerate(facts)]
    return ScopeContext(
        scope_key=key,
        core=(text,) if core else (),
        facts=tuple(
            remembered(draft, key=key, number=100 * place + n, importance=importance, valid_from=since)
            for n, draft, importance, since in dated
        ),
    )


DRAFTS = st.lists(st.tuples(st.text(min_size=1, max_size=300), st.integers(1, 5), st.integers(0, 9)), max_size=6)


@given(scopes=st.lists(st.tuples(DRAFTS, st.text(max_size=200)), max_size=3), budget=st.integers(1, 300))
def test_facts_take_what_the_texts_leave_and_the_best_of_them_first(scopes: list[Any], budget: int) -> None:
    given_scopes = [scope_of(place, *scope) for place, scope in enumerate(scopes)]
    kept = [*fit_facts(given_scopes, budget)]

    def cost(item: Memory) -> int:
        return count_tokens(memory_line(item))

    def rank(item: Memory) -> tuple[int, datetime]:
        return item.importance, item.valid_from

    chosen = [item for part in kept for item in part.facts]
    left = budget - sum(part.tokens for part in given_scopes)
    assert sum(map(cost, chosen)) <= max(0, left)
    assert [part.texts for part in kept if part.texts] == [part.texts for part in given_scopes if part.texts]
    for part in kept:
        assert [*map(rank, part.facts)] == sorted(map(rank, part.facts), reverse=True)
    for left_out in [item for part in given_scopes for item in part.facts if item not in chosen]:
        better = [item for item in chosen if rank(item) >= rank(left_out)]
        assert sum(map(cost, better)) + cost(left_out) > left
