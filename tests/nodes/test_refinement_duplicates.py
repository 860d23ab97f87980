"""Exact duplicates go before the agent is asked, read by nobody."""

from dataclasses import replace
from typing import Any

import pytest

from mnemic.service.memory import Mnemic
from mnemic.state.records import NewMemory
from mnemic.storage import refinements
from tests.support.loopback import LoopbackModel
from tests.support.played_refinements import ANA, ENGLISH, KEY, SHORT, keep, living, play, set_protected, shown
from tests.support.worlds import memory as draft

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
    is_fact = [isinstance(one, NewMemory) and one.kind == "fact" for one in new]
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
