"""A session belongs to its participants: its id leads a stranger to an empty session and is shown to no one else."""

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any, cast

import psycopg
import pytest

from mnemic.memory.background.jobs import form
from mnemic.memory.background.work import Work
from mnemic.memory.runtime.resources import Resources
from mnemic.service.memory import Mnemic
from mnemic.state.identity import Identity
from mnemic.storage import inbox, propagation
from tests.support.agents import call
from tests.support.loopback import LoopbackModel
from tests.support.scripted import (
    FACTS,
    REFLECTIONS,
    contents,
    fact,
    facts,
    last_prompt,
    reflection,
    reflections,
    say,
    turns,
)
from tests.support.searching import fact as stored_fact
from tests.support.searching import know
from tests.support.worlds import identity, text_of

ANA = identity("ana", session="thread-1", groups=["crew"])
BO = identity("bo", session="thread-2", groups=["crew"])
#: Another person who uses the id of Ana's session.
MALLORY = identity("mallory", session="thread-1", groups=["crew"])
SHARED = "The crew meets on Mondays at the pier."
SECRET = "I am pregnant."


async def begin(memory: Mnemic, model: LoopbackModel) -> None:
    """Form a conversation of Ana's with a session memory, and leave a message pending."""
    model.answer(FACTS, facts(fact("Ana mends sails.")))
    model.answer(REFLECTIONS, reflections(session=[reflection("Ana mends sails by hand.")]))
    await say(memory, ANA, "I mend sails.", *["assistant: You mend sails."] * 3)
    await memory.observe(ANA, [*turns(SECRET), *turns("assistant: Congratulations on it.")])


# -- no id is shown


async def mentions(memory: Mnemic, who: Identity, new_id: Any) -> str:
    """All that a member is given about a shared memory."""
    recalled = await memory.recall(who, "When does the crew meet?", search="always")
    answer = await call(memory, who, "memory_query", query="When does the crew meet?", **cast(Any, {"return": "full"}))
    listed = [
        await memory.memories(who),
        await memory.history.events(who, new_id),
        await memory.history.updates(who, 0),
    ]
    queried = await memory.query(who, "When does the crew meet?")
    past = await memory.history.as_of(who, "group:crew", 1)
    return repr([recalled, answer, listed, queried, past])


async def test_the_session_of_a_shared_memory_is_shown_to_its_author_alone(
    memory: Mnemic, resources: Resources
) -> None:
    (new,) = await know(resources, ANA, stored_fact(SHARED, "projects", key="group:crew", source_session_id="thread-1"))

    for reader in (BO, identity(None, groups=["crew"])):
        shown = await mentions(memory, reader, new.id)
        assert SHARED in shown
        assert "thread-1" not in shown
    own = await memory.memories(identity("ana", groups=["crew"]))
    assert [row.source_session_id for row in own] == ["thread-1"]
    assert "thread-1" in await mentions(memory, identity("ana", session="x", groups=["crew"]), new.id)


# -- the same id is another session


async def recalled(memory: Mnemic, who: Identity) -> str:
    return text_of((await memory.recall(who, "Who mends sails by hand?", search="always")).context)


async def listed(memory: Mnemic, who: Identity) -> str:
    return repr(await memory.privacy.messages(who)) + repr(
        await memory.privacy.messages(who, session_id=who.session_id)
    )


async def found(memory: Mnemic, who: Identity) -> str:
    return repr(await memory.query(who, "Who mends sails by hand?")) + repr(await memory.memories(who))


async def past(memory: Mnemic, who: Identity) -> str:
    operations = repr(await memory.history.operations(who)) + repr(
        await memory.history.operations(who, session_id=who.session_id)
    )
    return operations + repr(await memory.history.as_of(who, f"session:{who.session_id}", 2))


@pytest.mark.parametrize("view", [recalled, listed, found, past])
async def test_a_stranger_who_uses_the_id_reads_nothing_of_the_session(
    memory: Mnemic,
    model: LoopbackModel,
    superuser: psycopg.Connection,
    view: Callable[[Mnemic, Identity], Awaitable[str]],
) -> None:
    await begin(memory, model)
    before = await view(memory, MALLORY)
    await memory.observe(MALLORY, turns("Hello."))
    after = await view(memory, MALLORY)

    for text in (before, after):
        assert not any(word in text for word in ("sails by hand", "You mend", "Congratulations", "Ana", "~"))
    own = await view(memory, ANA)
    assert any(word in own for word in ("sails", "formation"))
    # control: without its participants the session is read by whoever names it
    superuser.execute("update mnemic.sessions set participants = participants || array['mallory']")
    superuser.execute("delete from mnemic.thread_revisions")
    opened = await view(memory, MALLORY)
    assert any(word in opened for word in ("sails", "Congratulations", "formation"))


async def test_pending_messages_are_formed_for_their_own_session_alone(
    memory: Mnemic, model: LoopbackModel, superuser: psycopg.Connection
) -> None:
    await begin(memory, model)
    assert await memory.form(MALLORY, force=True) == []
    await memory.observe(MALLORY, turns("I dive.", "assistant: Fine."))
    model.answer(FACTS, facts(fact("Mallory dives.")))
    await memory.form(MALLORY, force=True)
    assert SECRET not in last_prompt(model, FACTS)
    assert await contents(memory, identity("mallory")) == ["Mallory dives."]
    assert await contents(memory, identity("ana")) == ["Ana mends sails."]

    model.answer(FACTS, facts(fact("Ana is pregnant.")))
    await memory.form(ANA, force=True)
    assert await contents(memory, identity("ana")) == ["Ana is pregnant.", "Ana mends sails."]
    rows = superuser.execute("select distinct participants from mnemic.sessions order by 1").fetchall()
    assert rows == [(["ana"],), (["mallory"],)]


async def test_the_same_message_ids_in_two_persons_sessions_are_two_messages(memory: Mnemic) -> None:
    for who, word in ((ANA, "One."), (MALLORY, "Two.")):
        observed = await memory.observe(who, [{"id": "m1", "role": "user", "content": word}])
        assert (observed.accepted, observed.pending) == (1, 1)
        again = await memory.observe(who, [{"id": "m1", "role": "user", "content": word}])
        assert (again.accepted, again.pending) == (0, 1)
    assert [(row.content, row.session_id) for row in await memory.privacy.messages(MALLORY)] == [("Two.", "thread-1")]
    assert [(row.content, row.session_id) for row in await memory.privacy.messages(identity("mallory"))] == [
        ("Two.", "thread-1")
    ]
    assert [(row.content, row.session_id) for row in await memory.privacy.messages(ANA)] == [("One.", "thread-1")]


async def test_an_id_that_was_taken_in_advance_blocks_no_one(memory: Mnemic, model: LoopbackModel) -> None:
    await memory.observe(MALLORY, turns("I was here first."))
    await begin(memory, model)
    assert "sails by hand" in await recalled(memory, ANA)
    assert [run.formed for run in await memory.form(ANA, force=True)] == [2]
    undone = await memory.history.undo_session(ANA, "thread-1", datetime(2020, 1, 1, tzinfo=UTC), dry_run=True)
    assert undone.changes


async def test_people_join_a_session_as_named_members_or_by_speaking_in_it(
    memory: Mnemic, model: LoopbackModel
) -> None:
    await begin(memory, model)
    bo = BO.model_copy(update={"session_id": "thread-1"})
    assert "by hand" not in await recalled(memory, bo)
    await memory.observe(ANA.model_copy(update={"members": ("bo",)}), turns("Bo is here, too."))
    assert "by hand" in await recalled(memory, bo)
    await memory.observe(ANA, turns("I dive.", user="cleo", minutes=9), several_speakers=True)
    assert "by hand" in await recalled(memory, identity("cleo", session="thread-1"))
    assert "by hand" not in await recalled(memory, MALLORY)


async def test_background_work_tells_the_sessions_of_one_id_apart(
    memory: Mnemic, resources: Resources, superuser: psycopg.Connection
) -> None:
    """Or what was typed outside of a group would count as typed in the group's session of the same id."""
    await memory.observe(ANA, turns("The crew meets on Mondays."))
    await memory.observe(identity("mallory", session="thread-1"), turns("I meet on Mondays."))
    superuser.execute('update mnemic.sessions set identity = identity || \'{"members": ["mallory"]}\'')
    async with resources.database.transaction(identity("mallory")) as tx:
        rows = await tx.rows(dict, "select session_id from messages where user_id = 'mallory'", {})
        typed_in = [row["session_id"] for row in rows]
        assert await propagation.session_groups(tx, typed_in, "mallory") == {}
        # control: by the id that the host knows it is the group's session
        assert await propagation.session_groups(tx, ["thread-1"], "mallory") == {"thread-1": "crew"}


async def test_a_job_forms_each_session_of_an_id_as_its_own_user(
    memory: Mnemic, model: LoopbackModel, resources: Resources
) -> None:
    await begin(memory, model)
    await memory.observe(MALLORY, turns("I dive.", "assistant: Fine."))
    work = Work(resources, *cast(Any, (None, None)))
    users = set()
    for target in await form.find_due(work, datetime(2100, 1, 1, tzinfo=UTC)):
        found = await form.session_of_target(work, target)
        assert found
        users.add(found[0].user_id)
        async with resources.database.transaction(found[0]) as tx:
            box = await inbox.read_inbox(tx, found[0].session_id or "", limit=9)
        assert {message.user_id for message in box.messages} - {None} == {found[0].user_id}
    assert users == {"ana", "mallory"}


async def begin_as_mallory(memory: Mnemic, model: LoopbackModel) -> None:
    """Form a conversation of Ana's, and one of Mallory's in a session of the same id."""
    await begin(memory, model)
    model.answer(FACTS, facts(fact("Mallory dives.")))
    model.answer(REFLECTIONS, reflections(session=[reflection("Mallory dives alone.")]))
    await say(memory, MALLORY, "I dive.", *["assistant: You dive."] * 3)


async def test_a_session_of_a_used_id_is_restored_under_the_id_of_the_host(
    memory: Mnemic, model: LoopbackModel
) -> None:
    await begin_as_mallory(memory, model)

    restored = await memory.history.restore(MALLORY, "session:thread-1", 0)

    assert [(change.scope_key, change.after) for change in restored.changes] == [("session:thread-1", "soft_deleted")]
    assert [row.content for row in await memory.memories(MALLORY)] == ["Mallory dives."]
    assert "sails by hand" in repr(await memory.memories(ANA))


async def test_the_plan_of_an_erasure_names_a_session_by_the_id_of_the_host(
    memory: Mnemic, model: LoopbackModel
) -> None:
    await begin_as_mallory(memory, model)
    planned = await memory.privacy.erase_person(identity("mallory"), dry_run=True)
    assert {item.scope_key for item in planned.going} == {"user:mallory", "session:thread-1"}
