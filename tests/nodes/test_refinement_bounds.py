"""What a session may lose and protect at most, in however many steps."""

from dataclasses import replace
from typing import Any

import pytest

from mnemic.operations.refinement import session as session_module
from mnemic.policy.refinement import lost_memories
from mnemic.service.memory import Mnemic
from mnemic.storage import refinements
from tests.support.loopback import LoopbackModel
from tests.support.played_refinements import (
    ANA,
    ENGLISH,
    OSLO,
    SHORT,
    Call,
    delete,
    keep,
    living,
    merge,
    play,
    protect,
    update,
)
from tests.support.scripted import scripted_memory
from tests.support.server import Clone
from tests.support.worlds import memory as draft

LONG = "Ana mends sails, paints boats, repairs engines, sells anchors, teaches knots and rents canoes near Bergen."
LAW = "Ana must never be called before nine."
#: What a session must not lose unnoticed, each in a few words of its own.
BRIEF = [f"Ana {words}." for words in ("is allergic to peanuts", "must take insulin", "promised to call her mother",
                                       "plays chess", "likes jazz", "grows tomatoes", "fears dogs")]  # fmt: skip
#: Each keeps a third of the words of the one before it, and the second none of the first.
STEPS = (
    "Ana mends sails, boats, anchors, knots, says Olaf Svensson of the Viken yard.",
    "Olaf Svensson has the Viken yard.",
)


async def removed(memory: Mnemic) -> int:
    """How many memories the newest session has lost."""
    return (await memory.refinements(ANA, limit=1))[0].removed


#: What there is, of which a quarter may go, rounded up; the calls, each with whether it is refused and the memories
#: that its answer says it loses; and how many the session has lost in the end.
CASES: dict[str, tuple[list[str], list[tuple[Call, bool, str]], int]] = {
    "deletions": (
        [SHORT, ENGLISH, OSLO, LAW, LONG],
        [(delete(1), False, ""), (delete(2), False, ""), (delete(3), True, "[3]"), (update(3, "Fine."), True, "[3]")],
        2,
    ),
    "a merge that keeps hardly a word": (
        [SHORT, ENGLISH, OSLO, LAW, LONG],
        [
            (merge(1, 2, 3, 4, into="Be kind."), True, "[1], [2], [3], [4]"),
            (merge(1, 2, into="Be kind."), False, "[1], [2]"),
            (delete(3), True, "[3]"),
        ],
        2,
    ),
    "a merge that forgets one": ([SHORT, ENGLISH, BRIEF[0], OSLO], [(merge(1, 2, 3), False, "[3]")], 1),
    "a merge into the text of one": (
        [LONG, *BRIEF],
        [(merge(*range(1, 9), into=LONG), True, "[2], [3], [4], [5], [6], [7], [8]")],
        0,
    ),
    "what went into a merge is what its text is measured by": (
        [LONG, SHORT, ENGLISH, OSLO, LAW],
        [
            (merge(1, 2, into=f"{LONG} {SHORT}"), False, ""),
            (update(6, "Ana sells anchors near Bergen."), False, "[6]"),
            (update(6, "Ana."), False, ""),  # what has gone does not go again
            (delete(3), True, "[3]"),
        ],
        2,
    ),
    "what a merge put together goes one by one": (
        [LONG, *BRIEF],
        [
            (merge(1, 2, 3, 4, into=" ".join([LONG, *BRIEF[:3]])), False, ""),
            (delete(9), True, "[9]"),
            (update(9, LONG), True, "[9]"),
            (update(9, f"{LONG} {BRIEF[0]} {BRIEF[1]}"), False, "[9]"),
            (update(9, f"{LONG} {BRIEF[0]}"), False, "[9]"),
            (update(9, LONG), True, "[9]"),
            (merge(9, 5, into=f"{LONG} {BRIEF[3]}"), True, "[9]"),
        ],
        2,
    ),
    "what an update lost is not lost again by its deletion": (
        [LONG, SHORT, OSLO, LAW],
        [(update(1, "Fine."), False, "[1]"), (delete(1), False, ""), (delete(2), True, "[2]")],
        1,
    ),
    "many small steps": ([LONG, SHORT], [(update(1, STEPS[0]), False, ""), (update(1, STEPS[1]), False, "[1]")], 1),
    "what has no telling word": (
        ["😀", "It is.", OSLO, LAW],
        [(update(1, "🙂"), False, ""), (delete(1), False, ""), (delete(2), True, "[2]")],
        1,
    ),
}


async def violations(memory: Mnemic, model: LoopbackModel, case: str) -> list[str]:
    """Where a session does not keep to its bounds."""
    texts, steps, count = CASES[case]
    await keep(memory, *texts)
    told, _ = await play(memory, model, *(call for call, _, _ in steps))
    wrong = []
    for (call, is_refused, named), answer in zip(steps, told, strict=True):
        if answer.startswith("Refused: ") != is_refused:
            wrong.append(f"{call}: {answer}")
        elif (named != "" and not is_refused) != ("hardly anything" in answer) or f" {named}" not in answer:
            wrong.append(f"{call} names {named}: {answer}")
    lost = await removed(memory)
    return [*wrong, *([f"{lost} lost, not {count}"] if lost != count else [])]


@pytest.mark.parametrize("case", CASES)
async def test_only_a_share_of_the_memories_may_be_lost(memory: Mnemic, model: LoopbackModel, case: str) -> None:
    assert await violations(memory, model, case) == []


async def _of_now(_: Any, __: Any, entry: Any) -> list[tuple[str, str]]:
    """Originals, where a text is measured by the last one instead of what the session began with."""
    return [(entry.content, entry.subject)]


def _together(old: list[str], new: str, *, about: list[str]) -> list[bool]:
    """The rule where the texts that are replaced are compared as if they were one."""
    return [any(lost_memories([" ".join(old)], new, about=about))] * len(old)


def _any_text(old: list[str], new: str, *, about: list[str]) -> list[bool]:
    """The rule where a deletion counts as a text that tells nothing."""
    return lost_memories(old, new or "...", about=about)


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("where", "name", "wrong", "case"),
    [
        (refinements, "originals", _of_now, "many small steps"),
        (session_module, "lost_memories", _together, "a merge into the text of one"),
        (session_module, "lost_memories", _any_text, "what has no telling word"),
    ],
)
async def test_control_without_its_rule_more_is_lost(
    memory: Mnemic, model: LoopbackModel, monkeypatch: pytest.MonkeyPatch, where: Any, name: str, wrong: Any, case: str
) -> None:
    monkeypatch.setattr(where, name, wrong)

    assert await violations(memory, model, case)


async def test_what_is_lost_counts_for_the_session_and_not_for_the_next_one(
    memory: Mnemic, model: LoopbackModel
) -> None:
    await keep(memory, SHORT, ENGLISH, OSLO)
    first, _ = await play(memory, model, delete(1), delete(2))
    second, _ = await play(memory, model, delete(1))

    assert [answer.startswith("Refused") for answer in [*first, *second]] == [False, True, False]


async def test_only_a_share_of_the_target_may_be_protected(clean_db: Clone, model: LoopbackModel) -> None:
    async with scripted_memory(clean_db, model, refinement_target_tokens=80) as memory:  # a quarter: 20 tokens
        await keep(memory, SHORT, ENGLISH, OSLO)
        told, result = await play(memory, model, protect(1), protect(2), protect(3), delete(1))

    assert [answer.startswith("Refused") for answer in told] == [False, False, True, True]
    assert {"16", "20"} <= set(told[2].split())
    assert (result["protected"], result["deleted"]) == (2, 0)


async def test_what_is_about_nobody_with_an_account_is_merged_deleted_and_protected_alike(
    memory: Mnemic, model: LoopbackModel
) -> None:
    people = (("Bo", "wants long answers"), ("bo", "wants tables"), ("Carl", "is diabetic"), ("Dan", "likes maps"))
    new = [replace(draft(f"{name} {words}.", kind="core"), subject=name) for name, words in people]
    await keep(memory, *new)

    told, _ = await play(memory, model, merge(1, 2, into="Bo wants long answers, tables."), delete(3), protect(4))

    assert [answer.startswith("Refused") for answer in told] == [False, False, False]
    assert await living(memory) == ["Bo wants long answers, tables.", "Dan likes maps."]
