"""What a turn is given: the standing part always, search results where the turn calls for them, within the budget."""

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, Literal

import pytest
from psycopg.conninfo import make_conninfo

from mnemic.policy.text.tokens import count_tokens
from mnemic.prompts.memory_context import PREAMBLE
from mnemic.service.memory import Mnemic
from mnemic.state.errors import ConfigurationError, DatabaseUnavailableError, MissingIdentityError
from tests.nodes.bees import ANA, BEES, GREETING, PAST, SESSION, WISH, fill
from tests.support.loopback import LoopbackModel
from tests.support.scripted import (
    DECISIONS,
    FACTS,
    decisions,
    fact,
    facts,
    say,
    scripted_memory,
    turns,
)
from tests.support.server import Clone

NAMES = "Yesterday it was Jonas who called Sigrid about bees."


@pytest.mark.parametrize(
    ("question", "search", "reason", "embeddings"),
    [
        (GREETING, "auto", None, 0),
        ("", "auto", None, 0),
        ("", "always", None, 0),
        (PAST, "auto", "past_question", 1),
        (PAST, "never", None, 0),
        ("Do you remember my bees?", "auto", "phrase", 1),
        (GREETING, "always", "asked", 1),
        (NAMES, "auto", "names", 1),
        ("Yesterday it was Jonas who called Marit about bees.", "auto", None, 0),
    ],
)
async def test_the_words_of_the_turn_decide_on_a_search_without_a_model(
    memory: Mnemic,
    model: LoopbackModel,
    question: str,
    search: Literal["auto", "always", "never"],
    reason: str | None,
    embeddings: int,
) -> None:
    await fill(memory, model)
    context = await memory.recall(ANA, question, search=search)

    assert context["searched"] == reason
    assert (len(model.chat_requests), len(model.embedding_requests)) == (0, embeddings)
    assert (BEES in context["context"]) == (reason is not None)
    assert WISH in context["context"]


async def test_the_context_is_one_element_that_says_what_it_is(memory: Mnemic, model: LoopbackModel) -> None:
    await fill(memory, model)
    context = await memory.recall(ANA, PAST)

    lines = context["context"].splitlines()
    assert (lines[0], lines[1], lines[-1]) == ("<MemoryContext>", PREAMBLE, "</MemoryContext>")
    assert '<UserMemory user="Ana">' in lines
    assert f"- [2 March 2026] {BEES}" in lines
    assert context["tokens"] == count_tokens(context["context"])
    assert {found["content"] for found in context["memories"]} >= {BEES}


async def test_a_recall_runs_where_nothing_can_be_written(clean_db: Clone, model: LoopbackModel) -> None:
    reading = make_conninfo(clean_db.service_dsn, options="-c default_transaction_read_only=on")
    async with scripted_memory(clean_db, model) as writer:
        await fill(writer, model)
    async with scripted_memory(clean_db, model, database_url=reading) as reader:
        for question in (PAST, NAMES, GREETING):
            assert WISH in (await reader.recall(ANA, question))["context"]
        with pytest.raises(DatabaseUnavailableError, match="read-only"):  # else the test would say nothing
            await reader.observe(SESSION, turns("One more."))


@pytest.mark.parametrize("budget", [1, 40, 100, 400])
async def test_the_budget_bounds_the_retrieved_lines(memory: Mnemic, model: LoopbackModel, budget: int) -> None:
    found = [fact(f"Ana moored boat number {n} of the Lindqvist yard at quay {n * 7}.", n) for n in range(1, 9)]
    model.answer(FACTS, facts(*found))
    model.answer(DECISIONS, decisions())
    await say(memory, SESSION, *[f"Boat {n}." for n in range(1, 17)])
    context = await memory.recall(ANA, "Where are the boats?", search="always", budget_tokens=budget)

    retrieved = [line for line in context["context"].splitlines() if line.startswith("- [")]
    assert sum(map(count_tokens, retrieved)) <= budget
    assert len(retrieved) == len(context["memories"])
    # five at most, and behind them two that are related
    assert len(retrieved) == {1: 0, 40: 2, 100: 5, 400: 7}[budget]


@pytest.mark.parametrize(("switch", "standing", "search"), [("rag", True, False), ("always_in_context", False, True)])
async def test_a_half_that_is_switched_off_is_not_recalled(
    clean_db: Clone, model: LoopbackModel, switch: str, standing: bool, search: bool
) -> None:
    async with scripted_memory(clean_db, model) as memory:
        await fill(memory, model)
    async with scripted_memory(clean_db, model, **{switch: False}) as memory:
        context = (await memory.recall(ANA, PAST, search="always"))["context"]

    assert (WISH in context) == standing
    assert (BEES in context) == search


@pytest.mark.parametrize(
    "overrides", [{"rag": False}, {"always_in_context": False}, {"recall_budget_tokens": 1}, {"recall_limit": 1}]
)
async def test_an_agents_own_settings_count_for_its_recall(
    memory: Mnemic, model: LoopbackModel, overrides: dict[str, object]
) -> None:
    await memory.configure_agent(ANA, keep_messages="all")
    await fill(memory, model)
    before = await memory.recall(ANA, PAST)
    await memory.configure_agent(ANA, **overrides)

    assert (await memory.recall(ANA, PAST))["tokens"] < before["tokens"]


@dataclass(frozen=True)
class HostContext:
    """What a host application passes around; Mnemic finds its own fields in it."""

    agent_id: str
    user_id: str
    tenant: str = "blue"


@pytest.mark.parametrize(
    "context",
    [
        {"agent_id": "harbor", "user_id": "ana"},
        HostContext("harbor", "ana"),
        SimpleNamespace(agent_id="harbor", user_id="ana", group_ids=["crew"], role=None),
    ],
    ids=["dict", "dataclass", "any object"],
)
async def test_any_context_with_the_identitys_fields_will_do(
    memory: Mnemic, model: LoopbackModel, context: Any
) -> None:
    await fill(memory, model)
    result = await memory.graphs.recall.ainvoke({"question": PAST}, context=context)

    assert BEES in result["context"]


@pytest.mark.parametrize("context", [None, SimpleNamespace(user_id="ana"), "ana"])
async def test_a_run_without_an_agent_is_told_what_to_pass(memory: Mnemic, context: Any) -> None:
    graphs: list[Any] = [memory.graphs.recall, memory.graphs.formation, memory.graphs.consolidation]
    for graph in graphs:
        with pytest.raises(MissingIdentityError, match=r"context=Identity\(agent_id=\.\.\., user_id=\.\.\.\)"):
            await graph.ainvoke({"question": PAST, "force": True, "scope_key": "user:ana"}, context=context)


async def test_what_an_agent_overrides_of_its_formation_stops_no_recall(clean_db: Clone, model: LoopbackModel) -> None:
    """The operator has chosen since how memories are formed, and the old override does not fit that."""
    async with scripted_memory(clean_db, model) as memory:
        await fill(memory, model)
        await memory.configure_agent(ANA, always_in_context=False, recall_limit=2)
    async with scripted_memory(clean_db, model, extraction="single") as memory:
        context = await memory.recall(ANA, PAST)
        assert (context["degraded"], BEES in context["context"], WISH in context["context"]) == (None, True, False)
        await memory.observe(SESSION, turns("One more."))
        with pytest.raises(ConfigurationError, match="always_in_context"):
            await memory.form(SESSION)
        with pytest.raises(ConfigurationError, match="always_in_context"):
            await memory.configure_agent(ANA, always_in_context=False)
