"""Exact duplicates go before the agent is asked, read by nobody."""

from dataclasses import replace

import psycopg
import pytest

from mnemic.service.memory import Mnemic
from mnemic.state.records import NewMemory
from mnemic.storage import refinements
from tests.support.loopback import LoopbackModel
from tests.support.played_refinements import ANA, ENGLISH, KEY, SHORT, columns, keep, living, play, set_protected, shown
from tests.support.worlds import memory as draft

WIDE = SHORT.replace(" ", "  ")
LINES = SHORT.replace(" ", " \n ")
CAFE, DECOMPOSED, FULL = "Ana's caf\u00e9 is no. 9.", "Ana's cafe\u0301 is no. 9.", "Ana's caf\u00e9 is no. \uff19."


def core(text: str, **changes: object) -> NewMemory:
    one = draft(text, kind="core")
    return replace(one, **changes)  # type: ignore[arg-type]  # fields by name


@pytest.mark.parametrize(
    ("texts", "left"),
    [
        ((SHORT, WIDE, LINES), [SHORT]),
        ((CAFE, DECOMPOSED, FULL), [CAFE]),
        ((SHORT, SHORT.upper(), SHORT.removesuffix(".")), [SHORT.upper(), SHORT, SHORT.removesuffix(".")]),
        (
            ("Ana's hall has 10\u00b2 m.", "Ana's hall has 102 m."),
            ["Ana's hall has 102 m.", "Ana's hall has 10\u00b2 m."],
        ),
        ((WIDE, ENGLISH, SHORT), [WIDE, ENGLISH]),
    ],
    ids=["white space", "forms of Unicode", "nothing else", "raised numbers", "the oldest stays"],
)
async def test_what_says_exactly_the_same_lives_once(
    memory: Mnemic, model: LoopbackModel, texts: tuple[str, ...], left: list[str]
) -> None:
    await keep(memory, *texts)

    _, result = await play(memory, model)

    assert await living(memory) == sorted(left)
    assert result["duplicates"] == len(texts) - len(left)
    assert result["memories_before"] == len(texts)
    # the agent saw what was left, and a dry run would have said so
    assert shown(model.chat_requests[0]).count("\n[") == len(left)


async def test_a_dry_run_counts_them(memory: Mnemic, model: LoopbackModel) -> None:
    await keep(memory, SHORT, WIDE, LINES, ENGLISH)

    assert (await memory.refine(ANA, KEY, dry_run=True))["duplicates"] == 2


async def test_a_commitment_stays_rather_than_a_thought(
    memory: Mnemic, model: LoopbackModel, superuser: psycopg.Connection
) -> None:
    thought, commitment = await keep(memory, draft(SHORT, kind="reflection"), SHORT)

    await play(memory, model)

    assert columns(superuser, thought.id, "state") == ("soft_deleted",)
    assert columns(superuser, commitment.id, "state") == ("active",)
    assert superuser.execute("select living from mnemic.entries where item_id = %s", (thought.id,)).fetchall() == [
        (False,)
    ]


async def test_of_the_same_words_the_more_important_stay(
    memory: Mnemic, model: LoopbackModel, superuser: psycopg.Connection
) -> None:
    old, heavy = await keep(memory, core(SHORT, importance=2), core(WIDE, importance=5))

    await play(memory, model)

    assert await living(memory) == [WIDE]
    assert [columns(superuser, one.id, "state") for one in (old, heavy)] == [("soft_deleted",), ("active",)]


async def test_a_protected_twin_stays_and_takes_the_others_place(
    memory: Mnemic, model: LoopbackModel, superuser: psycopg.Connection
) -> None:
    older, law, other = await keep(memory, SHORT, WIDE, draft(LINES, kind="reflection"))
    set_protected(superuser, law)

    _, result = await play(memory, model)

    states = [columns(superuser, one.id, "state", "protected") for one in (older, law, other)]
    assert states == [("soft_deleted", False), ("active", True), ("soft_deleted", False)]
    assert result["duplicates"] == 2


async def test_two_protected_twins_both_stay(
    memory: Mnemic, model: LoopbackModel, superuser: psycopg.Connection
) -> None:
    made = await keep(memory, SHORT, WIDE)
    set_protected(superuser, *made)

    _, result = await play(memory, model)

    assert (result["duplicates"], len(await living(memory))) == (0, 2)


@pytest.mark.parametrize(
    "other",
    [
        core(WIDE, subject_user_id="bo"),
        core(WIDE, subject="Bo"),
        core(WIDE, category="goals"),
        core(WIDE, private=True),
    ],
    ids=["of another person", "of one without an account", "of another category", "said in confidence"],
)
async def test_what_is_not_the_same_for_who_reads_it_stays(
    memory: Mnemic, model: LoopbackModel, other: NewMemory
) -> None:
    await keep(memory, SHORT, other)

    _, result = await play(memory, model)

    assert (result["duplicates"], await living(memory)) == (0, sorted([SHORT, WIDE]))


@pytest.mark.parametrize(
    ("left_out", "other"),
    [
        ("subject_user_id, case when subject_user_id is null then subject end,", core(WIDE, subject_user_id="bo")),
        ("case when subject_user_id is null then subject end,", core(WIDE, subject="Bo")),
        ("category, ", core(WIDE, category="goals")),
        ("private,", core(WIDE, private=True)),
    ],
)
async def test_control_without_its_column_it_goes(
    memory: Mnemic, model: LoopbackModel, monkeypatch: pytest.MonkeyPatch, left_out: str, other: NewMemory
) -> None:
    statement = refinements._SQL["duplicates"]
    assert statement.count(left_out) == 1
    careless = {"duplicates": statement.replace(left_out, "")}
    monkeypatch.setattr(refinements, "_SQL", {**refinements._SQL, **careless})
    await keep(memory, SHORT, other)

    _, result = await play(memory, model)

    assert result["duplicates"] == 1


async def test_facts_and_the_consolidation_are_no_duplicates(memory: Mnemic, model: LoopbackModel) -> None:
    await keep(memory, SHORT, draft(WIDE), draft(SHORT, kind="consolidation"))

    _, result = await play(memory, model)

    assert result["duplicates"] == 0
    assert len(await living(memory, "core", "fact", "consolidation")) == 3


async def test_another_scope_keys_twin_stays(memory: Mnemic, model: LoopbackModel) -> None:
    await keep(memory, SHORT)
    await keep(memory, WIDE, key="agent:harbor")

    _, result = await play(memory, model)

    assert (result["duplicates"], await living(memory)) == (0, sorted([SHORT, WIDE]))
