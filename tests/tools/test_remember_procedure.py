"""`remember_procedure`: numbered steps under one title, found by whom and where their category is asked for."""

import uuid
from typing import Any

import psycopg
import pytest

from mnemic.service.memory import Mnemic
from mnemic.state.errors import CategoryRefusedError, InvalidInputError
from mnemic.state.identity import Identity
from tests.support.tool_calls import call
from tests.support.worlds import identity

ANA = identity("ana", session="s1", groups=["crew"])
TITLE = "Deploy the harbor app"
STEPS = ["Merge the release branch.", "Run make ship.", "Check the dashboard."]
FLAGS = ("red", "blue", "green", "white", "black", "yellow", "striped", "chequered", "plain")
TEXT = "Deploy the harbor app\n1. Merge the release branch.\n2. Run make ship.\n3. Check the dashboard."


def as_role(role: str) -> Identity:
    return ANA.model_copy(update={"role": role})


async def test_it_is_one_procedure_with_numbered_steps(memory: Mnemic, superuser: psycopg.Connection) -> None:
    kept = await memory.remember_procedure(ANA, TITLE, STEPS)

    rows = superuser.execute(
        "select id, kind, category, scope_key, content, provenance from mnemic.memories"
    ).fetchall()
    assert rows == [(kept.id, "procedure", "procedural", "user:ana", TEXT, "asserted")]
    assert superuser.execute("select event, reason from mnemic.history").fetchall() == [("ADD", "remember_procedure")]


async def test_numbers_that_were_written_are_not_written_twice(memory: Mnemic) -> None:
    steps = ["1. Merge the release branch.", "Step 2: Run make ship.", " -  Check\nthe dashboard. "]
    await memory.remember_procedure(ANA, TITLE, steps)

    (found,) = await memory.query(as_role("executor"), TITLE, categories=["procedural"])
    assert found.content == TEXT


async def test_only_roles_that_read_procedures_find_it_and_only_by_asking(memory: Mnemic) -> None:
    kept = await memory.remember_procedure(ANA, TITLE, STEPS)

    for role in ("planner", "executor"):
        found = await memory.query(as_role(role), "How is the harbor app deployed?", categories=["procedural"])
        assert [item.item_id for item in found] == [kept.id]
    assert await memory.query(ANA, TITLE) == []
    with pytest.raises(CategoryRefusedError):
        await memory.query(ANA, TITLE, categories=["procedural"])
    assert TITLE not in (await memory.recall(ANA, f"Do you remember {TITLE}?", search="always"))["context"]


async def test_an_executor_keeps_one_and_the_same_one_once(memory: Mnemic, superuser: psycopg.Connection) -> None:
    first = await call(memory, ANA, "remember_procedure", role="executor", title=TITLE, steps=STEPS)
    again = await call(memory, ANA, "remember_procedure", title=TITLE, steps=STEPS)

    assert (first.artifact["known"], again.artifact["known"]) == (False, True)
    assert uuid.UUID(first.artifact["id"]) == uuid.UUID(again.artifact["id"])
    assert superuser.execute("select role from mnemic.memories").fetchall() == [("executor",)]


async def test_the_callers_own_word_may_be_everyones(memory: Mnemic) -> None:
    assert (await memory.remember_procedure(ANA, TITLE, STEPS, scope="agent")).scope_key == "agent:harbor"
    private = [*STEPS, "Call Ana's doctor."]
    assert (await memory.remember_procedure(ANA, TITLE, private, scope="agent")).scope_key == "user:ana"
    # as long as a pasted document, and of as many lines: the caller's all the same
    flags = [f"Raise the {flag} flag of the north quay and wait for the harbor to answer." for flag in FLAGS]
    assert (await memory.remember_procedure(ANA, "Signal", flags, scope="agent")).scope_key == "agent:harbor"


@pytest.mark.parametrize(
    ("title", "steps"),
    [
        (TITLE, []),
        ("", STEPS),
        ("\u200b", STEPS),
        (TITLE, ["Merge.", " \n "]),
        (TITLE, ["Merge."] * 21),
        (TITLE, ["x" * 281]),
        (TITLE, "Merge."),
        (TITLE, [1]),
        (TITLE, {"Merge."}),
        ("é" * 120, ["é" * 280] * 20),
        (TITLE, ["Merge the branch."] * 15),
    ],
)
async def test_what_is_no_procedure_is_refused(
    memory: Mnemic, superuser: psycopg.Connection, title: Any, steps: Any
) -> None:
    with pytest.raises(InvalidInputError):
        await memory.remember_procedure(ANA, title, steps)

    assert superuser.execute("select count(*) from mnemic.history").fetchone() == (0,)


async def test_a_role_without_an_allowlist_keeps_none(memory: Mnemic) -> None:
    with pytest.raises(CategoryRefusedError):
        await memory.remember_procedure(as_role("nobody"), TITLE, STEPS)
