"""`forget`: one's own unprotected memories, softly, a few a day; whatever else is answered as if it did not exist."""

import asyncio
import uuid
from typing import LiteralString

import psycopg
import pytest

from mnemic.memory.explicit import forget as forgetting
from mnemic.memory.runtime import access
from mnemic.service.memory import Mnemic
from mnemic.state.errors import InvalidInputError, NotForgottenError
from mnemic.state.identity import Identity
from mnemic.state.kinds import Kind
from mnemic.state.results import Forgotten
from mnemic.storage import memories
from tests.support.agents import call
from tests.support.audited import assert_chain_is_whole
from tests.support.loopback import LoopbackModel
from tests.support.mutating import worsen
from tests.support.scripted import DECISIONS, FACTS, contents, decisions, fact, facts, say, scripted_memory, turns
from tests.support.server import Clone
from tests.support.worlds import identity, operate
from tests.support.worlds import memory as new_memory
from tests.support.worlds import remember as store

ANA = identity("ana", session="s1", groups=["crew"])
BO = identity("bo", session="s2", groups=["crew"])
BEES = "Ana keeps forty bees in Oslo."
UNKNOWN = uuid.UUID("7d2c2f3e-6a51-4a4c-9f3c-1f8a1d7f7a10")


async def place(memory: Mnemic, who: Identity, key: str, kind: Kind = "fact", text: str = BEES) -> uuid.UUID:
    """A memory in a scope key, as formation would have stored it."""
    new = new_memory(text, kind=kind, key=key)
    await store(memory.resources.database, who, new)
    return new.id


def state_of(superuser: psycopg.Connection, memory_id: uuid.UUID) -> str:
    row = superuser.execute("select state from mnemic.memories where id = %s", (memory_id,)).fetchone()
    assert row is not None
    return str(row[0])


async def test_a_forgotten_memory_leaves_search_and_stays_in_history(
    memory: Mnemic, superuser: psycopg.Connection
) -> None:
    kept = await memory.remember(ANA, BEES, category="activity")
    assert kept.id
    assert (await memory.forget(ANA, kept.id)).changed

    assert await memory.query(ANA, "bees") == []
    assert await contents(memory, ANA) == []
    assert state_of(superuser, kept.id) == "soft_deleted"
    events = [(event.event, event.reason, event.session_id) for event in await memory.history.events(ANA, kept.id)]
    assert events == [("ADD", "remember", "s1"), ("DELETE", "forget", "s1")]
    assert superuser.execute("select searchable from mnemic.entries").fetchall() == [(False,)]
    assert_chain_is_whole(superuser, "harbor")


async def test_every_kind_of_user_and_session_can_be_forgotten_even_if_absorbed(
    memory: Mnemic, superuser: psycopg.Connection
) -> None:
    kinds: tuple[Kind, ...] = ("core", "reflection", "episode", "insight")
    ids = [await place(memory, ANA, key, kind) for key in ("user:ana", "session:s1") for kind in kinds]
    await operate(memory.resources.database, ANA, lambda tx: memories.absorb(tx, uuid.uuid4(), ids[1:2]))

    assert [await memory.forget(ANA, str(item)) for item in ids] == [Forgotten(id=item, changed=True) for item in ids]
    assert {state_of(superuser, item) for item in ids} == {"soft_deleted"}
    assert await memory.query(ANA, "bees") == []


async def test_forgotten_memory_does_not_return_in_its_source_words(memory: Mnemic, model: LoopbackModel) -> None:
    await memory.admin.configure_agent(ANA, keep_messages="sources")
    model.answer(DECISIONS, decisions())
    model.answer(FACTS, facts(fact(BEES, 1), fact("Ana has a boat.", 2), fact("The boat of Ana is red.", 2)))
    said = ("I keep forty bees in Oslo.", "I have a red boat.", "So it is.", "Good.", "Well.", "Yes.", "No.", "Ah.")
    await memory.observe(ANA, turns(*said))
    await memory.form(ANA)
    bees, boat, red = [await _id_of(memory, text) for text in (BEES, "Ana has a boat.", "The boat of Ana is red.")]
    assert said[0] in await _found(memory, "bees")

    await memory.forget(ANA, bees)
    assert await _found(memory, "bees") == []
    await memory.forget(ANA, boat)
    assert said[1] in await _found(memory, "boat"), "another living memory rests on it"
    await memory.forget(ANA, red)
    assert await _found(memory, "boat") == []


async def test_a_role_that_may_not_read_messages_hides_them_all_the_same(memory: Mnemic, model: LoopbackModel) -> None:
    model.answer(FACTS, facts(fact(BEES, category="tasks")), facts())
    await say(memory, ANA, "I keep forty bees in Oslo.")
    (kept,) = await memory.memories(ANA, ["fact"])

    assert (await memory.forget(ANA.model_copy(update={"role": "planner"}), kept.id)).changed
    assert await memory.query(ANA, "bees in Oslo") == []


async def _id_of(memory: Mnemic, text: str) -> uuid.UUID:
    return next(row.id for row in await memory.memories(ANA, ["fact"]) if row.content == text)


async def _found(memory: Mnemic, question: str) -> list[str]:
    return [found.content for found in await memory.query(ANA, question, search_type="text")]


# -- what it does not reach


async def refusal(memory: Mnemic, who: Identity, memory_id: uuid.UUID) -> tuple[type, str]:
    with pytest.raises((InvalidInputError, NotForgottenError)) as caught:
        await memory.forget(who, memory_id)
    return type(caught.value), str(caught.value)


async def test_foreign_ids_and_hidden_categories_are_answered_as_unknown_ids(
    memory: Mnemic, superuser: psycopg.Connection
) -> None:
    foreign = [
        await place(memory, BO, "user:bo"),
        await place(memory, BO, "session:s2", "episode"),
        await place(memory, identity("ana", agent="museum"), "user:ana"),
    ]
    procedure = await memory.remember(ANA, "Make tea", kind="procedure", steps=["Boil the water."])
    assert procedure.id
    protected = await place(memory, BO, "user:bo", text="Bo keeps forty hens.")
    superuser.execute("select mnemic.set_protection('harbor', %s, true, 'root')", (protected,))
    planner = ANA.model_copy(update={"role": "planner"})
    answers = {await refusal(memory, ANA, item) for item in [UNKNOWN, *foreign, procedure.id, protected]}
    answers |= {await refusal(memory, planner, await place(memory, ANA, "user:ana"))}  # of the category profile
    core = await memory.remember(ANA, "Ana ships the catalogue in May.", category="goals", kind="core")
    assert core.id
    answers |= {await refusal(memory, planner, core.id)}  # of the standing part, which it does not read

    assert len(answers) == 1, answers
    for kept in [*foreign, procedure.id, protected, core.id]:
        assert state_of(superuser, kept) == "active"


SEEN_BY_ALL: LiteralString = (
    "alter policy service on mnemic.memories using (true); alter policy service on mnemic.entries using (true)"
)


@pytest.mark.thorough
async def test_control_without_policies_and_keys_a_foreign_memory_is_forgotten(
    fresh_db: Clone, model: LoopbackModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    worsen(monkeypatch, memories, find=("and scope_key = any(%(scope_keys)s)", ""))
    async with scripted_memory(fresh_db, model) as memory:
        foreign = await place(memory, BO, "user:bo")
        assert await refusal(memory, ANA, foreign) == await refusal(memory, ANA, UNKNOWN), "the policies hold alone"
        with fresh_db.as_superuser() as superuser:
            superuser.execute(SEEN_BY_ALL)

        assert (await memory.forget(ANA, foreign)).changed


ALL_CATEGORIES: LiteralString = (
    "alter policy service on mnemic.memories using (scope_key = any"
    " ((select nullif(current_setting('mnemic.scope_keys', true), ''))::text[]))"
)


@pytest.mark.thorough
@pytest.mark.parametrize("fallen", ["policy", "code", "policy and code"])
async def test_categories_are_kept_by_two_walls(
    fresh_db: Clone, model: LoopbackModel, monkeypatch: pytest.MonkeyPatch, fallen: str
) -> None:
    """Each of them alone keeps what the role may not read; with both of them gone it would be forgotten."""
    if "code" in fallen:
        monkeypatch.setattr(access, "is_visible", lambda *_: True)
    async with scripted_memory(fresh_db, model) as memory:
        profile = await place(memory, ANA, "user:ana")
        if "policy" in fallen:
            with fresh_db.as_superuser() as superuser:
                superuser.execute(ALL_CATEGORIES)
        planner = ANA.model_copy(update={"role": "planner"})

        if fallen == "policy and code":
            assert (await memory.forget(planner, profile)).changed
        else:
            assert await refusal(memory, planner, profile) == await refusal(memory, planner, UNKNOWN)


@pytest.mark.parametrize(
    ("key", "kind", "protected", "reason"),
    [
        ("group:crew", "fact", False, "shared"),
        ("agent:harbor", "core", False, "shared"),
        ("user:ana", "consolidation", False, "rewritten"),
        ("user:ana", "core", True, "protected"),
    ],
)
async def test_what_may_not_be_forgotten_stays_and_the_answer_says_why(
    memory: Mnemic, superuser: psycopg.Connection, key: str, kind: Kind, protected: bool, reason: str
) -> None:
    memory_id = await place(memory, ANA, key, kind)
    if protected:
        superuser.execute("select mnemic.set_protection('harbor', %s, true, 'root')", (memory_id,))
    answer = await call(memory, ANA, "forget", id=str(memory_id))

    assert (answer.status, reason in str(answer.content)) == ("error", True)
    assert (await refusal(memory, ANA, memory_id))[0] is NotForgottenError
    assert state_of(superuser, memory_id) == "active"


@pytest.mark.thorough
async def test_control_without_the_look_at_its_scope_it_would_be(
    memory: Mnemic, superuser: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forgetting, "_obstacle", lambda memory: None)
    memory_id = await place(memory, ANA, "group:crew")
    await memory.forget(ANA, memory_id)

    assert state_of(superuser, memory_id) == "soft_deleted"


# -- again, at once, and too often


async def test_eight_concurrent_forgets_forget_once_and_remove_the_memory(
    memory: Mnemic, superuser: psycopg.Connection
) -> None:
    memory_id = await place(memory, ANA, "user:ana")
    done = await asyncio.gather(*(memory.forget(ANA, memory_id) for _ in range(8)))
    again = await call(memory, ANA, "forget", id=str(memory_id))

    assert sorted(result.changed for result in done) == [False] * 7 + [True]
    assert (again.status, again.artifact["changed"], "gone already" in str(again.content)) == ("success", False, True)
    assert superuser.execute("select count(*) from mnemic.history where event = 'DELETE'").fetchone() == (1,)


@pytest.mark.thorough
async def test_control_without_the_version_it_would_be_recorded_more_than_once(
    memory: Mnemic, superuser: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory_id = await place(memory, ANA, "user:ana")
    async with memory.resources.database.transaction(ANA) as tx:
        read = await memories.find(tx, memory_id)
    assert read
    worsen(monkeypatch, memories, forget=("version = %(version)s", "%(version)s > 0"))
    worsen(monkeypatch, memories, forget=("state in ('active', 'absorbed')", "true"))
    for _ in range(2):
        await operate(memory.resources.database, ANA, lambda tx: memories.forget(tx, read))

    assert superuser.execute("select count(*) from mnemic.history where event <> 'ADD'").fetchone() == (2,)


@pytest.mark.parametrize("session", ["s1", None])
async def test_no_conversation_has_more_forgotten_than_so_many_a_day(
    clean_db: Clone, model: LoopbackModel, superuser: psycopg.Connection, session: str | None
) -> None:
    async with scripted_memory(clean_db, model, forgets_per_session_and_day=3) as memory:
        who = identity("ana", session=session)
        ids = [await place(memory, who, "user:ana", text=f"Ana has boat number {number}.") for number in range(6)]
        answers = await asyncio.gather(*(call(memory, who, "forget", id=str(item)) for item in ids))

        assert sorted(answer.status for answer in answers) == ["error"] * 3 + ["success"] * 3
        # a person's own page is no conversation
        first, second, _ = [item for item, answer in zip(ids, answers, strict=True) if answer.status == "error"]
        assert (await memory.forget(identity("ana"), first)).changed
        with superuser.transaction():
            superuser.execute("set local session_replication_role = replica")
            superuser.execute("update mnemic.history set ts = ts - interval '1 day'")
        assert (await call(memory, who, "forget", id=str(second))).artifact["changed"]
