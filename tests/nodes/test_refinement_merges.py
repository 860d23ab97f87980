"""What a merge keeps of the merged, what it leaves of them, and how it is taken back."""

from dataclasses import replace
from typing import Any, LiteralString

import psycopg
import pytest

from mnemic.operations.run.resources import Resources
from mnemic.service.memory import Mnemic
from mnemic.state.records import IndexedText, NewMemory
from mnemic.storage import inbox, memories
from mnemic.storage.database import Scoped
from tests.support.loopback import LoopbackModel
from tests.support.played_refinements import (
    ANA,
    BOTH,
    ENGLISH,
    KEY,
    OSLO,
    SHORT,
    columns,
    delete,
    drafts,
    keep,
    living,
    merge,
    newest,
    play,
    update,
)
from tests.support.worlds import MORNING, identity, message, operate
from tests.support.worlds import memory as draft

ME = identity("ana", session="s1")
FERRY, BERTH = "Mara asked for the ferry to Bergen.", "Mara pays for the berth in Porto."


async def told_by(resources: Resources, *texts: str) -> list[NewMemory]:
    """Core memories, each formed from a message of its own, which is kept and searched."""
    said = [message(f"I say that {text}") for text in texts]
    new = [replace(one, source_message_ids=(said[place].id,)) for place, one in enumerate(drafts(*texts))]

    async def form(scoped: Scoped) -> None:
        await inbox.observe(scoped, "s1", said)
        await inbox.index_messages(scoped, "m", [IndexedText(item_id=one.id, text=one.content) for one in said])
        await memories.insert(scoped, new, model="m", vectors={}, run_id=None)

    await operate(resources.database, ME, form)
    return new


async def messages_found(service: Mnemic, query: str) -> list[str]:
    found = await service.query(ME, query, categories=["message"], search_type="text")
    return sorted(one.content for one in found)


async def set_columns(service: Mnemic, one: NewMemory, assignments: LiteralString) -> None:
    """As the service's role."""
    statement: Any = f"update memories set {assignments} where id = '{one.id}'"
    await operate(service._resources.database, ANA, lambda scoped: scoped.execute(statement, {}))


async def test_a_merge_is_as_old_as_the_oldest_as_important_and_confidential_as_any(
    memory: Mnemic, model: LoopbackModel, superuser: psycopg.Connection
) -> None:
    kinds = [
        replace(draft(SHORT, kind="reflection"), importance=2, category="preferences"),
        replace(draft(ENGLISH, kind="core"), importance=5, category="preferences"),
        replace(draft("Ana wants tables.", kind="core"), importance=1, private=True, category="profile"),
    ]
    made = await keep(memory, *kinds)
    await set_columns(memory, made[1], "pinned = true, tags = '{tone,answers}'")
    await set_columns(memory, made[2], "tags = '{answers,tables}'")

    await play(memory, model, merge(3, 1, 2, into="Ana wants short answers in English, with tables."))

    merged = newest(superuser, "Ana wants short answers in English, with tables.")
    assert columns(superuser, merged, "kind", "provenance", "importance", "pinned", "private", "protected", "tags") == (
        *("core", "consolidated", 5, True, True, False),
        ["answers", "tables", "tone"],
    )
    assert columns(superuser, merged, "valid_from", "scope_key", "category", "subject", "actor_id", "role") == (
        *(MORNING, KEY, "profile", "Ana", "ana", "supervisor"),
    )
    states = [columns(superuser, one.id, "state", "superseded_by") for one in made]
    assert states == [("soft_deleted", None)] * 3


@pytest.mark.parametrize(
    ("categories", "merged"),
    [
        (["knowledge", "knowledge", "profile"], "profile"),  # a researcher reads knowledge, and nobody else profiles
        (["tasks", "constraints"], "constraints"),
        (["profile", "goals"], "profile"),
        (["interests", "knowledge", "knowledge"], "knowledge"),
    ],
)
async def test_a_merge_goes_to_the_category_that_the_fewest_roles_read(
    memory: Mnemic, model: LoopbackModel, superuser: psycopg.Connection, categories: list[str], merged: str
) -> None:
    texts = (SHORT, ENGLISH, "Ana wants tables.")
    new = [replace(draft(text, kind="core"), category=name) for text, name in zip(texts, categories, strict=False)]
    await keep(memory, *new)

    await play(memory, model, merge(*range(1, len(new) + 1)))

    assert columns(superuser, newest(superuser, BOTH), "category") == (merged,)


async def test_a_merge_keeps_whom_it_is_about(
    memory: Mnemic, model: LoopbackModel, superuser: psycopg.Connection
) -> None:
    about = [draft(text, kind="core", subject_user="ana") for text in (SHORT, ENGLISH)]
    await keep(memory, *about, key="agent:harbor")

    await play(memory, model, merge(1, 2), key="agent:harbor")

    assert columns(superuser, newest(superuser, BOTH), "subject_user_id", "scope_key") == ("ana", "agent:harbor")


async def test_a_merge_rests_on_all_that_was_said_and_that_stays_searched(
    memory: Mnemic, resources: Resources, model: LoopbackModel, superuser: psycopg.Connection
) -> None:
    new = await told_by(resources, FERRY, BERTH)

    await play(memory, model, merge(1, 2, into="Mara asked for the Bergen ferry and pays the Porto berth."))

    assert await messages_found(memory, "Mara") == [f"I say that {text}" for text in (FERRY, BERTH)]
    merged = newest(superuser, "Mara asked for the Bergen ferry and pays the Porto berth.")
    rests = superuser.execute("select count(*) from mnemic.sources where memory_id = %s", (merged,)).fetchone()
    assert rests == (2,)
    came = superuser.execute(
        "select to_id, relation_type from mnemic.relations where from_id = %s", (merged,)
    ).fetchall()
    assert sorted(came) == sorted((one.id, "merged_from") for one in new)


async def test_what_was_said_is_searched_no_more_once_the_last_that_rests_on_it_goes(
    memory: Mnemic, resources: Resources, model: LoopbackModel
) -> None:
    await told_by(resources, FERRY, BERTH, SHORT, ENGLISH, OSLO)  # of five two may go

    await play(memory, model, merge(1, 2, into="Mara: Bergen ferry, Porto berth."), delete(6))

    assert await messages_found(memory, "Mara") == []


async def test_a_merge_may_say_what_one_of_the_merged_said(memory: Mnemic, model: LoopbackModel) -> None:
    await keep(memory, SHORT, ENGLISH, OSLO, FERRY, BERTH)

    told, _ = await play(memory, model, merge(1, 2, into=SHORT), merge(3, 6, into="Ana sails from Oslo; 9 May 2026."))

    assert told[0].startswith("[1], [2] became [6]")
    assert told[1].startswith("[3], [6] became [7]")
    assert await living(memory) == sorted(["Ana sails from Oslo; 9 May 2026.", FERRY, BERTH])


async def test_a_merge_into_what_a_third_one_says_is_refused_and_names_it(memory: Mnemic, model: LoopbackModel) -> None:
    await keep(memory, SHORT, ENGLISH, "Ana wants it short.")

    told, _ = await play(memory, model, merge(1, 2, into="Ana wants it short."))

    assert told[0].startswith(
        "Refused: [3] says exactly this already: delete what is superfluous, or write another text"
    )
    assert await living(memory) == sorted([SHORT, ENGLISH, "Ana wants it short."])


async def test_one_call_restores_what_was_merged(
    memory: Mnemic, model: LoopbackModel, superuser: psycopg.Connection
) -> None:
    made = await keep(memory, SHORT, ENGLISH, OSLO)
    await play(memory, model, merge(1, 2), update(3, "Ana sails from Oslo on 9 May '26."))
    ((merging,),) = superuser.execute("select distinct op_id from mnemic.history where reason = 'merge'").fetchall()

    rolled = await memory.undo(ANA, merging)

    assert {change.memory_id for change in rolled.changes} >= {made[0].id, made[1].id}
    assert await living(memory) == sorted([SHORT, ENGLISH, "Ana sails from Oslo on 9 May '26."])
    assert superuser.execute("select count(*) from mnemic.relations").fetchone() == (0,)
