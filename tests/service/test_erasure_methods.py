"""`Mnemic.erase`, `Mnemic.erase_person` and `Administration.purge`: who may, what is answered, what is refused."""

import uuid
from typing import Any

import psycopg
import pytest

from mnemic.service.governance.administration import Administration
from mnemic.service.memory import Mnemic
from mnemic.state.errors import ConfigurationError, InvalidInputError
from mnemic.state.identity import Identity
from mnemic.state.records import ScopeSettings
from mnemic.storage.database import Database
from tests.support.erasing import ANA, expire, form
from tests.support.loopback import LoopbackModel
from tests.support.scripted import FACTS, fact, facts, say
from tests.support.server import Clone
from tests.support.worlds import AGENT, identity, message, remember
from tests.support.worlds import memory as stored

BO = identity("bo", session="s9")


async def kept(service: Mnemic, model: LoopbackModel, who: Identity, text: str) -> uuid.UUID:
    model.answer(FACTS, facts(fact(text)))
    await say(service, who, "Well, I do")
    (one,) = [one for one in await service.memories(who, ["fact"]) if one.content == text]
    return one.id


async def test_what_is_erased_is_found_no_more_and_its_history_says_when(memory: Mnemic, model: LoopbackModel) -> None:
    bees = await kept(memory, model, ANA, "Ana keeps bees.")
    assert (await memory.erase(ANA, str(bees))).erased == (bees,)
    assert await memory.memories(ANA, with_closed=False) == []
    assert await memory.query(ANA, "bees well") == []
    assert (await memory.recall(ANA, "bees", search="always"))["context"] == ""
    told = await memory.history(ANA, bees)
    assert [(one.event, one.before, one.after or None) for one in told] == [("ADD", None, None), ("ERASE", None, None)]
    assert (await memory.erase(ANA, bees)).erased == ()
    assert not await memory.forget(ANA, bees)


async def test_anothers_ids_are_as_unknown_ones_and_stay(memory: Mnemic, model: LoopbackModel) -> None:
    bees = await kept(memory, model, ANA, "Ana keeps bees.")
    for other in (BO, identity("bo", session="s1"), identity("ana", agent="museum")):
        assert (await memory.erase(other, bees, uuid.uuid4())).erased == ()
        assert (await memory.erase_person(other)).erased == ()
    assert [one.id for one in await memory.memories(ANA, ["fact"])] == [bees]


async def test_erasing_a_person_takes_their_settings_and_nobody_elses(
    memory: Mnemic, model: LoopbackModel, superuser: psycopg.Connection
) -> None:
    hers, his = await kept(memory, model, ANA, "Ana keeps bees."), await kept(memory, model, BO, "Bo sails.")
    for who, key in ((ANA, "user:ana"), (BO, "user:bo")):
        await memory.configure_scope(who, ScopeSettings(scope_key=key, name="Somebody", extraction_guidance="Briefly."))
    assert (await memory.erase_person(ANA)).erased == (hers,)
    assert [one.id for one in await memory.memories(BO, ["fact"])] == [his]
    named = superuser.execute("select scope_key, name from mnemic.scopes where extraction_guidance is not null")
    assert named.fetchall() == [("user:bo", "Somebody")]


async def test_a_session_alone_takes_its_own_memories_and_no_persons_words(
    db: Database, memory: Mnemic, superuser: psycopg.Connection
) -> None:
    said, answer = message("Well"), message("Good", user=None, role="assistant")
    task = stored("The list is open.", kind="reflection", key="session:s1", sources=[said, answer])
    await form(db, ANA, [said, answer], task)
    assert (await memory.erase(identity(None, session="s1"), task.id)).erased == (task.id,)
    left = superuser.execute("select id, content from mnemic.messages where content is not null").fetchall()
    assert left == [(said.id, "Well")]


async def expired(db: Database, superuser: psycopg.Connection, *texts: str) -> list[uuid.UUID]:
    """Memories that time has closed."""
    new = [stored(text) for text in texts]
    await remember(db, ANA, *new)
    expire(superuser, *(one.id for one in new))
    return sorted(one.id for one in new)


def administration(clone: Clone, **settings: Any) -> Any:
    return Administration.open(admin_url=clone.dsn_of("mnemic_admin"), **settings)


async def test_nothing_is_purged_unless_that_is_set(
    db: Database, clean_db: Clone, superuser: psycopg.Connection
) -> None:
    await expired(db, superuser, "Ana keeps bees.")
    async with administration(clean_db) as office:
        with pytest.raises(ConfigurationError, match="MNEMIC_RETENTION_PURGE_AFTER_DAYS"):
            await office.purge(AGENT)
    assert superuser.execute("select state from mnemic.memories").fetchall() == [("soft_deleted",)]


async def test_a_purge_waits_for_as_many_days_as_are_set(
    db: Database, clean_db: Clone, superuser: psycopg.Connection
) -> None:
    ids = await expired(db, superuser, "Ana keeps bees.", "Ana sings.")
    await remember(db, identity("ana", agent="museum"), stored("Ana paints."))
    async with administration(clean_db, retention_purge_after_days=30, actor="keeper") as office:
        assert await office.purge(AGENT) == []
        # as if they had expired 31 days ago; the trigger of the history is off for this
        with superuser.transaction():
            superuser.execute("set local session_replication_role = replica")
            superuser.execute("update mnemic.history set ts = ts - interval '31 days' where reason = 'ttl'")
        assert await office.purge("museum") == []
        assert await office.purge(AGENT) == ids
        assert await office.purge(AGENT) == []
    purged = superuser.execute("select event, actor, actor_kind, reason from mnemic.history where event = 'PURGE'")
    assert purged.fetchall() == [("PURGE", "keeper", "admin", "retention")] * 2
    assert superuser.execute("select content from mnemic.memories where state <> 'purged'").fetchall() == [
        ("Ana paints.",)
    ]


async def test_a_purge_of_no_agent_is_refused(clean_db: Clone) -> None:
    async with administration(clean_db, retention_purge_after_days=1) as office:
        for agent in ("", None, 5, "a\x00b"):
            with pytest.raises(InvalidInputError):
                await office.purge(agent)
