"""What the refinement tools refuse: every refusal names what it is about, and writes nothing."""

import re
from dataclasses import replace
from typing import Any

import psycopg
import pytest

from mnemic.operations.refinement import edits
from mnemic.service.memory import Mnemic
from mnemic.state.records import NewMemory
from mnemic.state.refinement import MAX_CALLS
from tests.support.loopback import LoopbackModel, calling, offering
from tests.support.played_refinements import (
    ANA,
    DONE,
    ENGLISH,
    KEY,
    OSLO,
    SHORT,
    USAGE,
    Call,
    answers,
    complete,
    delete,
    keep,
    living,
    merge,
    play,
    protect,
    search,
    set_protected,
    update,
)
from tests.support.worlds import identity
from tests.support.worlds import memory as draft

LOOP = "safe harbor " * 40
NUMBERS = " ".join(map(str, range(3000)))
#: 1 and 2 go together, 3 does not; 4 is protected, 5 the consolidation, 6 of Bo; 7 and 8 of people without an account.
CORE = (
    draft(SHORT, kind="core"),
    draft(ENGLISH, kind="core"),
    draft(OSLO, kind="reflection"),
    draft("Ana must never be called before nine.", kind="core"),
    draft("Ana lives by the harbour.", kind="consolidation"),
    draft("Bo wants long answers, in Norwegian.", kind="core", subject_user="bo"),
    replace(draft("Cleo is diabetic.", kind="core"), subject="Cleo"),
    replace(draft("Dan wants tables.", kind="core"), subject="Dan"),
)


def written(superuser: psycopg.Connection) -> list[Any]:
    """Every memory, byte for byte."""
    return superuser.execute("select to_jsonb(m) from mnemic.memories m where kind <> 'journal' order by id").fetchall()


@pytest.fixture
async def core(memory: Mnemic, superuser: psycopg.Connection) -> list[NewMemory]:
    made = await keep(memory, *(replace(one, id=draft("").id) for one in CORE))
    set_protected(superuser, made[3])
    return made


#: Each call, and what its refusal names.
REFUSED: dict[str, tuple[Call, str]] = {
    "an unknown number": (delete(17), r"\[17\]"),
    "an unknown number among known ones": (merge(1, 18, 2), r"\[18\]"),
    "several unknown numbers": (merge(17, 18), r"\[17\], \[18\]"),
    "a number twice": (merge(1, 2, 1), r"\[1\] is named"),
    "a merge of one": (merge(1, into="Ana wants it short."), "at least two .*update_memory"),
    "a merge of none": (("consolidate_memories", {"ids_to_merge": [], "new_content": "x"}), "at least two"),
    "a merge with a protected one": (merge(1, 4), r"\[4\] is protected"),
    "an update of a protected one": (update(4, "Ana sleeps long."), r"\[4\] is protected"),
    "a deletion of a protected one": (delete(4), r"\[4\] is protected"),
    "a protection of a protected one": (protect(4), r"\[4\] is protected"),
    "a merge with the consolidation": (merge(1, 5), r"\[5\] .*update_memory"),
    "a deletion of the consolidation": (delete(5), r"\[5\] .*update_memory"),
    "a protection of the consolidation": (protect(5), r"\[5\] .*update_memory"),
    "a merge of two people": (merge(1, 6), r"\[1\], \[6\] .*different people"),
    "a merge of people without an account": (merge(7, 8), r"\[7\], \[8\] .*different people"),
    "no text": (update(1, ""), "empty"),
    "a text of blanks": (merge(1, 2, into=" \n\t "), "empty"),
    "a text that cannot be seen": (update(1, "\u200b\u202e\ufeff"), "empty"),
    "a text of joiners": (update(1, "\u200d\u200c"), "empty"),
    "a loop": (merge(1, 2, into=LOOP), "repeats itself"),
    "a longer text": (update(1, f"{SHORT} {ENGLISH}"), "16 tokens.* 8:"),
    "a longer merge": (merge(1, 2, into=f"{SHORT} {ENGLISH} {OSLO}"), "24 tokens.* 16:"),
    "more than a memory holds": (update(1, NUMBERS), "8192 bytes"),
    "the same text": (update(1, SHORT), r"\[1\]"),
    "another one's text": (update(1, ENGLISH), r"\[2\]"),
    "a summary of nothing": (complete(" "), "empty"),
    "a summary that loops": (complete(LOOP), "repeats itself"),
    "a long summary": (complete(NUMBERS[:600]), "500 characters"),
    "number zero": (delete(0), "id: "),
    "a negative number": (protect(-1), "id: "),
    "a number beyond integers": (delete(2**40), "id: "),
    "an id": (("delete_memory", {"id": "1b4e28ba-2fa1-11d2-883f-0016d3cca427"}), "id: "),
    "no number": (("delete_memory", {}), "id: "),
    "a null": (("delete_memory", {"id": None}), "id: "),
    "a number in pieces": (("delete_memory", {"id": 1.5}), "id: "),
    "a list as text": (("update_memory", {"id": 1, "content": ["x"]}), "content: "),
    "no day": (search(query="x", after="soon"), "after: "),
    "a tool that is none": (("forget", {"id": 1}), "search_memories, consolidate_memories"),
}
UNREADABLE = ('{"id": ', "[1]", '"delete 1"', '{"id": NaN}', '{"content": "\\ud800", "id": 1}')


async def test_what_is_refused_says_what_it_is_about_and_writes_nothing(
    memory: Mnemic, model: LoopbackModel, superuser: psycopg.Connection, core: list[NewMemory]
) -> None:
    before = written(superuser)

    unreadable: list[Call] = [("delete_memory", text) for text in UNREADABLE]  # type: ignore[misc]  # what models do
    calls = [call for call, _ in REFUSED.values()]
    model.answer(
        offering("complete_refinement"),
        *(calling(*calls[place : place + MAX_CALLS]) for place in range(0, len(calls), MAX_CALLS)),
        *map(calling, unreadable),
        calling(DONE),
    )
    result = await memory.refine(ANA, KEY, force=True)
    told = answers(model.chat_requests[-1])

    assert ["complete JSON" in answer for answer in told[len(calls) :]] == [True] * len(unreadable)
    for (name, (_, what)), answer in zip(REFUSED.items(), told[: len(calls)], strict=True):
        assert re.search(f"^Refused: .*{what}", answer), f"{name}: {answer}"
    assert written(superuser) == before
    assert (result["merged"], result["updated"], result["deleted"], result["protected"]) == (0, 0, 0, 0)
    assert result["ended"] == "completed"


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("rule", "call"),
    [
        ("_require_no_longer", merge(1, 2, into=f"{SHORT} {ENGLISH} {OSLO}")),
        ("_require_one_person", merge(1, 6)),
        ("is_degenerate", update(1, "safe " * 6)),
        ("says_nothing", update(1, "\u200d\u200c")),
    ],
)
async def test_control_without_its_rule_a_call_is_not_refused(
    memory: Mnemic, model: LoopbackModel, core: list[NewMemory], monkeypatch: pytest.MonkeyPatch, rule: str, call: Call
) -> None:
    monkeypatch.setattr(edits, rule, lambda *_, **__: False)

    (told,), _ = await play(memory, model, call)

    assert USAGE.search(told), told


async def test_unknown_arguments_beside_the_known_ones_reach_nothing(
    memory: Mnemic, model: LoopbackModel, core: list[NewMemory]
) -> None:
    beside = {"scope_key": "user:bo", "agent_id": "museum", "protected": False, "force": True}

    (done, law), _ = await play(
        memory, model, ("delete_memory", {"id": 1, **beside}), ("delete_memory", {"id": 4, **beside})
    )

    assert done.startswith("[1] is deleted.")
    assert law.startswith("Refused: [4] ")


async def test_a_number_whose_memory_has_gone_is_as_an_unknown_one(
    memory: Mnemic, model: LoopbackModel, core: list[NewMemory]
) -> None:
    gone = [merge(1, 9), update(2, "x"), delete(1), protect(2)]

    told, _ = await play(memory, model, merge(1, 2), *gone, delete(9), delete(9))

    assert told[0].startswith("[1], [2] became [9]: 16 tokens, now 11.")
    named = [re.search(r"^Refused: there is no memory (\[\d\])", answer) for answer in [*told[1:5], told[6]]]
    assert [found and found[1] for found in named] == ["[1]", "[2]", "[1]", "[2]", "[9]"]


async def test_after_the_end_no_tool_does_anything(
    memory: Mnemic, model: LoopbackModel, superuser: psycopg.Connection, core: list[NewMemory]
) -> None:
    before = written(superuser)
    late = [delete(1), merge(1, 2), update(1, "Short."), protect(1), DONE]
    model.answer(offering("complete_refinement"), calling(DONE, *late))

    result = await memory.refine(ANA, KEY, force=True)

    assert written(superuser) == before
    assert (result["ended"], len(model.chat_requests)) == ("completed", 1)
    assert await memory.memories(ANA, ["journal"]) == []


async def test_memories_of_others_are_not_found_and_have_no_number(
    memory: Mnemic, model: LoopbackModel, core: list[NewMemory]
) -> None:
    await keep(memory, "Bo wants long answers at night.", who=identity("bo"), key="user:bo")
    await keep(memory, "The museum opens at night.", who=identity("ana", agent="museum"))
    await keep(memory, "Visitors come at night.", key="agent:harbor")

    (found, gone), _ = await play(memory, model, search(query="night"), delete(9))

    assert (found, gone[:28]) == ("Nothing was found.", "Refused: there is no memory ")
    assert await living(memory, who=identity("bo")) == ["Bo wants long answers at night.", "Visitors come at night."]
