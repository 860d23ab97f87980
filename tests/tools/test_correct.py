"""`correct`: a memory is closed and another takes its place, in one operation, under the rules of `remember`."""

import uuid
from typing import Any

import psycopg
import pytest
from langchain_core.messages import HumanMessage

from mnemic.service.memory import Mnemic
from mnemic.state.errors import (
    CategoryRefusedError,
    ConcurrentChangeError,
    EmbeddingError,
    NotCorrectedError,
    RefusedCallError,
)
from mnemic.state.explicit import Corrected
from mnemic.state.identity import Identity
from mnemic.state.kinds import Kind
from mnemic.state.records import Memory
from mnemic.storage import memories
from tests.support.agents import call
from tests.support.audited import assert_chain_is_whole
from tests.support.loopback import LoopbackModel
from tests.support.scripted import meanwhile, scripted_memory
from tests.support.server import Clone
from tests.support.worlds import identity, operate, text_of
from tests.support.worlds import memory as new_memory
from tests.support.worlds import remember as store

ANA = identity("ana", session="s1", groups=["crew"])
OWNER = ANA.model_copy(update={"role": "owner"})
BO = identity("bo", session="s2", groups=["crew"])
FORTY, FIFTY = "Ana keeps forty bees in Oslo.", "Ana keeps fifty bees in Oslo."
DEPLOYS = "The harbor team deploys from the release branch every Friday."
MONDAYS = "The harbor team deploys from the release branch every Monday."
UNKNOWN = uuid.UUID("7d2c2f3e-6a51-4a4c-9f3c-1f8a1d7f7a10")


async def keep(memory: Mnemic, content: str = FORTY, who: Identity = ANA, **given: Any) -> uuid.UUID:
    kept = await memory.remember(who, content, **{"category": "activity", **given})
    assert kept.id
    return kept.id


async def place(memory: Mnemic, key: str, kind: Kind = "fact", who: Identity = ANA, text: str = FORTY) -> uuid.UUID:
    """A memory in a scope key, as formation would have stored it."""
    new = new_memory(text, kind=kind, key=key)
    await store(memory.resources.database, who, new)
    return new.id


async def seen(memory: Mnemic, memory_id: uuid.UUID | None) -> Memory:
    """A memory, whatever its state."""
    return next(row for row in await memory.memories(OWNER, with_closed=True) if row.id == memory_id)


async def refusal(memory: Mnemic, memory_id: uuid.UUID, content: str = FIFTY, who: Identity = ANA) -> tuple[type, str]:
    """Why it is refused; nothing was written."""
    with pytest.raises(RefusedCallError) as caught:
        await memory.correct(who, memory_id, content)
    assert FIFTY not in [row.content for row in await memory.memories(OWNER, with_closed=True)]
    return type(caught.value), str(caught.value)


def protect(superuser: psycopg.Connection, memory_id: uuid.UUID) -> None:
    superuser.execute("select mnemic.set_protection('harbor', %s, true, 'root')", (memory_id,))


async def test_a_correction_leads_to_what_it_replaced_and_back(memory: Mnemic) -> None:
    old = await memory.remember(ANA, FORTY, category="activity")
    assert old.id is not None
    new = await memory.correct(ANA, old.id, FIFTY)
    assert new.id is not None

    (found,) = [item for item in await memory.query(ANA, "bees") if item.kind == "fact"]
    assert (found.id, [*found.supersedes]) == (new.id, [old.id])
    assert (await memory.history.events(OWNER, new.id))[0].supersedes == [old.id]
    assert [event.superseded_by for event in await memory.history.events(OWNER, old.id)] == [None, new.id]
    assert [event.supersedes for event in await memory.history.events(OWNER, old.id)] == [[], []]


async def test_old_text_is_closed_with_dates_and_the_new_one_replaces_it_at_once(
    memory: Mnemic, superuser: psycopg.Connection
) -> None:
    old = await seen(memory, await keep(memory, importance=4, private=True))
    done = await memory.correct(ANA, str(old.id), f" {FIFTY}")

    assert done == Corrected(id=done.id, old_id=old.id, scope_key="user:ana")
    closed, new = await seen(memory, old.id), await seen(memory, done.id)
    assert (closed.state, closed.superseded_by, closed.valid_from) == ("superseded", new.id, old.valid_from)
    assert closed.valid_until == new.valid_from > old.valid_from
    taken_over = ("kind", "scope_key", "subject", "subject_user_id", "category", "importance", "private", "provenance")
    assert [getattr(new, name) for name in taken_over] == [getattr(old, name) for name in taken_over]
    assert (new.content, new.state, new.source_session_id) == (FIFTY, "active", "s1")
    assert [found.content for found in await memory.query(ANA, "bees in Oslo")] == [FIFTY]
    assert FORTY not in text_of((await memory.recall(ANA, "forty bees", search="always")).context)

    (added,), closing = await memory.history.events(ANA, new.id), (await memory.history.events(ANA, old.id))[-1]
    assert (added.event, closing.event, added.reason, added.session_id) == ("ADD", "SUPERSEDE", "correct", "s1")
    assert added.op_id == closing.op_id
    await memory.history.undo(ANA, added.op_id)
    assert [(row.id, row.content) for row in await memory.memories(ANA)] == [(old.id, FORTY)]
    assert [found.content for found in await memory.query(ANA, "bees in Oslo")] == [FORTY]
    assert_chain_is_whole(superuser, "harbor")


@pytest.mark.parametrize(
    ("kind", "key"),
    [("core", "user:ana"), ("reflection", "session:s1"), ("episode", "session:s1"), ("insight", "user:ana")],
)
async def test_so_does_every_other_kind_that_is_in_force(memory: Mnemic, kind: Kind, key: str) -> None:
    old = await place(memory, key, kind)
    done = await memory.correct(ANA, old, FIFTY)

    closed, new = await seen(memory, old), await seen(memory, done.id)
    assert (closed.state, closed.superseded_by) == ("superseded", new.id)
    assert (new.kind, new.scope_key, new.content, new.state) == (kind, key, FIFTY, "active")
    # an episode is dated by when it happened
    assert (new.valid_from == closed.valid_from) == (kind == "episode")


async def test_a_procedure_is_written_anew_as_its_title_and_steps(memory: Mnemic) -> None:
    kept = await memory.remember(ANA, "Make tea", kind="procedure", steps=["Boil the water.", "Pour it."])
    assert kept.id
    done = await memory.correct(OWNER, kept.id, "Make tea\n - Boil the water.\n\n7. Wait.\nPour it.")

    assert (await seen(memory, done.id)).content == "Make tea\n1. Boil the water.\n2. Wait.\n3. Pour it."
    assert done.id
    assert "a line for each step" in (await refusal(memory, done.id, "Make tea", OWNER))[1]


async def test_what_may_not_be_corrected_stays_and_the_answer_says_what_to_do(
    memory: Mnemic, superuser: psycopg.Connection
) -> None:
    guarded = await keep(memory, "Ana is never called at night.", kind="core")
    protect(superuser, guarded)
    absorbed, gone = await place(memory, "user:ana", "reflection"), await keep(memory, "Ana rows.")
    await operate(memory.resources.database, ANA, lambda tx: memories.absorb(tx, uuid.uuid4(), [absorbed]))
    await memory.correct(ANA, gone, "Ana sails.")
    cases = [
        (guarded, "administrator"),
        (await place(memory, "user:ana", "consolidation", text="Ana is brief."), "as a core memory"),
        (absorbed, "as a core memory"),
        (gone, "was replaced by"),
    ]
    for memory_id, told in cases:
        error, text = await refusal(memory, memory_id)
        assert (error, told in text) == (NotCorrectedError, True), text
        answer = await call(memory, ANA, "correct", id=str(memory_id), content=FIFTY)
        assert (answer.status, told in str(answer.content)) == ("error", True)


async def test_foreign_ids_and_hidden_categories_are_answered_as_unknown_ids(
    memory: Mnemic, superuser: psycopg.Connection
) -> None:
    foreign = await place(memory, "user:bo", who=BO)
    protect(superuser, foreign)
    other_agent = await place(memory, "user:ana", who=identity("ana", agent="museum"))
    hidden = await memory.remember(ANA, "Make tea", kind="procedure", steps=["Boil the water."])
    assert hidden.id

    assert len({await refusal(memory, item) for item in (UNKNOWN, foreign, other_agent, hidden.id)}) == 1
    planner = ANA.model_copy(update={"role": "planner"})
    assert await refusal(memory, await keep(memory), who=planner) == await refusal(memory, UNKNOWN)


async def test_unstorable_text_and_a_category_closed_to_the_role_are_refused(
    memory: Mnemic, superuser: psycopg.Connection, model: LoopbackModel
) -> None:
    old = await keep(memory)
    texts = {"I like tea.": "third person", "\u200b": "empty", " ".join(f"w{n}" for n in range(31)): "30 words"}
    for content, told in texts.items():
        assert told in (await refusal(memory, old, content))[1]
    superuser.execute("set session_replication_role = replica")
    superuser.execute("update mnemic.memories set category = 'relationship_dynamic'")  # read, and never formed
    assert (await refusal(memory, old))[0] is CategoryRefusedError
    superuser.execute("update mnemic.memories set category = 'activity'")
    await memory.admin.configure_agent(ANA, rag=False)
    assert "rag" in (await refusal(memory, old))[1]
    await memory.admin.configure_agent(ANA, rag=None)
    model.answer_embeddings(401)
    with pytest.raises(EmbeddingError):
        await memory.correct(ANA, old, FIFTY)
    assert [row.content for row in await memory.memories(ANA)] == [FORTY]


async def test_the_same_text_changes_nothing_and_a_twin_takes_the_place(memory: Mnemic, model: LoopbackModel) -> None:
    model.answer_embeddings(lambda request: [[1.0] * 384 for _ in request["input"]])
    old, twin = await keep(memory, private=True), await keep(memory, FIFTY)
    assert await memory.correct(ANA, old, FORTY) == Corrected(id=old, old_id=old, scope_key="user:ana", known=True)

    done = await memory.correct(ANA, old, FIFTY.rstrip("."))  # which says the same
    assert done == Corrected(id=twin, old_id=old, scope_key="user:ana", known=True)
    assert (await seen(memory, old)).superseded_by == twin
    assert (await seen(memory, twin)).private  # as what it stands for
    spelled = await memory.correct(ANA, twin, "Ana keeps 50 bees in Oslo.")  # the old one is not its own twin
    assert not spelled.known
    assert [row.content for row in await memory.memories(ANA)] == ["Ana keeps 50 bees in Oslo."]


async def test_hidden_duplicate_replaces_the_text_and_shows_the_role_no_id(memory: Mnemic) -> None:
    twin, old = await keep(memory), await keep(memory, "Ana keeps bees.", category="goals", private=True)
    done = await memory.correct(ANA.model_copy(update={"role": "planner"}), old, FORTY)

    assert (done.id, done.known, (await seen(memory, old)).superseded_by) == (None, True, twin)
    assert (await seen(memory, twin)).private


async def test_correct_with_an_already_remembered_text_replaces_the_old_one(memory: Mnemic) -> None:
    old = await keep(memory, "Ana lives in Oslo with two cats.")
    bergen = "Ana lives in Bergen with two cats."
    added = await call(memory, ANA, "remember", content=bergen, category="activity")
    assert (str(old) in str(added.content), "correct" in str(added.content)) == (True, True)
    done = await call(memory, ANA, "correct", id=str(old), content=bergen)

    assert done.artifact == {**added.artifact, "old_id": str(old), "known": True}
    assert [row.content for row in await memory.memories(ANA)] == [bergen]


# -- what is shared


async def test_what_is_shared_stays_shared_only_where_its_new_text_may_be(memory: Mnemic) -> None:
    old = await keep(memory, DEPLOYS, BO, category="projects", scope="group")
    assert "shared" in (await refusal(memory, old, "Ana's number is +49 170 1234567."))[1]
    answers = [
        await call(memory, ANA, "correct", said=said, id=str(old), content=content)
        for said, content in (([], QUOTED), (TALK, MONDAYS), (TALK, f"{QUOTED} night"), (TALK, QUOTED))
    ]
    assert [answer.status for answer in answers] == ["error", "error", "error", "success"]
    assert answers[-1].artifact["scope_key"] == "group:crew"
    assert [row.content for row in await memory.memories(BO)] == [QUOTED]

    await memory.privacy.erase_person(ANA)  # whose word it is
    left = await memory.memories(BO, with_closed=True)
    assert [row.content for row in left if row.content] == [DEPLOYS]
    assert "Monday" not in str(left)


async def test_in_everybodys_every_prompt_no_conversation_corrects_anything(memory: Mnemic) -> None:
    teacher = ANA.model_copy(update={"teaches_agent": True})
    core = await keep(memory, DEPLOYS, teacher, category="projects", scope="agent", kind="core")
    for content in (MONDAYS, QUOTED):
        answer = await call(memory, teacher, "correct", said=TALK, id=str(core), content=content)
        assert (answer.status, (await seen(memory, core)).state) == ("error", "active")
    assert (await memory.correct(teacher, core, MONDAYS)).scope_key == "agent:harbor"


TALK = [HumanMessage("Our harbor team deploys from the release branch every Monday")]
QUOTED = str(TALK[0].content)

# -- at once, too often, and told


@pytest.mark.parametrize("act", ["forget", "protect", "confide"])
async def test_what_changed_while_the_text_was_embedded_is_not_overwritten(
    memory: Mnemic, model: LoopbackModel, superuser: psycopg.Connection, act: str
) -> None:
    old = await keep(memory)

    async def change() -> None:
        if act == "protect":
            protect(superuser, old)
        elif act == "forget":
            await memory.forget(ANA, old)
        else:
            await operate(memory.resources.database, ANA, lambda tx: memories.make_private(tx, old))

    vectors: Any = [[1.0] * 384]
    model.answer_embeddings(meanwhile(change, vectors))
    with pytest.raises(ConcurrentChangeError if act == "confide" else NotCorrectedError):
        await memory.correct(ANA, old, FIFTY)
    assert FIFTY not in [row.content for row in await memory.memories(OWNER, with_closed=True)]


@pytest.mark.parametrize("bound", ["forgets", "remembers"])
async def test_a_correction_counts_among_what_a_session_keeps_and_forgets(
    clean_db: Clone, model: LoopbackModel, bound: str
) -> None:
    async with scripted_memory(clean_db, model, **{f"{bound}_per_session_and_day": 2}) as memory:
        boats = [await keep(memory, f"Ana has boat number {number}.") for number in range(3)]
        texts = ["Ana has a kayak.", "Ana has a ferry.", "Ana has a raft."]
        monday = ANA.model_copy(update={"session_id": "monday"})
        done = [
            await call(memory, monday, "correct", id=str(old), content=text)
            for old, text in zip(boats, texts, strict=True)
        ]
        assert [answer.status for answer in done] == ["success", "success", "error"]
        assert "2 memories" in str(done[-1].content)
        other: dict[str, Any] = {"content": FORTY, "category": "activity"}
        if bound == "forgets":
            other = {"id": str(boats[2])}
        assert (await call(memory, monday, bound.removesuffix("s"), **other)).status == "error"
        assert not (await memory.correct(identity("ana"), boats[2], texts[2])).known  # a person's own page


async def test_another_session_is_told_of_it_as_of_an_update(memory: Mnemic) -> None:
    friday, old = ANA.model_copy(update={"session_id": "friday"}), await keep(memory)
    for who in (ANA, friday):
        await memory.observe(who, [], revision=(await memory.recall(who)).revision)
    await memory.correct(ANA, old, FIFTY)

    told = text_of((await memory.recall(friday)).context)
    assert (FIFTY in told, FORTY in told, "↑updated" in told) == (True, False, True)
    assert FIFTY not in text_of((await memory.recall(ANA)).context)  # it did that itself
