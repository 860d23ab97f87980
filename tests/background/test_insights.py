"""Insights: at most three about an active user, at most once in 24 hours, kept with that user."""

from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest

from mnemic import Mnemic
from mnemic.memory.background.insights import draw_insights
from mnemic.memory.background.propagation import propagate
from mnemic.prompts.background.insights import InsightDraft, InsightsOutput
from mnemic.prompts.background.propagate import PropagateOutput
from mnemic.state.background import Target
from mnemic.state.errors import CategoryRefusedError, ModelOutputError
from mnemic.storage.background import due_targets
from tests.support.loopback import LoopbackModel
from tests.support.scripted import (
    FACTS,
    asked,
    contents,
    fact,
    facts,
    last_prompt,
    say,
    scripted_memory,
)
from tests.support.server import Clone
from tests.support.worlds import identity

INSIGHTS = InsightsOutput.__name__
ANA = identity("ana", session="s1", groups=["crew"])
TARGET = Target("harbor", "user:ana")
TRUST = "Ana trusts an answer more once its mistake is admitted."


def insight(summary: str, **given: Any) -> InsightDraft:
    return InsightDraft(summary=summary, **{"tags": ["trust"], "importance": 2, **given})


def insights(*drafts: InsightDraft) -> InsightsOutput:
    return InsightsOutput(insights=list(drafts))


async def active(memory: Mnemic, model: LoopbackModel, *said: str) -> None:
    """A session of Ana's with a new fact."""
    model.answer(FACTS, facts(fact("Ana mends sails.")))
    await say(memory, ANA, *(said or ("I mend sails.",)), *["assistant: ok"] * 3)


def advance(superuser: psycopg.Connection, hours: int) -> None:
    """Let the last insights have been drawn so much earlier, before what is known."""
    superuser.execute("update mnemic.scopes set insights_at = insights_at - make_interval(hours => %s)", (hours,))


async def due(memory: Mnemic) -> list[Target]:
    database = memory.resources.database
    return await due_targets(database, "due_insights", 10, now=datetime.now(UTC) + timedelta(seconds=5), default=True)


async def test_insights_are_drawn_once_in_24_hours_if_something_is_new(
    memory: Mnemic, model: LoopbackModel, superuser: psycopg.Connection
) -> None:
    model.answer(INSIGHTS, insights(insight(TRUST)))
    await active(memory, model)
    assert await due(memory) == [TARGET]
    await draw_insights(memory.resources, TARGET)

    (kept,) = await memory.memories(ANA, ["insight"])
    assert (kept.content, kept.scope_key, kept.category) == (TRUST, "user:ana", "relationship_dynamic")
    assert (kept.importance, kept.pinned, kept.tags, kept.provenance) == (2, False, ["trust"], "inferred")
    requests = len(model.chat_requests)
    await draw_insights(memory.resources, TARGET)
    assert await due(memory) == []
    assert len(model.chat_requests) == requests

    advance(superuser, 23)
    await draw_insights(memory.resources, TARGET)
    assert await due(memory) == []
    advance(superuser, 2)
    assert await due(memory) == [TARGET]
    await draw_insights(memory.resources, TARGET)
    assert asked(model).count(INSIGHTS) == 2
    assert len(await memory.memories(ANA, ["insight"])) == 1  # the same sentence is kept once


async def test_an_empty_answer_counts_for_the_day(
    memory: Mnemic, model: LoopbackModel, superuser: psycopg.Connection
) -> None:
    model.answer(INSIGHTS, insights())
    await active(memory, model)
    await draw_insights(memory.resources, TARGET)
    assert await due(memory) == []
    await draw_insights(memory.resources, TARGET)
    assert asked(model).count(INSIGHTS) == 1
    assert await contents(memory, ANA, "insight") == []


async def test_what_the_model_is_shown_is_bounded_and_what_it_writes_is_checked(
    memory: Mnemic, model: LoopbackModel
) -> None:
    drafts = [
        insight("I think that you are sad."),
        insight(f"Ana {'really ' * 60}likes long sentences."),
        insight(TRUST, importance=99, tags=["a", "b", "c", "d", "x" * 99]),
        insight("Ana is the fourth."),
    ]
    model.answer(INSIGHTS, insights(*drafts))
    await active(
        memory, model, *(f"I mend sails, and this is sail number {number} of a hundred." for number in range(60))
    )
    await draw_insights(memory.resources, TARGET)

    (kept,) = await memory.memories(ANA, ["insight"])
    assert (kept.content, kept.importance, kept.tags) == (TRUST, 5, ["a", "b", "c"])
    said = last_prompt(model, INSIGHTS).partition("<said>\n")[2].partition("</said>")[0]
    assert 0 < len(said.strip()) <= 1000


async def test_an_unreadable_answer_stores_nothing_and_is_tried_again(memory: Mnemic, model: LoopbackModel) -> None:
    model.answer(INSIGHTS, "She is happy.")
    await active(memory, model)
    with pytest.raises(ModelOutputError):
        await draw_insights(memory.resources, TARGET)
    assert await due(memory) == [TARGET]


async def test_insights_are_shared_with_no_group_and_read_by_no_other_role(
    memory: Mnemic, model: LoopbackModel
) -> None:
    model.answer(INSIGHTS, insights(insight(TRUST)))
    model.answer(PropagateOutput.__name__, PropagateOutput(numbers=[1, 2, 3]))
    await active(memory, model, "I mend sails.", TRUST)
    await draw_insights(memory.resources, TARGET)
    await propagate(memory.resources, TARGET)
    assert await contents(memory, identity("bo", groups=["crew"]), "insight") == []
    for role in ("planner", "stylist", "researcher", "executor"):
        with pytest.raises(CategoryRefusedError):
            await memory.query(ANA.model_copy(update={"role": role}), TRUST, categories=["relationship_dynamic"])


async def test_insights_are_not_drawn_if_disabled_or_without_a_model(
    clean_db: Clone, memory: Mnemic, model: LoopbackModel
) -> None:
    await active(memory, model)
    await memory.admin.configure_agent(ANA, insights=False)
    assert await due(memory) == []
    await draw_insights(memory.resources, TARGET)
    await memory.admin.configure_agent(ANA, insights=True)
    async with scripted_memory(clean_db, model, fast_model="offline", slow_model="offline") as offline:
        await draw_insights(offline.resources, TARGET)
    assert INSIGHTS not in asked(model)


@pytest.mark.parametrize("what", ["fact", "message", "person", "insight"])
async def test_an_insight_goes_with_what_it_was_drawn_from(
    memory: Mnemic, model: LoopbackModel, superuser: psycopg.Connection, what: str
) -> None:
    model.answer(INSIGHTS, insights(insight(TRUST)))
    await active(memory, model)
    await draw_insights(memory.resources, TARGET)
    advance(superuser, 25)
    model.answer(INSIGHTS, insights(insight("Ana likes to be asked first.")))
    await draw_insights(memory.resources, TARGET)
    assert len(await contents(memory, ANA, "insight")) == 2
    first = next(row for row in await memory.memories(ANA, ["insight"]) if row.content == TRUST)
    (mended,) = await memory.memories(ANA, ["fact"])
    (said,) = [row for row in await memory.privacy.messages(ANA) if row.user_id == "ana"]
    if what == "person":
        await memory.privacy.erase_person(ANA)
    else:
        await memory.privacy.erase(ANA, {"fact": mended.id, "message": said.id, "insight": first.id}[what])
    assert await contents(memory, ANA, "insight") == []
