"""What a merge keeps of the merged, what it leaves of them, and how it is taken back."""

from dataclasses import replace
from typing import Any

import psycopg

from mnemic.operations.run.resources import Resources
from mnemic.service.memory import Mnemic
from mnemic.state.records import IndexedText, Memory, NewMemory
from mnemic.storage import inbox, memories
from mnemic.storage.transaction import ScopedTransaction
from tests.support.loopback import LoopbackModel
from tests.support.played_refinements import (
    ANA,
    BOTH,
    ENGLISH,
    KEY,
    OSLO,
    SHORT,
    delete,
    drafts,
    keep,
    living,
    merge,
    play,
    update,
)
from tests.support.worlds import MORNING, identity, message, operate
from tests.support.worlds import memory as draft

ME = identity("ana", session="s1")
FERRY, BERTH = "Mara asked for the ferry to Bergen.", "Mara pays for the berth in Porto."


async def merged(service: Mnemic, text: str = BOTH) -> Memory:
    """The memory that says this."""
    (found,) = [one for one in await service.memories(ANA, ["core"]) if one.content == text]
    return found


async def formed(resources: Resources, *texts: str) -> list[NewMemory]:
    """Core memories, each formed from a message of its own, which is kept and searched."""
    sent = [message(f"I say that {text}") for text in texts]
    new = [replace(one, source_message_ids=(sent[place].id,)) for place, one in enumerate(drafts(*texts))]

    async def form(scoped: ScopedTransaction) -> None:
        await inbox.observe(scoped, "s1", sent)
        await inbox.index_messages(scoped, "m", [IndexedText(item_id=one.id, text=one.content) for one in sent])
        await memories.insert(scoped, new, model="m", vectors={}, run_id=None)

    await operate(resources.database, ME, form)
    return new


async def messages_found(service: Mnemic, query: str) -> list[str]:
    found = await service.query(ME, query, categories=["message"], search_type="text")
    return sorted(one.content for one in found)


async def test_a_merge_is_as_old_as_the_oldest_as_important_and_confidential_as_any(
    memory: Mnemic, model: LoopbackModel, superuser: psycopg.Connection
) -> None:
    made = await keep(
        memory,
        replace(draft(SHORT, kind="reflection"), importance=2, category="preferences"),
        replace(draft(ENGLISH, kind="core"), importance=5, category="preferences"),
        replace(draft("Ana wants tables.", kind="core"), importance=1, private=True, category="profile"),
    )
    marks: Any = (
        "update memories set pinned = (id = %(one)s), tags = case when id = %(one)s then array['tone', 'answers']"
        " else array['answers'] end where kind = 'core'"
    )
    await operate(memory.resources.database, ANA, lambda scoped: scoped.execute(marks, {"one": made[1].id}))

    await play(memory, model, merge(3, 1, 2))

    found = await merged(memory)
    assert (found.kind, found.provenance, found.importance, found.pinned, found.private, found.protected) == (
        *("core", "consolidated", 5, True, True, False),
    )
    assert (found.valid_from, found.scope_key, found.category, found.subject) == (MORNING, KEY, "profile", "Ana")
    assert await living(memory, "core", "reflection") == [BOTH]
    tags = superuser.execute("select tags from mnemic.memories where id = %s", (found.id,)).fetchone()
    assert tags == (["answers", "tone"],)


async def test_a_merge_goes_to_the_category_that_the_fewest_roles_read(memory: Mnemic, model: LoopbackModel) -> None:
    """A researcher reads knowledge, and nobody else reads profiles."""
    new = [replace(draft(text, kind="core"), category="knowledge") for text in (SHORT, ENGLISH)]
    await keep(memory, *new, draft("Ana wants tables.", kind="core"))

    await play(memory, model, merge(1, 2, 3))

    assert (await merged(memory)).category == "profile"


async def test_a_merge_keeps_whom_it_is_about(memory: Mnemic, model: LoopbackModel) -> None:
    about = [draft(text, kind="core", subject_user="ana") for text in (SHORT, ENGLISH)]
    await keep(memory, *about, key="agent:harbor")

    await play(memory, model, merge(1, 2), key="agent:harbor")

    found = await merged(memory)
    assert (found.subject_user_id, found.scope_key) == ("ana", "agent:harbor")


async def test_a_merge_rests_on_all_messages_of_the_merged_until_the_last_of_them_goes(
    memory: Mnemic, resources: Resources, model: LoopbackModel, superuser: psycopg.Connection
) -> None:
    new = await formed(resources, FERRY, BERTH, SHORT, ENGLISH, OSLO)  # of five two may be removed

    await play(memory, model, merge(1, 2, into="Mara asked for the Bergen ferry and pays the Porto berth."))

    assert await messages_found(memory, "Mara") == [f"I say that {text}" for text in (FERRY, BERTH)]
    relations = superuser.execute("select to_id, relation_type from mnemic.relations").fetchall()
    assert sorted(relations) == sorted((one.id, "merged_from") for one in new[:2])

    await play(memory, model, delete(1))

    assert await messages_found(memory, "Mara") == []


async def test_a_merge_may_say_what_one_of_the_merged_said_and_nothing_that_a_third_one_says(
    memory: Mnemic, model: LoopbackModel
) -> None:
    await keep(memory, SHORT, ENGLISH, OSLO, FERRY, BERTH)

    (twin, own), _ = await play(memory, model, merge(1, 2, into=OSLO), merge(1, 2, into=SHORT))

    assert twin.startswith("Refused: [3] ")
    assert own.startswith("[1], [2] became [6]")
    assert await living(memory) == sorted([SHORT, OSLO, FERRY, BERTH])


async def test_one_call_restores_what_was_merged(memory: Mnemic, model: LoopbackModel) -> None:
    made = await keep(memory, SHORT, ENGLISH, OSLO)
    await play(memory, model, merge(1, 2), update(3, "Ana sails from Oslo on 9 May '26."))
    merging = (await memory.history(ANA, made[0].id))[-1].op_id

    rolled = await memory.undo(ANA, merging)

    assert {change.memory_id for change in rolled.changes} >= {made[0].id, made[1].id}
    assert await living(memory) == sorted([SHORT, ENGLISH, "Ana sails from Oslo on 9 May '26."])
