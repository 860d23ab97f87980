"""`remember`, `remember_procedure`: what formation's rules let pass, stored once, at the narrowest scope."""

import asyncio
import re
import uuid
from typing import Any

import psycopg
import pytest

from mnemic.service.memory import Mnemic
from mnemic.state.errors import CategoryRefusedError, EmbeddingError, InvalidInputError
from mnemic.state.explicit import Remembered
from mnemic.state.identity import Identity
from mnemic.state.records import Memory
from mnemic.storage import memories
from tests.support.agents import call
from tests.support.loopback import LoopbackModel
from tests.support.scripted import scripted_memory
from tests.support.server import Clone
from tests.support.worlds import identity, text_of

ANA = identity("ana", session="s1", groups=["crew"], teaches=True)
BEES = "Ana keeps forty bees in Oslo."
AGAIN = "Ana keeps forty bees in Oslo"
TITLE = "Deploy the harbor app"
STEPS = ["Merge the release branch.", "Run make ship.", "Check the dashboard."]
FLAGS = ("red", "blue", "green", "white", "black", "yellow", "striped", "chequered", "plain")
TEXT = "Deploy the harbor app\n1. Merge the release branch.\n2. Run make ship.\n3. Check the dashboard."


async def stored(memory: Mnemic, who: Identity, *kinds: Any) -> list[Memory]:
    return await memory.memories(who.model_copy(update={"role": "owner"}), kinds or ("fact",))


async def test_a_fact_is_kept_under_the_identity_that_asked(memory: Mnemic, superuser: psycopg.Connection) -> None:
    kept = await memory.remember(ANA, BEES, category="activity", importance=4)

    (fact,) = await stored(memory, ANA)
    assert (fact.id, fact.scope_key, fact.category, fact.importance) == (kept.id, "user:ana", "activity", 4)
    assert (fact.provenance, fact.source_session_id, fact.subject_user_id) == ("asserted", "s1", "ana")
    assert superuser.execute("select actor_id, role from mnemic.memories").fetchall() == [("ana", "supervisor")]
    events = superuser.execute("select event, reason, actor, session_id from mnemic.history").fetchall()
    assert events == [("ADD", "remember", "ana", "s1")]
    assert BEES in [found.content for found in await memory.query(ANA, "bees")]


async def test_a_core_memory_stands_in_the_next_context_and_has_an_end(memory: Mnemic) -> None:
    await memory.remember(ANA, "Ana is to be answered in English.", category="style", kind="core")
    long = ", ".join(f"rule {number} of the harbor holds" for number in range(30))
    with pytest.raises(InvalidInputError):
        await memory.remember(ANA, long, category="style", kind="core")

    assert "Ana is to be answered in English." in text_of((await memory.recall(ANA, "")).context)
    assert [found.content for found in await memory.query(ANA, "English")] == []


@pytest.mark.parametrize(
    "content",
    [
        "How is the class going?",
        "Hi Ana! Wie geht es dem Kurs?",
        "授業はどうですか？",
        '{"name": "Ana", "bees": 40}',
        '[{"name": "Ana"}]',
        "```json\n[1, 2]\n```",
        "<name>Ana</name>",
    ],
)
async def test_questions_and_data_are_no_facts(memory: Mnemic, content: str) -> None:
    with pytest.raises(InvalidInputError):
        await memory.remember(ANA, content, category="activity")
    assert await stored(memory, ANA) == []


@pytest.mark.parametrize("kind", ["fact", "core"])
async def test_what_is_known_word_for_word_is_not_written_again(
    memory: Mnemic, superuser: psycopg.Connection, kind: Any
) -> None:
    first = await memory.remember(ANA, BEES, category="activity", kind=kind)
    again = await memory.remember(ANA, f"  {BEES} ", category="goals", kind=kind)

    assert (again.known, again.id) == (True, first.id)
    assert superuser.execute("select count(*) from mnemic.history").fetchone() == (1,)

    confided = await memory.remember(ANA, BEES, category="activity", kind=kind, private=True)
    (kept,) = await stored(memory, ANA, kind)
    assert (confided.known, confided.id, kept.id, kept.private) == (True, first.id, first.id, True)


async def test_a_models_text_is_searched_as_it_is_stored(memory: Mnemic, model: LoopbackModel) -> None:
    await call(memory, ANA, "remember", content="Ana keeps forty bees in Oslo!", category="activity")

    (fact,) = await stored(memory, ANA)
    (embedded,) = model.embedding_requests[-1]["input"]
    assert (fact.content, embedded.partition(": ")[2]) == (BEES, BEES)


async def test_nor_what_says_the_same_but_for_its_spelling(memory: Mnemic, model: LoopbackModel) -> None:
    model.answer_embeddings(lambda request: [[1.0] * 384 for _ in request["input"]])
    first = await memory.remember(ANA, BEES, category="activity")
    again = await memory.remember(ANA, AGAIN, category="activity")
    other = await memory.remember(ANA, "Ana keeps fifty bees in Oslo.", category="activity")

    assert (again.known, again.id) == (True, first.id)
    assert not other.known, "another number is another fact, however near"


async def test_near_memories_are_linked_and_named_unless_they_are_protected(
    memory: Mnemic, superuser: psycopg.Connection
) -> None:
    oslo = await memory.remember(ANA, "Ana lives in Oslo with two cats.", category="profile")
    bergen = await memory.remember(ANA, "Ana lives in Bergen with two cats.", category="profile")

    assert [old.id for old in bergen.near] == [oslo.id]
    edges = superuser.execute("select from_id, to_id, relation_type, scope_key, to_scope_key from mnemic.relations")
    assert edges.fetchall() == [(bergen.id, oslo.id, "related_to", "user:ana", "user:ana")]

    superuser.execute("select mnemic.set_protection('harbor', %s, true, 'root')", (oslo.id,))
    porto = await memory.remember(ANA, "Ana lives in Porto with two cats.", category="profile")

    assert [old.id for old in porto.near] == [bergen.id]  # what cannot be replaced is related alone
    to = superuser.execute("select to_id from mnemic.relations where from_id = %s", (porto.id,)).fetchall()
    assert {row[0] for row in to} == {oslo.id, bergen.id}


@pytest.mark.parametrize("sentence", [BEES, AGAIN])
async def test_of_equal_writes_at_once_one_is_stored(
    memory: Mnemic, model: LoopbackModel, superuser: psycopg.Connection, sentence: str
) -> None:
    model.answer_embeddings(lambda request: [[1.0] * 384 for _ in request["input"]])
    texts = [BEES, sentence] * 4
    kept = await asyncio.gather(*(memory.remember(ANA, text, category="activity") for text in texts))

    assert superuser.execute("select count(*) from mnemic.memories").fetchone() == (1,)
    assert [item.known for item in kept].count(False) == 1
    assert len({item.id for item in kept}) == 1


@pytest.mark.thorough
async def test_control_looked_up_before_the_operation_some_would_be_stored_twice(
    memory: Mnemic, model: LoopbackModel, superuser: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def nothing_near(*_: Any, **__: Any) -> list[Any]:
        return []

    monkeypatch.setattr(memories, "find_nearest", nothing_near)
    model.answer_embeddings(lambda request: [[1.0] * 384 for _ in request["input"]])
    for text in (BEES, AGAIN):
        await memory.remember(ANA, text, category="activity")

    assert superuser.execute("select count(*) from mnemic.memories").fetchone() == (2,)


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("I like green tea.", "third person"),
        ("He likes green tea.", "pronoun"),
        ("Ana likes tea! Ana likes coffee.", "neutral"),
        ("\u200b", "empty"),
        ("...", "says nothing"),
        ("tea " * 20, "repeats itself"),
        (" ".join(f"word{number}" for number in range(31)), "30 words"),
        ("Ana likes green tea. " + "Ana drinks it in the evening with Bo and Liv at the harbor. " * 4, "30 words"),
    ],
)
async def test_a_text_that_is_not_written_as_a_memory_is_refused_with_the_reason(
    memory: Mnemic, superuser: psycopg.Connection, content: str, told: str
) -> None:
    with pytest.raises(InvalidInputError) as caught:
        await memory.remember(ANA, content, category="preferences")

    assert told in str(caught.value)
    assert "tea" not in str(caught.value)
    assert superuser.execute("select count(*) from mnemic.memories").fetchone() == (0,)


async def test_a_role_writes_only_what_it_reads(memory: Mnemic) -> None:
    for category in (
        "procedural",
        "journal",
        "message",
        "relationship_dynamic",
        "some nonsense",
        "nonsense" * 9,
        "Goals",
        "",
    ):
        with pytest.raises(CategoryRefusedError, match="goals") as caught:
            await memory.remember(ANA, BEES, category=category)
        assert "nonsense" not in str(caught.value)
    planner = ANA.model_copy(update={"role": "planner"})
    assert not (await memory.remember(planner, "Ana ships the catalogue in May.", category="goals")).known
    for kind, category in (("fact", "profile"), ("core", "goals")):
        with pytest.raises(CategoryRefusedError):
            await memory.remember(planner, BEES, category=category, kind=kind)  # type: ignore[arg-type]
    with pytest.raises(CategoryRefusedError):
        await memory.remember(ANA.model_copy(update={"role": "nobody"}), BEES, category="goals")


async def test_a_twin_in_a_category_that_the_role_may_not_read_has_no_id_for_it(memory: Mnemic) -> None:
    await memory.remember(ANA, BEES, category="activity")
    planner = ANA.model_copy(update={"role": "planner"})

    assert await memory.remember(planner, BEES, category="goals") == Remembered(
        id=None, scope_key="user:ana", known=True
    )
    near = await memory.remember(planner, "Ana keeps forty-one bees in Oslo.", category="goals")
    assert near.near == ()


async def test_without_a_user_there_is_nobody_to_remember_it_for(memory: Mnemic) -> None:
    with pytest.raises(InvalidInputError, match="user_id"):
        await memory.remember(identity(None, session="s1"), BEES, category="activity")


async def test_an_embedder_with_a_refused_key_leaves_nothing_behind(
    memory: Mnemic, model: LoopbackModel, superuser: psycopg.Connection
) -> None:
    model.answer_embeddings(401)
    with pytest.raises(EmbeddingError):
        await memory.remember(ANA, BEES, category="activity")
    assert (await call(memory, ANA, "remember", content=BEES, category="activity")).status == "error"

    assert superuser.execute("select count(*) from mnemic.history").fetchone() == (0,)


@pytest.mark.parametrize(("kind", "setting"), [("fact", "rag"), ("core", "always_in_context")])
async def test_what_the_agent_has_switched_off_is_refused(
    memory: Mnemic, superuser: psycopg.Connection, kind: Any, setting: str
) -> None:
    await memory.admin.configure_agent(ANA, **{setting: False})
    with pytest.raises(InvalidInputError, match=setting):
        await memory.remember(ANA, BEES, category="activity", kind=kind)

    assert superuser.execute("select count(*) from mnemic.memories").fetchone() == (0,)


# -- the tool


async def test_a_models_memories_are_bounded_in_a_session_and_day(clean_db: Clone, model: LoopbackModel) -> None:
    async with scripted_memory(clean_db, model, remembers_per_session_and_day=2) as memory:
        for number, status in enumerate(("success", "success", "error")):
            text = f"Ana has boat number {number}."
            answer = await call(memory, ANA, "remember", content=text, category="activity")
            assert answer.status == status
        assert "2 memories" in str(answer.content)
        # the host's own word counts for itself
        assert not (await memory.remember(ANA, "Ana collects stamps.", category="activity")).known


MISTAKES: list[tuple[dict[str, Any], str]] = [
    ({"content": "I like tea."}, "third person"),
    ({"category": "nonsense"}, "preferences"),
    ({"importance": 9}, "importance"),
    ({"kind": "episode"}, "kind"),
    ({"scope": "session"}, "scope"),
    ({"content": None}, "content"),
]


async def test_a_mistake_of_the_model_is_answered_with_what_to_do(memory: Mnemic) -> None:
    for mistake, told in MISTAKES:
        answer = await call(memory, ANA, "remember", **{"content": BEES, "category": "activity", **mistake})

        assert answer.status == "error", mistake
        assert told in str(answer.content)
        assert "bees" not in str(answer.content)


async def test_each_role_has_the_tools_of_the_table_and_no_other(memory: Mnemic) -> None:
    whole = ["remember", "correct", "forget", "remember_procedure"]
    writing = {"supervisor": whole, "executor": ["remember_procedure"]}
    for role in ("supervisor", "planner", "stylist", "researcher", "executor"):
        for tools in (memory.tools(role), memory.middleware(role).tools):
            assert [tool.name for tool in tools] == ["memory_query", *writing.get(role, [])]
            assert all(re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", tool.name) and tool.description for tool in tools)


async def test_no_connection_is_held_while_the_embedder_answers(memory: Mnemic, model: LoopbackModel) -> None:
    pool, free = memory.resources.database.pool, []

    def vectors(request: Any) -> list[list[float]]:
        stats = pool.get_stats()
        free.append(stats["pool_size"] == stats["pool_available"])
        return [[1.0] * 384 for _ in request["input"]]

    model.answer_embeddings(vectors)
    await memory.remember(ANA, BEES, category="activity")

    assert free == [True]


# -- procedures


WRITTEN = ["1. Merge the release branch.", "Step 2: Run make ship.", " -  Check\nthe dashboard. "]


@pytest.mark.parametrize("steps", [STEPS, WRITTEN], ids=["plain", "numbered already"])
async def test_it_is_one_procedure_with_numbered_steps(
    memory: Mnemic, superuser: psycopg.Connection, steps: list[str]
) -> None:
    kept = await memory.remember(ANA, TITLE, kind="procedure", steps=steps)

    (found,) = await memory.query(ANA.model_copy(update={"role": "executor"}), TITLE, categories=["procedural"])
    assert (found.id, found.content) == (kept.id, TEXT)
    rows = superuser.execute("select kind, category, scope_key, provenance from mnemic.memories").fetchall()
    assert rows == [("procedure", "procedural", "user:ana", "asserted")]
    assert superuser.execute("select event, reason from mnemic.history").fetchall() == [("ADD", "remember_procedure")]


async def test_an_executor_keeps_one_and_the_same_one_once(memory: Mnemic, superuser: psycopg.Connection) -> None:
    first = await call(memory, ANA, "remember_procedure", role="executor", title=TITLE, steps=STEPS)
    again = await call(memory, ANA, "remember_procedure", title=TITLE, steps=STEPS)

    assert (first.artifact["known"], again.artifact["known"]) == (False, True)
    assert uuid.UUID(first.artifact["id"]) == uuid.UUID(again.artifact["id"])
    assert superuser.execute("select role from mnemic.memories").fetchall() == [("executor",)]


async def test_the_callers_own_word_may_be_everyones(memory: Mnemic) -> None:
    assert (await memory.remember(ANA, TITLE, kind="procedure", steps=STEPS, scope="agent")).scope_key == "agent:harbor"
    private = [*STEPS, "Call Ana at +49 170 1234567."]
    assert (await memory.remember(ANA, TITLE, kind="procedure", steps=private, scope="agent")).scope_key == "user:ana"
    # as long as a pasted document, and of as many lines: the caller's all the same
    flags = [f"Raise the {flag} flag of the north quay and wait for the harbor to answer." for flag in FLAGS]
    assert (
        await memory.remember(ANA, "Signal", kind="procedure", steps=flags, scope="agent")
    ).scope_key == "agent:harbor"


NO_PROCEDURES: list[tuple[Any, Any]] = [
    *[(TITLE, []), ("", STEPS), (TITLE, "Merge."), (TITLE, ["x" * 281])],
    *[(TITLE, ["Merge."] * 21), (TITLE, ["Merge the branch."] * 15)],
]


async def test_what_is_no_procedure_is_refused(memory: Mnemic, superuser: psycopg.Connection) -> None:
    for title, steps in NO_PROCEDURES:
        with pytest.raises(InvalidInputError):
            await memory.remember(ANA, title, kind="procedure", steps=steps)

    assert superuser.execute("select count(*) from mnemic.history").fetchone() == (0,)
