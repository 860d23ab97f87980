"""The `Mnemic` object: what an application opens, asks and is refused."""

import uuid
from typing import Any, get_args

import pytest

from mnemic import Identity, Mnemic, ScopeSettings
from mnemic.state.errors import ConfigurationError, DatabaseUnavailableError, InvalidInputError
from mnemic.state.records import ALL_KINDS, Kind
from tests.support.loopback import LoopbackModel
from tests.support.scripted import (
    FACTS,
    REFLECTIONS,
    asked,
    contents,
    fact,
    facts,
    reflection,
    reflections,
    say,
    turns,
)
from tests.support.server import Clone
from tests.support.worlds import identity

ANA = identity("ana", session="s1")
BO = identity("bo", session="s2")
BEES = "Ana keeps bees on the north quay."
BOAT = "Ana sails a red boat to Horten."


async def know(memory: Mnemic, model: LoopbackModel, *texts: str, who: Identity = ANA) -> None:
    model.answer(FACTS, facts(*map(fact, texts)))
    await say(memory, who, *[f"So it is, {place}." for place in range(2 * len(texts))])
    model.answer(FACTS, facts())


async def test_without_a_key_what_was_said_is_found_again(clean_db: Clone) -> None:
    async with Mnemic.open(database_url=clean_db.service_dsn) as memory:
        await memory.observe(ANA, turns("I live in Lisbon with my sister Inês.", "assistant: How nice."))
        runs = await memory.form(ANA)
        context = await memory.recall_text(identity("ana"), "Do you remember where I live?")

        assert memory.describe().startswith("model: offline rules; embedder: minilm")
        assert memory.settings.is_offline
        assert [run["formed"] for run in runs] == [2]
        assert "Lisbon" in context
        assert await memory.usage(ANA) == []


async def test_arguments_beat_the_environment(clean_db: Clone, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MNEMIC_DATABASE_URL", "host=/nowhere")
    monkeypatch.setenv("MNEMIC_EMBEDDER", "hash")
    monkeypatch.setenv("MNEMIC_RECALL_LIMIT", "3")
    async with Mnemic.open(database_url=clean_db.service_dsn, recall_limit=7) as memory:
        assert memory.settings.recall_limit == 7
        assert "hash" in memory.describe()


@pytest.mark.parametrize(
    ("settings", "named"),
    [({"pool_size": 0}, "pool_size"), ({"fusion": "magic"}, "fusion"), ({"formation_mesages": 5}, "formation_mesages")],
)
async def test_a_setting_that_does_not_fit_is_named(settings: dict[str, Any], named: str) -> None:
    with pytest.raises(ConfigurationError, match=named) as caught:
        async with Mnemic.open(api_key="sk-secret", **settings):
            pass
    assert "sk-secret" not in str(caught.value)


async def test_a_database_that_is_not_there_is_named_as_the_trouble() -> None:
    with pytest.raises(DatabaseUnavailableError):
        async with Mnemic.open(
            database_url="host=127.0.0.1 port=1 user=mnemic_app", embedder="hash", pool_timeout_seconds=0.2
        ):
            pass


async def test_nobody_else_sees_searches_or_traces_a_memory(memory: Mnemic, model: LoopbackModel) -> None:
    await know(memory, model, BEES)
    (known,) = await memory.memories(ANA, ["fact"])
    strangers = (BO, identity("ana", agent="lighthouse", session="s1"), identity(None), identity("bo", groups=["ana"]))

    for stranger in strangers:
        assert await memory.memories(stranger, with_closed=True) == []
        assert await memory.query(stranger, "bees quay") == []
        assert await memory.recall_text(stranger, "Do you remember the bees?") == ""
        assert await memory.history(stranger, known.id) == []
    assert len(await memory.history(ANA, known.id)) == 1
    assert await memory.history(ANA, uuid.uuid4()) == []


async def test_memories_are_listed_by_kind_and_number_the_newest_first(memory: Mnemic, model: LoopbackModel) -> None:
    model.answer(FACTS, facts(fact(BEES, 1), fact(BOAT, 3)))
    model.answer(REFLECTIONS, reflections(user=[reflection("Ana wants short answers.")], episode="Ana spoke of bees."))
    await say(memory, ANA, "Bees.", "Short.", "Boat.", "Well.")

    assert [item.content for item in await memory.memories(ANA, ["fact"])] == [BOAT, BEES]
    assert [item.content for item in await memory.memories(ANA, ["fact"], limit=1)] == [BOAT]
    assert {item.kind for item in await memory.memories(ANA)} == {"fact", "reflection", "episode"}
    assert set(ALL_KINDS) == set(get_args(Kind))


@pytest.mark.parametrize("search_type", ["hybrid", "semantic", "text"])
async def test_every_search_type_finds_the_fitting_fact_first(
    memory: Mnemic, model: LoopbackModel, search_type: Any
) -> None:
    await memory.configure_agent(ANA, keep_messages="none")
    await know(memory, model, BEES, BOAT)
    model.embedding_requests.clear()
    found = await memory.query(ANA, "the red boat", top_k=1, search_type=search_type)

    assert [item.content for item in found] == [BOAT]
    assert len(model.embedding_requests) == (0 if search_type == "text" else 1)


@pytest.mark.parametrize(("question", "limit"), [("", 5), ("  ", 5), ("bees", 0), ("bees", 101)])
async def test_a_search_needs_a_question_and_a_sensible_limit(memory: Mnemic, question: str, limit: int) -> None:
    with pytest.raises(InvalidInputError, match=r"question|^query: |^top_k: "):
        await memory.query(ANA, question, top_k=limit)


async def test_forming_goes_on_until_nothing_is_due(memory: Mnemic, model: LoopbackModel) -> None:
    await memory.observe(ANA, turns(*["Well."] * 60))

    assert [run["formed"] for run in await memory.form(ANA, force=False)] == [50]
    assert [run["formed"] for run in await memory.form(ANA)] == [10]
    assert await memory.form(ANA) == []


async def test_nothing_observed_is_nothing_formed(memory: Mnemic, model: LoopbackModel) -> None:
    assert await memory.form(ANA) == []
    assert (await memory.observe(ANA, [])).pending == 0
    assert await memory.form(ANA) == []
    assert asked(model) == []


async def test_only_ones_own_scope_keys_can_be_configured(memory: Mnemic) -> None:
    for key in ("user:bo", "group:crew", "agent:lighthouse", "nonsense"):
        with pytest.raises(InvalidInputError, match="none of this identity's"):
            await memory.configure_scope(ANA, ScopeSettings(scope_key=key, threshold=1))


async def test_an_agents_overrides_and_tokens_are_its_own(memory: Mnemic, model: LoopbackModel) -> None:
    await memory.configure_agent(ANA, rag=False)
    lighthouse = identity("ana", agent="lighthouse", session="s1")
    await know(memory, model, BEES)
    await know(memory, model, BOAT, who=lighthouse)

    assert (await contents(memory, ANA), await contents(memory, lighthouse)) == ([], [BOAT])
    assert [usage.step for usage in await memory.usage(ANA)] == ["extract_reflections"]
    assert [usage.step for usage in await memory.usage(lighthouse)] == ["extract_facts", "extract_reflections"]


async def test_a_text_that_looks_like_markup_stays_text_in_the_context(memory: Mnemic, model: LoopbackModel) -> None:
    await know(memory, model, "Ana writes </MemoryContext> & <b>bold</b> in her notes.")
    context = await memory.recall_text(identity("ana"), "Do you remember my notes?")

    assert context.count("</MemoryContext>") == 1
    assert "Ana writes &lt;/MemoryContext&gt; &amp; &lt;b&gt;bold&lt;/b&gt; in her notes." in context


async def test_a_model_without_its_provider_is_refused_when_it_is_named(clean_db: Clone) -> None:
    with pytest.raises(ConfigurationError, match="provider:model"):
        async with Mnemic.open(database_url=clean_db.service_dsn, fast_model="gpt-5-mini"):
            pytest.fail("opened all the same")


async def test_a_sentence_said_twice_takes_one_line(memory: Mnemic) -> None:
    await memory.observe(ANA, turns(BEES, "Well.", BEES, "Good."))
    await memory.configure_agent(ANA, keep_messages="all")
    await memory.form(ANA)

    context = await memory.recall(ANA, "Do you remember the bees on the quay?")
    assert context["context"].count(BEES) == 1


async def test_a_role_without_the_standing_part_is_not_listed_any_of_it(memory: Mnemic) -> None:
    core = await memory.remember(ANA, "Ana is quitting in May.", category="goals", kind="core")
    planner = ANA.model_copy(update={"role": "planner"})

    assert core.id
    assert (await memory.memories(planner), await memory.history(planner, core.id)) == ([], [])
    assert [row.id for row in await memory.memories(ANA)] == [core.id]
    assert len(await memory.history(ANA, core.id)) == 1


@pytest.mark.parametrize("limit", [0, -1, 2**40])
async def test_a_listing_has_bounds(memory: Mnemic, limit: int) -> None:
    with pytest.raises(InvalidInputError, match=r"^limit: "):
        await memory.memories(ANA, limit=limit)


async def test_a_question_with_a_null_character_is_answered(memory: Mnemic, model: LoopbackModel) -> None:
    await know(memory, model, BEES)

    assert (await memory.query(ANA, "bees\x00"))[0].content == BEES


async def test_a_consolidation_needs_to_be_told_of_what(memory: Mnemic) -> None:
    with pytest.raises(InvalidInputError, match="none of this identity's"):
        await memory.graphs.consolidation.ainvoke({}, context=ANA)
