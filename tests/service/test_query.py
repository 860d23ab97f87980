"""`Mnemic.query`: one search under the role's allowlist, within its budget, in one transaction."""

from dataclasses import replace
from typing import Any
from uuid import UUID, uuid4

import pytest

from mnemic import Mnemic
from mnemic.memory.messages.incoming import CUT_MARK
from mnemic.memory.recall.query import result_line
from mnemic.memory.recall.search import MESSAGE_CHARS
from mnemic.memory.runtime.categories import OWNER, load_categories
from mnemic.memory.runtime.resources import Resources
from mnemic.memory.text.shape import count_tokens
from mnemic.state.errors import CategoryRefusedError
from mnemic.state.identity import Identity
from mnemic.state.query import MemoryFilters, MemoryQuery
from mnemic.state.records import IndexedText, SearchResult
from mnemic.storage import inbox
from tests.support.agents import asked, rows
from tests.support.loopback import LoopbackModel
from tests.support.scripted import say, scripted_memory
from tests.support.searching import fact, know
from tests.support.server import Clone, recorded_statements
from tests.support.worlds import identity, message

ANA = identity("ana", session="s1")
QUESTION = "catalogue"
TASK = fact("Ana ships the catalogue in May.", "tasks")
TONE = fact("Ana likes a dry tone in the catalogue.", "style")
STEPS = fact("1. Fold the catalogue. 2. Stamp it.", "procedural", kind="procedure")


@pytest.fixture
async def memory(resources: Resources) -> Mnemic:
    """One memory of each of three categories."""
    await know(resources, ANA, TASK, TONE, STEPS)
    return Mnemic(resources)


def acting(role: str) -> Identity:
    return ANA.model_copy(update={"role": role})


def ids(found: list[SearchResult]) -> set[UUID]:
    return {item.id for item in found}


# -- categories


async def test_a_role_finds_its_own_categories_and_procedures_only_by_their_name(memory: Mnemic) -> None:
    everything = [*load_categories().by_name]
    for role, categories, expected in (
        ("supervisor", None, {TASK.id, TONE.id}),
        ("planner", None, {TASK.id}),
        ("planner", ["procedural"], {STEPS.id}),
        ("planner", ["tasks", "procedural"], {TASK.id, STEPS.id}),
        ("stylist", None, {TONE.id}),
        ("researcher", None, set()),
        (OWNER, everything, {TASK.id, TONE.id, STEPS.id}),
    ):
        assert ids(await memory.query(acting(role), QUESTION, categories=categories)) == expected, (role, categories)


async def test_what_is_not_allowed_is_named_before_anything_is_embedded_or_read(
    memory: Mnemic, clean_db: Clone, model: LoopbackModel
) -> None:
    model.embedding_requests.clear()
    with recorded_statements(clean_db) as sent:
        with pytest.raises(CategoryRefusedError, match=r"planner: style;.*goals, tasks"):
            await memory.query(acting("planner"), " ", categories=["tasks", "style"])
        assert await memory.query(acting("planner"), " ", categories=[]) == []
    assert (sent, model.embedding_requests) == ([], [])


# -- what it costs


async def test_a_question_is_embedded_once_and_only_where_meaning_counts(memory: Mnemic, model: LoopbackModel) -> None:
    cases: list[tuple[dict[str, Any], int]] = [
        ({}, 1),
        ({"search_type": "semantic"}, 1),
        ({"search_type": "text"}, 0),
        ({"search_type": "text", "threshold": 0}, 1),
    ]
    for arguments, embedded in cases:
        model.embedding_requests.clear()
        assert await memory.query(ANA, QUESTION, **arguments)
        assert len(model.embedding_requests) == embedded, arguments


async def test_what_was_returned_counts_as_used_and_what_was_not_does_not(memory: Mnemic, resources: Resources) -> None:
    await kept(resources, ANA, "The catalogue is late.")
    (first, *_) = await memory.query(ANA, QUESTION, categories=["tasks"], budget_tokens=40)
    assert first.id == TASK.id
    assert {item.kind for item in await memory.query(ANA, QUESTION, categories=["message"])} == {"message"}
    assert await memory.query(ANA, QUESTION, categories=["style"], budget_tokens=1) == []
    assert resources.uses.take(ANA) == {TASK.id}


# -- arguments


async def test_filters_may_be_a_mapping_or_the_record(memory: Mnemic) -> None:
    for filters in ({"importance_max": 2}, MemoryFilters(importance_max=2)):
        assert ids(await memory.query(ANA, QUESTION, filters=filters)) == {TASK.id, TONE.id}
    assert await memory.query(ANA, QUESTION, filters={"importance_min": 5}) == []


# -- budgets


async def kept(resources: Resources, who: Identity, text: str) -> None:
    """A message that stays searchable."""
    said = message(text, session="s1", user=who.user_id)
    async with resources.database.transaction(who) as tx:
        await inbox.observe(tx, "s1", [said])
        await inbox.index_messages(tx, resources.embedder.name, [IndexedText(item_id=said.id, text=QUESTION)])


#: What makes a line longer, markup of it, or two lines of one.
TEXTS = ("Ana ships it.", '<b>Ana</b> & "Bo"\n\rship it\u2028again. ' * 4, "It\x85is late, says <Ana>. " * 9)


@pytest.mark.parametrize("budget", [1, 40, 300])
async def test_budgets_hold_and_every_text_is_one_line(resources: Resources, budget: int) -> None:
    await know(resources, ANA, *(replace(fact(text, "tasks"), search_text=QUESTION) for text in TEXTS))
    await kept(resources, ANA, TEXTS[1])
    memory = Mnemic(resources)
    limits: dict[str, Any] = {"search_type": "text", "top_k": 100, "budget_tokens": budget}
    found = await memory.query(ANA, QUESTION, **limits)
    shown = [[result_line(item, MemoryQuery(query=QUESTION, returns="full")) for item in found]]
    for returns in ("bullets", "full"):
        answer = await asked(memory.tools(), ANA, query=QUESTION, returns=returns, **limits)
        shown.append([row["text"] for row in rows(answer)])
    for lines in shown:
        assert sum(map(count_tokens, lines)) <= budget
        assert (len(lines) > 0) == (budget > 1)
        assert all(len(line.splitlines()) == 1 and not {*"<>"} & {*line} for line in lines)


async def test_a_fit_that_lets_everything_pass_breaks_the_budget(
    memory: Mnemic, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The control of the test above."""
    monkeypatch.setattr("mnemic.memory.recall.query.fit_results", lambda found, *_: [*found])
    answer = rows(await asked(memory.tools(), ANA, query=QUESTION, budget_tokens=1))
    assert sum(count_tokens(row["text"]) for row in answer) > 1


LOCKER = "The locker code of the boathouse is 4471."


@pytest.mark.parametrize("filler", [900, 2_500, 5_000, 30_000])
async def test_a_long_message_is_shown_by_the_passage_that_is_asked_for(
    clean_db: Clone, model: LoopbackModel, filler: int
) -> None:
    async with scripted_memory(clean_db, model, keep_messages="all") as memory:
        text = ("The quay was quiet and the ferry came late again. " * (filler // 50))[:filler]
        await say(memory, ANA, f"{text} {LOCKER} {text[:900]}", "ok", "thanks", "The boathouse is green.")
        question = "What is the locker code of the boathouse?"
        (row, *_) = rows(await asked(memory.tools(), ANA, query=question))
        (found, *_) = await memory.query(ANA, question)
        recalled = await memory.recall(ANA, question, search="always")
        narrow = await memory.recall(ANA, question, search="always", budget_tokens=80)
        (bounded, *_) = await memory.query(ANA, question, budget_tokens=80)
    turn = recalled.context.turn
    shown = [row["text"], found.shown, turn, narrow.context.turn, bounded.content]
    assert all("4471" in text and "…" in text for text in shown)
    assert len(found.shown) <= MESSAGE_CHARS
    assert count_tokens(bounded.content) <= 80
    assert found.content.startswith("The quay")
    assert all(len(item.content) <= MESSAGE_CHARS for item in recalled.memories)


async def test_a_message_above_the_stored_length_says_that_it_is_cut(
    clean_db: Clone, model: LoopbackModel, caplog: pytest.LogCaptureFixture
) -> None:
    async with scripted_memory(clean_db, model, keep_messages="all") as memory:
        await say(memory, ANA, f"The locker is blue. {'The ferry came late again. ' * 2_000}")
        (found, *_) = await memory.query(ANA, "locker")
    (record,) = {record.message for record in caplog.records if record.levelname == "WARNING"}
    assert str(found.id) in record
    assert "ferry" not in record
    assert found.content.endswith(CUT_MARK)


def test_a_line_in_full_has_the_whole_message() -> None:
    bullets, full = MemoryQuery(query=QUESTION), MemoryQuery(query=QUESTION, returns="full")
    steps = SearchResult(
        id=uuid4(), kind="procedure", scope_key="user:ana", category="procedural", subject="Ana",
        content="Fold it. " * 500, dated=TASK.valid_from, importance=2, score=1.0,
        created_at=TASK.valid_from, updated_at=TASK.valid_from,
    )  # fmt: skip
    said = replace(steps, kind="message", category="message", excerpt="…Fold it.…")
    assert len(result_line(said, bullets)) < 100
    assert len(result_line(said, full)) > 4400
    assert result_line(steps, bullets) == result_line(steps, full)
