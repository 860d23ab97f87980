"""What a merge keeps of the merged, and what it leaves of them; and exact duplicates, of which one stays."""

from dataclasses import replace
from typing import Any

import psycopg
import pytest

from mnemic.operations.run.resources import Resources
from mnemic.service.memory import Mnemic
from mnemic.state.records import IndexedText, Memory, NewMemory
from mnemic.storage import inbox, memories, refinements
from mnemic.storage.transaction import ScopedTransaction
from tests.support.loopback import LoopbackModel
from tests.support.refinements import (
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
    set_protected,
    shown,
)
from tests.support.worlds import MORNING, identity, message, operate
from tests.support.worlds import memory as draft

ME = identity("ana", session="s1")
FERRY, BERTH = "Mara asked for the ferry to Bergen.", "Mara pays for the berth in Porto."


async def merged(service: Mnemic, text: str = BOTH) -> Memory:
    """The memory that says this."""
    (found,) = [item for item in await service.memories(ANA, ["core"]) if item.content == text]
    return found


async def formed(resources: Resources, *texts: str) -> list[NewMemory]:
    """Core memories, each formed from a message of its own, which is kept and searched."""
    sent = [message(f"I say that {text}") for text in texts]
    new = [replace(item, source_message_ids=(sent[place].id,)) for place, item in enumerate(drafts(*texts))]

    async def form(scoped: ScopedTransaction) -> None:
        await inbox.observe(scoped, "s1", sent)
        await inbox.index_messages(scoped, "m", [IndexedText(item_id=item.id, text=item.content) for item in sent])
        await memories.insert(scoped, new, model="m", vectors={}, run_id=None)

    await operate(resources.database, ME, form)
    return new


async def messages_found(service: Mnemic, query: str) -> list[str]:
    found = await service.query(ME, query, categories=["message"], search_type="text")
    return sorted(item.content for item in found)


async def test_a_merge_is_as_old_as_the_oldest_as_important_and_confidential_as_any(
    memory: Mnemic, model: LoopbackModel, superuser: psycopg.Connection
) -> None:
    made = await keep(
        memory,
        replace(draft(SHORT, kind="reflection", subject_user="ana"), importance=2, category="preferences"),
        replace(draft(ENGLISH, kind="core", subject_user="ana"), importance=5, category="preferences"),
        replace(
            draft("Ana wants tables.", kind="core", subject_user="ana"), importance=1, private=True, category="profile"
        ),
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
    assert found.subject_user_id == "ana"
    assert await living(memory, "core", "reflection") == [BOTH]
    tags = superuser.execute("select tags from mnemic.memories where id = %s", (found.id,)).fetchone()
    assert tags == (["answers", "tone"],)


async def test_a_merge_rests_on_all_messages_of_the_merged_until_the_last_of_them_goes(
    memory: Mnemic, resources: Resources, model: LoopbackModel, superuser: psycopg.Connection
) -> None:
    new = await formed(resources, FERRY, BERTH, SHORT, ENGLISH, OSLO)  # of five two may be removed

    await play(memory, model, merge(1, 2, into="Mara asked for the Bergen ferry and pays the Porto berth."))

    assert await messages_found(memory, "Mara") == [f"I say that {text}" for text in (FERRY, BERTH)]
    relations = superuser.execute("select to_id, relation_type from mnemic.relations").fetchall()
    assert sorted(relations) == sorted((item.id, "merged_from") for item in new[:2])

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


# -- exact duplicates go before the agent is asked, read by nobody

WIDE = SHORT.replace(" ", "  ")
LINES = SHORT.replace(" ", " \n ")
CAFE, DECOMPOSED, FULL = "Ana's caf\u00e9 is no. 9.", "Ana's cafe\u0301 is no. 9.", "Ana's caf\u00e9 is no. \uff19."
SQUARE, PLAIN = "Ana's hall has 10\u00b2 m.", "Ana's hall has 102 m."


def core(text: str, **changes: Any) -> NewMemory:
    return replace(draft(text, kind="core"), **changes)


def reflection(text: str) -> NewMemory:
    return draft(text, kind="reflection")


#: What there is, and what is left of it.
CASES: dict[str, tuple[list[NewMemory | str], list[str]]] = {
    "white space": ([SHORT, WIDE, LINES], [SHORT]),
    "forms of Unicode": ([CAFE, DECOMPOSED, FULL], [CAFE]),
    "the oldest stays": ([WIDE, ENGLISH, SHORT], [WIDE, ENGLISH]),
    "the more important stays": ([core(SHORT, importance=2), core(WIDE, importance=5)], [WIDE]),
    "a commitment stays rather than a reflection": ([reflection(SHORT), WIDE], [WIDE]),
    "case and punctuation": ([SHORT, SHORT.upper(), SHORT.removesuffix(".")], [SHORT, SHORT.upper(), SHORT[:-1]]),
    "raised numbers": ([SQUARE, PLAIN], [SQUARE, PLAIN]),
    "no fact": ([SHORT, draft(WIDE)], [SHORT, WIDE]),
    "no consolidation": ([SHORT, draft(SHORT, kind="consolidation")], [SHORT, SHORT]),
}
#: What differs in one column stays; without that column in the statement it would go.
COLUMNS: dict[str, NewMemory] = {
    "subject_user_id, case when subject_user_id is null then subject end,": core(WIDE, subject_user_id="bo"),
    "case when subject_user_id is null then subject end,": core(WIDE, subject="Bo"),
    "category, ": core(WIDE, category="goals"),
    "private,": core(WIDE, private=True),
}


@pytest.mark.parametrize("case", CASES)
async def test_what_says_exactly_the_same_lives_once(memory: Mnemic, model: LoopbackModel, case: str) -> None:
    new, left = CASES[case]
    await keep(memory, *new)
    planned = await memory.refine(ANA, KEY, dry_run=True)

    _, result = await play(memory, model)

    assert await living(memory, "core", "reflection", "fact", "consolidation") == sorted(left)
    assert result["duplicates"] == planned["duplicates"] == len(new) - len(left)
    is_fact = [isinstance(item, NewMemory) and item.kind == "fact" for item in new]
    assert shown(model.chat_requests[0]).count("\n[") == len(left) - sum(is_fact)  # the agent saw what was left


@pytest.mark.parametrize("column", COLUMNS)
async def test_what_is_not_the_same_for_who_reads_it_stays(memory: Mnemic, model: LoopbackModel, column: str) -> None:
    await keep(memory, SHORT, COLUMNS[column])

    _, result = await play(memory, model)

    assert (result["duplicates"], await living(memory)) == (0, sorted([SHORT, WIDE]))


@pytest.mark.thorough
@pytest.mark.parametrize("column", COLUMNS)
async def test_control_without_its_column_it_goes(
    memory: Mnemic, model: LoopbackModel, monkeypatch: pytest.MonkeyPatch, column: str
) -> None:
    statement = refinements._SQL["duplicates"]
    assert statement.count(column) == 1
    monkeypatch.setattr(refinements, "_SQL", {**refinements._SQL, "duplicates": statement.replace(column, "")})
    await keep(memory, SHORT, COLUMNS[column])

    _, result = await play(memory, model)

    assert result["duplicates"] == 1


@pytest.mark.parametrize(("protected", "left"), [([1], [WIDE]), ([0, 2], [SHORT, LINES])], ids=["one", "two"])
async def test_protected_twins_stay_and_take_the_others_place(
    memory: Mnemic, model: LoopbackModel, superuser: Any, protected: list[int], left: list[str]
) -> None:
    made = await keep(memory, SHORT, WIDE, LINES)
    set_protected(superuser, *(made[place] for place in protected))

    _, result = await play(memory, model)

    assert (result["duplicates"], await living(memory)) == (3 - len(left), sorted(left))


async def test_another_scope_keys_twin_stays(memory: Mnemic, model: LoopbackModel) -> None:
    await keep(memory, SHORT)
    await keep(memory, WIDE, key="agent:harbor")

    _, result = await play(memory, model)

    assert (result["duplicates"], await living(memory)) == (0, sorted([SHORT, WIDE]))
