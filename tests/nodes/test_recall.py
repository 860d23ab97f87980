"""What a turn is given: the standing part and facts in it, search results where it calls for them, in the budget."""

import re
from datetime import datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnemic.operations.recall import fit_facts
from mnemic.policy.text.shape import count_tokens
from mnemic.prompts.memory_context import PREAMBLE, memory_line
from mnemic.service.memory import Mnemic
from mnemic.state.errors import CategoryRefusedError, ConfigurationError, MissingIdentityError
from mnemic.state.records import Memory, Standing
from tests.nodes.bees import ANA, BEES, GREETING, PAST, SESSION, WISH, fill
from tests.support.loopback import LoopbackModel
from tests.support.scripted import (
    DECISIONS,
    FACTS,
    REFLECTIONS,
    decisions,
    fact,
    facts,
    reflection,
    reflections,
    say,
    scripted_memory,
    turns,
)
from tests.support.server import Clone
from tests.support.worlds import BEGAN, remembered

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


SHORT = "Ana wants short answers."
BORN = "Ana was born in Sintra."
NAMED = "Ana is called Anita by Sigrid and Jonas."
PROJECT = "Ana mends the bell of the north quay."
WHERE = "Where did Ana mend the bell, and where was Ana born?"


async def introduce(memory: Mnemic, model: LoopbackModel) -> None:
    born, named = (fact(text, category="profile", importance=rank) for text, rank in ((BORN, 3), (NAMED, 4)))
    model.answer(FACTS, facts(born, named, fact(PROJECT)))
    model.answer(REFLECTIONS, reflections(user=[reflection(SHORT)]))
    said = ["I was born in Sintra, Sigrid and Jonas call me Anita.", "I mend the bell of the north quay."]
    await say(memory, SESSION, *said, "assistant: I see.", *["And so on."] * 4)


def lines_of(context: str, element: str) -> list[str]:
    found = re.search(rf"<{element}>\n(.*?)\n</{element}>", context, re.DOTALL)
    return found[1].splitlines() if found else []


def custom(tmp_path: Path, text: str) -> dict[str, Path]:
    file = tmp_path / "categories.yaml"
    file.write_text(text, encoding="utf-8")
    return {"categories_file": file}


async def test_profile_facts_stand_in_their_scopes_element_the_most_important_first(
    memory: Mnemic, model: LoopbackModel
) -> None:
    await introduce(memory, model)
    context = (await memory.recall(ANA, "Good morning.", search="never"))["context"]

    assert lines_of(context, "Facts") == [f"- [2 March 2026] {NAMED}", f"- [2 March 2026] {BORN}"]
    inside = context[context.index("<UserMemory") : context.index("</UserMemory>")]
    assert BORN in inside
    assert PROJECT not in context
    assert lines_of(context, "Recent") == [f"- [2 March 2026] {SHORT}"]


async def test_facts_that_stand_there_take_no_other_results_place(clean_db: Clone, model: LoopbackModel) -> None:
    model.answer(DECISIONS, decisions())
    model.answer(FACTS, facts(*(fact(f"Ana has moored boat {n} at quay 9.", category="profile") for n in range(1, 4))))
    async with scripted_memory(clean_db, model, recall_limit=2, keep_messages="all") as memory:
        await say(memory, SESSION, *(f"Boat {n} is moored at quay 9." for n in range(1, 7)))
        question = "Which boat has Ana moored at quay 9?"
        recalled = await memory.recall(ANA, question, search="always")
        best = await memory.query(ANA, question, top_k=2)

    assert {item.category for item in best} == {"profile"}  # they would take both
    assert [item["kind"] for item in recalled["memories"]] == ["message", "message"]


@pytest.mark.parametrize(("budget", "shown"), [(8000, [NAMED, BORN]), (26, [NAMED]), (20, [BORN]), (5, [])])
async def test_the_texts_come_first_then_what_fits_and_the_rest_is_found_by_search(
    clean_db: Clone, model: LoopbackModel, budget: int, shown: list[str]
) -> None:
    async with scripted_memory(clean_db, model, standing_tokens=budget) as memory:
        await introduce(memory, model)
        context = await memory.recall(ANA, WHERE, search="always", budget_tokens=500)

    assert [line.partition("] ")[2] for line in lines_of(context["context"], "Facts")] == shown
    assert SHORT in context["context"]
    found = [item["content"] for item in context["memories"]]
    assert {text for text in (BORN, NAMED) if text in found} == {BORN, NAMED} - {*shown}


async def test_who_is_known_from_such_a_fact_calls_for_no_search(memory: Mnemic, model: LoopbackModel) -> None:
    await introduce(memory, model)
    known = await memory.recall(ANA, "Yesterday it was Jonas who called Sigrid about bees.")
    unknown = await memory.recall(ANA, "Yesterday it was Tomas who called Ingrid about bees.")

    assert (known["searched"], unknown["searched"]) == (None, "names")


ROLES = """
categories: {custom: [{name: projects, context: all}]}
allowlists:
  biographer: [profile]
  builder: {categories: [projects]}
  muse: {categories: [goals], standing: true}
  nobody: []
"""


@pytest.mark.parametrize(
    ("role", "shown"),
    [
        ("owner", {SHORT, BORN, NAMED, PROJECT}),
        ("biographer", {BORN, NAMED}),
        ("builder", {PROJECT}),
        ("muse", {SHORT}),
        ("nobody", set()),
    ],
)
async def test_each_role_gets_the_standing_part_of_its_allowlist(
    clean_db: Clone, model: LoopbackModel, tmp_path: Path, role: str, shown: set[str]
) -> None:
    async with scripted_memory(clean_db, model) as memory:
        await introduce(memory, model)
    async with scripted_memory(clean_db, model, **custom(tmp_path, ROLES)) as memory:
        who = ANA.model_copy(update={"role": role})
        for search in ("never", "always"):
            context = (await memory.recall(who, WHERE, search=search))["context"]
            assert {text for text in (SHORT, BORN, NAMED, PROJECT) if text in context} == shown


async def test_a_listing_and_a_history_show_what_the_role_may_read(memory: Mnemic, model: LoopbackModel) -> None:
    await introduce(memory, model)
    for role, seen in (("owner", {SHORT, BORN, NAMED, PROJECT}), ("planner", {PROJECT}), ("stylist", set())):
        who = ANA.model_copy(update={"role": role})
        assert {item.content for item in await memory.memories(who)} == seen
        for item in await memory.memories(ANA):
            assert bool(await memory.history(who, item.id)) == (item.content in seen)


async def test_an_unknown_role_is_refused_by_whatever_reads(memory: Mnemic, model: LoopbackModel) -> None:
    await introduce(memory, model)
    who = ANA.model_copy(update={"role": "Planner"})
    (first, *_) = await memory.memories(ANA)
    reads = [memory.recall(who), memory.recall_text(who, WHERE), memory.memories(who), memory.history(who, first.id)]
    for read in reads:
        with pytest.raises(CategoryRefusedError, match="no allowlist"):
            await read


def scope_of(place: int, facts: list[tuple[str, int, int]], core: str) -> Standing:
    key = f"group:{place}"
    text = remembered(core, kind="core", key=key)
    dated = [(n, draft, importance, BEGAN + timedelta(days=day)) for n, (draft, importance, day) in enumerate(facts)]
    return Standing(
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
