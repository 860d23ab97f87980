"""What a turn is given: the standing part, search results where it calls for them; less of it where something fails."""

import logging
import os
import re
import shutil
import signal
import threading
import uuid
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal

import pytest

from mnemic.memory.messages.turn import recall_turn
from mnemic.memory.text.shape import count_tokens
from mnemic.models.failures import MAX_REQUESTS
from mnemic.prompts.recall.memory_context import PREAMBLE
from mnemic.service.memory import Mnemic
from mnemic.state.errors import (
    CategoryRefusedError,
    ConfigurationError,
    DatabaseSetupError,
    DatabaseUnavailableError,
    EmbeddingError,
    MissingIdentityError,
)
from mnemic.storage.embedded.postmaster import exclusive
from mnemic.storage.embedded.server import EmbeddedPostgres
from tests.support.deadlines import expiring
from tests.support.loopback import LoopbackModel, Request
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
    scripted_resources,
    turns,
)
from tests.support.server import Clone, fast_directory
from tests.support.worlds import identity, text_of

SESSION = identity("ana", session="s1")
ANA = identity("ana")
WISH = "Ana wants short answers, and Marit hears of it."
BEES = "Ana keeps bees on the north quay."
#: It calls for a search, and the other one does not.
PAST = "Where on the quay were the bees?"
GREETING = "Good morning, dear assistant."


async def fill(memory: Mnemic, model: LoopbackModel) -> None:
    """Forms the wish, which is always in context, and the fact, which is found; then forgets what was requested."""
    model.answer(FACTS, facts(fact(BEES)))
    model.answer(REFLECTIONS, reflections(user=[reflection(WISH)]))
    await say(memory, SESSION, "I keep bees on the north quay. Be short, tell Marit.")
    model.embedding_requests.clear()
    model.chat_requests.clear()


@pytest.mark.parametrize(
    ("question", "search", "reason", "embeddings"),
    [
        (GREETING, "auto", None, 0),
        ("", "auto", None, 0),
        ("", "always", None, 0),
        (PAST, "auto", "known_word", 1),
        (PAST, "never", None, 0),
        ("Do you remember my bees?", "auto", "phrase", 1),
        ("Search your memory for the bees.", "auto", "phrase", 1),
        (GREETING, "always", "asked", 1),
        ("Draft a note to the harbour office about the north quay", "auto", "known_word", 1),
        ("Yesterday it was Jonas who called Sigrid.", "auto", None, 0),
        ("Why do people like honey?", "auto", None, 0),
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

    assert context.searched == reason
    assert (len(model.chat_requests), len(model.embedding_requests)) == (0, embeddings)
    assert (BEES in context.context.turn) == (reason is not None)
    assert WISH in context.context.standing


@pytest.mark.parametrize(
    ("previous", "question", "reason"),
    [
        ("Who repairs the north quay?", "And in winter?", "follow_up"),
        ("Who repairs the north quay?", "What about it?", "follow_up"),
        ("What is the capital of Ghana?", "and the quay?", "follow_up"),
        ("What is the capital of Ghana?", "And of Togo?", None),
        ("Who repairs the north quay?", "Thanks.", None),
        ("", "And in winter?", None),
    ],
)
async def test_a_turn_that_leans_on_the_one_before_is_searched_with_it(
    memory: Mnemic, model: LoopbackModel, previous: str, question: str, reason: str | None
) -> None:
    await fill(memory, model)
    recalled = await memory.recall(ANA, question, previous=previous)
    assert recalled.searched == reason
    assert (BEES in recalled.context.turn) == (reason is not None)


async def test_a_host_hands_on_the_turn_before(memory: Mnemic, model: LoopbackModel) -> None:
    await fill(memory, model)
    talk = [
        {"role": "user", "content": "Who repairs the north quay?"},
        {"role": "assistant", "content": "I do not know."},
        {"role": "user", "content": "And in winter?"},
    ]
    turn = await recall_turn(memory.resources, ANA, talk)
    assert (turn["memory_searched"], BEES in turn["memory_context"].turn) == ("follow_up", True)


async def test_each_part_of_the_context_is_an_element_that_says_what_it_is(
    memory: Mnemic, model: LoopbackModel
) -> None:
    await fill(memory, model)
    context = await memory.recall(ANA, PAST)

    parts = [context.context.standing, context.context.turn]
    for text, line in zip(parts, ('<UserMemory user="Ana">', f"- [2 March 2026] {BEES}"), strict=True):
        lines = text.splitlines()
        assert (lines[0], lines[1], lines[-1]) == ("<MemoryContext>", PREAMBLE, "</MemoryContext>")
        assert line in lines
    assert context.tokens == sum(map(count_tokens, parts))
    assert {found.content for found in context.memories} >= {BEES}


@pytest.mark.parametrize("budget", [1, 40, 100, 400])
async def test_the_budget_bounds_the_retrieved_lines(memory: Mnemic, model: LoopbackModel, budget: int) -> None:
    found = [fact(f"Ana moored boat number {n} of the Lindqvist yard at quay {n * 7}.", n) for n in range(1, 9)]
    model.answer(FACTS, facts(*found))
    model.answer(DECISIONS, decisions())
    await say(memory, SESSION, *[f"Boat {n}." for n in range(1, 17)])
    context = await memory.recall(ANA, "Where are the boats?", search="always", budget_tokens=budget)

    retrieved = [line for line in context.context.turn.splitlines() if line.startswith("- [")]
    assert sum(map(count_tokens, retrieved)) <= budget
    assert len(retrieved) == len(context.memories)
    # five at most, and behind them two that are related
    assert len(retrieved) == {1: 0, 40: 2, 100: 5, 400: 7}[budget]


@pytest.mark.parametrize(
    ("overrides", "standing", "search"),
    [
        ({"rag": False}, True, False),
        ({"always_in_context": False}, False, True),
        ({"recall_budget_tokens": 1}, True, False),
        ({"recall_limit": 1}, True, True),
    ],
)
async def test_an_agents_own_settings_count_for_its_recall(
    memory: Mnemic, model: LoopbackModel, overrides: dict[str, object], standing: bool, search: bool
) -> None:
    await memory.admin.configure_agent(ANA, keep_messages="all")
    await fill(memory, model)
    before = await memory.recall(ANA, PAST)
    await memory.admin.configure_agent(ANA, **overrides)
    after = await memory.recall(ANA, PAST)

    assert (WISH in text_of(after.context), BEES in text_of(after.context)) == (standing, search)
    assert after.tokens < before.tokens


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
        await memory.admin.configure_agent(ANA, always_in_context=False, recall_limit=2)
    async with scripted_memory(clean_db, model, extraction="single") as memory:
        context = await memory.recall(ANA, PAST)
        assert (context.degraded, BEES in context.context.turn) == (None, True)
        assert WISH not in text_of(context.context)
        await memory.observe(SESSION, turns("One more."))
        with pytest.raises(ConfigurationError, match="always_in_context"):
            await memory.form(SESSION)
        with pytest.raises(ConfigurationError, match="always_in_context"):
            await memory.admin.configure_agent(ANA, always_in_context=False)


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


async def test_profile_facts_are_in_the_element_of_their_scope_by_importance(
    memory: Mnemic, model: LoopbackModel
) -> None:
    await introduce(memory, model)
    context = text_of((await memory.recall(ANA, "Good morning.", search="never")).context)

    assert lines_of(context, "Facts") == [f"- [2 March 2026] {NAMED}", f"- [2 March 2026] {BORN}"]
    inside = context[context.index("<UserMemory") : context.index("</UserMemory>")]
    assert BORN in inside
    assert PROJECT not in context
    assert lines_of(context, "Recent") == [f"- [2 March 2026] {SHORT}"]


async def test_a_word_of_a_fact_that_is_in_the_context_is_no_reason(memory: Mnemic) -> None:
    await memory.remember(ANA, "Ana is called Anita by Sigrid.", category="profile")
    assert (await memory.recall(ANA, "Tell me about Sigrid")).searched is None
    await memory.remember(ANA, "Ana met Sigrid in Lund.", category="event")
    assert (await memory.recall(ANA, "Tell me about Sigrid")).searched == "known_word"


async def test_facts_that_stand_there_take_no_other_results_place(clean_db: Clone, model: LoopbackModel) -> None:
    model.answer(DECISIONS, decisions())
    model.answer(FACTS, facts(*(fact(f"Ana has moored boat {n} at quay 9.", category="profile") for n in range(1, 4))))
    async with scripted_memory(clean_db, model, recall_limit=2, keep_messages="all") as memory:
        await say(memory, SESSION, *(f"Boat {n} is moored at quay 9." for n in range(1, 7)))
        question = "Which boat has Ana moored at quay 9?"
        recalled = await memory.recall(ANA, question, search="always")
        best = await memory.query(ANA, question, top_k=2)

    assert {item.category for item in best} == {"profile"}  # they would take both
    assert [item.kind for item in recalled.memories] == ["message", "message"]


@pytest.mark.parametrize(("budget", "shown"), [(8000, [NAMED, BORN]), (26, [NAMED]), (20, [BORN]), (5, [])])
async def test_texts_come_first_then_fitting_facts_and_search_finds_the_rest(
    clean_db: Clone, model: LoopbackModel, budget: int, shown: list[str]
) -> None:
    async with scripted_memory(clean_db, model, standing_tokens=budget) as memory:
        await introduce(memory, model)
        context = await memory.recall(ANA, WHERE, search="always", budget_tokens=500)

    assert [line.partition("] ")[2] for line in lines_of(context.context.standing, "Facts")] == shown
    assert SHORT in context.context.standing
    found = [item.content for item in context.memories]
    assert {text for text in (BORN, NAMED) if text in found} == {BORN, NAMED} - {*shown}


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
    file = tmp_path / "categories.yaml"
    file.write_text(ROLES, encoding="utf-8")
    async with scripted_memory(clean_db, model, categories_file=file) as memory:
        who = ANA.model_copy(update={"role": role})
        for search in ("never", "always"):
            context = text_of((await memory.recall(who, WHERE, search=search)).context)
            assert {text for text in (SHORT, BORN, NAMED, PROJECT) if text in context} == shown


async def test_a_listing_and_a_history_show_what_the_role_may_read(memory: Mnemic, model: LoopbackModel) -> None:
    await introduce(memory, model)
    for role, seen in (("owner", {SHORT, BORN, NAMED, PROJECT}), ("planner", {PROJECT}), ("stylist", set())):
        who = ANA.model_copy(update={"role": role})
        assert {item.content for item in await memory.memories(who)} == seen
        for item in await memory.memories(ANA):
            assert bool(await memory.history.events(who, item.id)) == (item.content in seen)


async def test_an_unknown_role_is_refused_by_whatever_reads(memory: Mnemic, model: LoopbackModel) -> None:
    await introduce(memory, model)
    who = ANA.model_copy(update={"role": "Planner"})
    (first, *_) = await memory.memories(ANA)
    reads = [memory.recall(who), memory.memories(who), memory.history.events(who, first.id)]
    for read in reads:
        with pytest.raises(CategoryRefusedError, match="no allowlist"):
            await read


# -- with less memory, where the embedder or the database fails, and it says so


@pytest.mark.parametrize(("status", "requests"), [(401, 1), (500, MAX_REQUESTS)])
async def test_without_the_embedder_the_search_goes_by_text_alone(
    memory: Mnemic, model: LoopbackModel, caplog: pytest.LogCaptureFixture, status: int, requests: int
) -> None:
    caplog.set_level(logging.DEBUG, logger="mnemic")
    await fill(memory, model)
    model.answer_embeddings(status)
    assert (await memory.recall(ANA, GREETING)).degraded is None  # no search, so nothing is missing
    context = await memory.recall(ANA, PAST)

    assert (context.degraded, context.searched) == ("text_only", "known_word")
    assert BEES in context.context.turn
    assert WISH in context.context.standing
    assert len(model.embedding_requests) == requests
    (warning,) = [record for record in caplog.records if record.name == "mnemic"]
    assert f"(HTTP {status}, scripted_code)" in warning.getMessage()
    assert "quay" not in caplog.text  # of the question nothing is logged
    with pytest.raises(EmbeddingError, match='search_type="text" searches without the embedder'):
        await memory.query(ANA, PAST)
    assert BEES in {found.content for found in await memory.query(ANA, PAST, search_type="text")}


async def test_an_embedder_that_never_answers_keeps_no_turn_waiting(
    clean_db: Clone, model: LoopbackModel, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with scripted_memory(clean_db, model, recall_timeout_seconds=7) as memory:
        await fill(memory, model)
        answered, expire = threading.Event(), expiring(monkeypatch, 7)

        def arrive(_: Request) -> None:
            expire()
            answered.wait(timeout=20)

        model.answer_embeddings(arrive)
        context = await memory.recall(ANA, PAST)
        answered.set()

    assert (context.degraded, BEES in text_of(context.context)) == ("text_only", True)
    assert "no answer within 7 s" in caplog.text


async def test_with_every_connection_in_use_the_turn_goes_without_memory(
    clean_db: Clone, model: LoopbackModel, caplog: pytest.LogCaptureFixture
) -> None:
    async with scripted_resources(clean_db, model, pool_size=1, recall_timeout_seconds=0.5) as resources:
        memory = Mnemic(resources)
        await fill(memory, model)
        async with resources.database.transaction(ANA):
            context = await memory.recall(ANA, PAST)
            assert text_of((await memory.recall(ANA, PAST)).context) == ""
            with pytest.raises(DatabaseUnavailableError, match="MNEMIC_POOL_SIZE"):
                await memory.query(ANA, PAST)
        assert (await memory.recall(ANA, PAST)).degraded is None  # and the next one has it again

    assert (text_of(context.context), context.memories, context.degraded) == ("", (), "no_memory")
    warnings = [record for record in caplog.records if record.name == "mnemic"]
    assert {record.levelno for record in warnings} == {logging.WARNING}
    assert all("goes without memory: no connection" in record.getMessage() for record in warnings)
    assert "quay" not in caplog.text
    assert len(model.embedding_requests) == 2  # the search's, and the last recall's: without a database nobody embeds


async def test_search_that_takes_too_long_is_cut_and_the_turn_has_no_memory(
    clean_db: Clone, model: LoopbackModel, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, logger="mnemic")
    async with scripted_memory(clean_db, model, recall_timeout_seconds=0.5, lock_timeout_seconds=20) as memory:
        await fill(memory, model)
        with clean_db.as_superuser() as connection, connection.transaction():
            connection.execute("lock table mnemic.entries")
            assert (await memory.recall(ANA, PAST)).degraded == "no_memory"
            assert (await memory.recall(ANA, GREETING)).degraded is None
        assert (await memory.recall(ANA, PAST)).degraded is None
    assert len([record for record in caplog.records if record.name == "mnemic"]) == 1
    assert "quay" not in caplog.text


async def test_what_does_not_pass_by_itself_is_raised(fresh_db: Clone, model: LoopbackModel) -> None:
    async with scripted_memory(fresh_db, model) as memory:
        await fill(memory, model)
        with fresh_db.as_superuser() as connection:
            connection.execute("drop table mnemic.entries")
        with pytest.raises(DatabaseSetupError):
            await memory.recall(ANA, PAST)


@pytest.fixture
def base() -> Iterator[Path]:
    directory = fast_directory() / f"mnemic-killed-{uuid.uuid4().hex[:12]}"
    yield directory
    shutil.rmtree(directory)


def shut_down(base: Path) -> None:
    pid = int((base / "data" / "postmaster.pid").read_text().split()[0])
    os.kill(pid, signal.SIGINT)
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    with exclusive(base / "server.lock"):  # a backend notices a moment later that its server is gone
        pass


@pytest.mark.thorough
async def test_an_embedded_database_that_was_shut_down_stays_down(
    clean_db: Clone, model: LoopbackModel, base: Path
) -> None:
    quick = {"pool_size": 2, "pool_timeout_seconds": 1, "recall_timeout_seconds": 1}
    async with scripted_memory(clean_db, model, database_url=None, data_dir=base, **quick) as memory:
        await fill(memory, model)
        shut_down(base)
        for _ in range(3):
            assert (await memory.recall(ANA, PAST)).degraded == "no_memory"
        with EmbeddedPostgres(base):
            attempts = 20  # of a second at most: the pool asks for the server again at growing intervals
            while (degraded := (await memory.recall(ANA, PAST)).degraded) and attempts:
                attempts -= 1
            assert degraded is None
