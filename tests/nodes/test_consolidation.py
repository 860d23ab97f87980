"""The one living text of a scope key: exactly the snapshot goes in, or nothing changes."""

from dataclasses import replace
from typing import Any

import psycopg
import pytest

from mnemic.service.memory import Mnemic
from mnemic.state.results import ConsolidationResult
from tests.support.loopback import LoopbackModel
from tests.support.scripted import (
    CONSOLIDATION,
    REFLECTIONS,
    asked,
    consolidation,
    contents,
    last_prompt,
    meanwhile,
    reflection,
    reflections,
    say,
    turns,
)
from tests.support.worlds import expire_leases, identity

ANA = identity("ana", session="s1")
KEY = "user:ana"
WISHES = ("Ana wants short answers.", "Ana works with Bo on berth 12.", "Ana sails from Oslo on 9 May 2026.")
TEXT = "Ana wants short answers, works with Bo on berth 12 and sails from Oslo on 9 May 2026."


async def wish(memory: Mnemic, model: LoopbackModel, *texts: str, session: str = "s1") -> None:
    """Reflections of a session, below the threshold of four."""
    model.answer(REFLECTIONS, reflections(user=[reflection(text) for text in texts]))
    await say(memory, identity("ana", session=session), *texts)


async def consolidated(memory: Mnemic, model: LoopbackModel, *texts: str) -> ConsolidationResult:
    """A consolidation of the wishes, for which the model writes these texts."""
    await wish(memory, model, *WISHES)
    model.answer(CONSOLIDATION, *map(consolidation, texts))
    return await memory.admin.consolidate(ANA, KEY, force=True)


async def test_it_takes_in_what_waited_and_stays_one_text(memory: Mnemic, model: LoopbackModel) -> None:
    await wish(memory, model, *WISHES)
    below = [await memory.admin.consolidate(ANA, key, force=key != KEY) for key in (KEY, "agent:harbor")]
    assert [result.outcome for result in below] == ["not_due", "not_due"]
    model.answer(CONSOLIDATION, consolidation(TEXT))
    result = await memory.admin.consolidate(ANA, KEY, force=True)

    assert [usage.step for usage in result.spent] == ["write_consolidation"]
    assert replace(result, spent=()) == ConsolidationResult(scope_key=KEY, outcome="saved", absorbed=3)
    assert asked(model).count(CONSOLIDATION) == 1
    assert await contents(memory, ANA, "consolidation") == [TEXT]
    assert await contents(memory, ANA, "reflection") == []
    everything = await memory.memories(ANA, ["reflection"], with_closed=True)
    assert {(item.content, item.state) for item in everything} == {(text, "absorbed") for text in WISHES}


async def test_second_consolidation_gets_the_first_and_newer_dated_reflections(
    memory: Mnemic, model: LoopbackModel
) -> None:
    await consolidated(memory, model, TEXT, TEXT.replace("short", "long"))
    await wish(memory, model, "Ana now wants long answers.", session="s2")
    result = await memory.admin.consolidate(ANA, KEY, force=True)

    prompt = last_prompt(model, CONSOLIDATION)
    assert TEXT in prompt
    assert "2026-03-02" in prompt
    assert "Ana now wants long answers." in prompt
    assert WISHES[0] not in prompt
    assert result.absorbed == 1
    (only,) = await memory.memories(ANA, ["consolidation"])
    assert (only.content, only.version) == (TEXT.replace("short", "long"), 2)
    assert [(e.event, e.before) for e in await memory.history.events(ANA, only.id)] == [("ADD", None), ("UPDATE", TEXT)]


LONG = " ".join(f"Ana likes boat {n}." for n in range(6))


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        (LONG, "too_long"),
        pytest.param("Ana sails. " * 4, "degenerate", marks=pytest.mark.thorough),
        pytest.param(" \u200b ", "empty", marks=pytest.mark.thorough),
    ],
)
async def test_unusable_text_is_sent_back_once_then_refused_or_saved_if_repaired(
    memory: Mnemic, model: LoopbackModel, superuser: psycopg.Connection, bad: str, why: str
) -> None:
    await memory.admin.configure_scope(ANA, KEY, word_limit=20)
    result = await consolidated(memory, model, bad)

    assert [usage.step for usage in result.spent] == ["write_consolidation"] * 2
    assert (result.scope_key, result.outcome, result.problem) == (KEY, "refused", why)
    assert (result.absorbed, result.kept_share) == (0, 1.0)
    assert asked(model).count(CONSOLIDATION) == 2
    assert await contents(memory, ANA, "consolidation") == []
    assert await contents(memory, ANA, "reflection") == sorted(WISHES)
    assert superuser.execute("select 1 from mnemic.history where reason = 'consolidation'").fetchall() == []

    model.answer(CONSOLIDATION, consolidation(bad), consolidation(TEXT))
    assert (await memory.admin.consolidate(ANA, KEY, force=True)).outcome == "saved"
    assert await contents(memory, ANA, "consolidation") == [TEXT]
    if bad is LONG:
        assert "24 words; at most 20" in last_prompt(model, CONSOLIDATION)


@pytest.mark.parametrize(
    ("drafts", "kept"),
    [
        (("Ana works with Bo.", TEXT), TEXT),
        (("Ana works with Bo on berth 12.", "Ana works."), "Ana works with Bo on berth 12."),
    ],
)
async def test_draft_that_loses_details_is_sent_back_and_the_better_one_is_kept(
    memory: Mnemic, model: LoopbackModel, superuser: psycopg.Connection, drafts: tuple[str, str], kept: str
) -> None:
    result = await consolidated(memory, model, *drafts)

    prompt = last_prompt(model, CONSOLIDATION)
    assert drafts[0] in prompt
    assert "Oslo" in prompt.partition("It lacks these details")[2]
    assert (result.outcome, result.kept_share == 1.0) == ("saved", kept == TEXT)
    assert await contents(memory, ANA, "consolidation") == [kept]
    recorded = superuser.execute("select distinct meta from mnemic.history where reason = 'consolidation'").fetchall()
    assert recorded == [({"kept_share": result.kept_share},)]


async def test_a_reflection_stored_while_the_model_writes_waits(memory: Mnemic, model: LoopbackModel) -> None:
    late = "Ana dislikes praise."
    await wish(memory, model, *WISHES[:2])
    model.answer(CONSOLIDATION, meanwhile(lambda: wish(memory, model, late, session="s2"), consolidation(TEXT)))
    result = await memory.admin.consolidate(ANA, KEY, force=True)

    assert (result.outcome, result.absorbed) == ("saved", 2)
    assert await contents(memory, ANA, "reflection") == [late]


async def test_a_consolidation_that_was_overtaken_is_stale(
    memory: Mnemic, model: LoopbackModel, superuser: psycopg.Connection
) -> None:
    async def overtake() -> None:
        expire_leases(superuser)
        model.answer(CONSOLIDATION, consolidation(TEXT))
        assert (await memory.admin.consolidate(ANA, KEY, force=True)).outcome == "saved"

    for round_number, texts in enumerate([WISHES[:2], WISHES[2:]]):  # the first text, then its rewriting
        await wish(memory, model, *texts, session=f"s{round_number}")
        model.answer(CONSOLIDATION, meanwhile(overtake, consolidation(TEXT.replace("works", "toils"))))
        late = await memory.admin.consolidate(ANA, KEY, force=True)

        assert (late.outcome, late.absorbed) == ("stale", 0)
        assert await contents(memory, ANA, "consolidation") == [TEXT]
        assert await contents(memory, ANA, "reflection") == []
    absorbed = superuser.execute(
        "select count(*), count(distinct memory_id) from mnemic.history where event = 'ABSORB'"
    ).fetchone()
    assert absorbed == (3, 3)


async def test_all_that_is_wrong_with_a_draft_is_named_at_once(memory: Mnemic, model: LoopbackModel) -> None:
    await memory.admin.configure_scope(ANA, KEY, word_limit=18)
    await consolidated(memory, model, " ".join(["Ana sails."] * 10), TEXT)
    revision = last_prompt(model, CONSOLIDATION).partition("<revision>")[2]
    assert all(part in revision for part in ("20 words; at most 18", "repeats", "Bo", "12", "Oslo"))


PLAIN = [
    f"Ana wants {what}."
    for what in (
        "short answers",
        "examples first",
        "no small talk",
        "all prices rounded",
        "questions answered directly",
    )
]
DETAILED = [*WISHES, "Ana sails with Liv from berth 9 on 4 July."]


@pytest.mark.parametrize("told", [DETAILED, PLAIN], ids=["details", "words"])
async def test_text_that_keeps_nearly_nothing_leaves_reflections_and_backs_off(
    memory: Mnemic, model: LoopbackModel, told: list[str]
) -> None:
    await memory.admin.configure_scope(ANA, KEY, threshold=len(told))
    model.answer(CONSOLIDATION, consolidation("Ana."))
    model.answer(REFLECTIONS, reflections(user=[reflection(text) for text in told]))
    await memory.observe(ANA, turns(*told))
    (run,) = await memory.form(ANA)
    assert [(one.outcome, one.problem) for one in run.consolidations] == [("refused", "lossy")]
    assert await contents(memory, ANA, "reflection") == sorted(told)
    assert await contents(memory, ANA, "consolidation") == []
    assert (await memory.admin.consolidate(ANA, KEY)).outcome == "backoff"
    assert asked(model).count(CONSOLIDATION) == 2

    model.answer(CONSOLIDATION, consolidation("Ana."), consolidation(" ".join(told)))
    assert (await memory.admin.consolidate(ANA, KEY, force=True)).outcome == "saved"


async def test_what_cannot_fit_is_not_asked_for(memory: Mnemic, model: LoopbackModel) -> None:
    """Of three wishes in twenty words, half the words can hold half the details."""
    await memory.admin.configure_scope(ANA, KEY, word_limit=10)
    result = await consolidated(memory, model, "Ana wants short answers, with Bo on berth 12.")
    assert (result.outcome, asked(model).count(CONSOLIDATION)) == ("saved", 1)
    assert result.kept_share == 0.6


async def test_text_in_another_language_keeps_names_numbers_and_dates_alone(
    memory: Mnemic, model: LoopbackModel
) -> None:
    said = (
        "Ana möchte kurze Antworten und eine Zusammenfassung am Ende der Woche.",
        "Ana sucht mit ihrer Schwester eine Wohnung mit 3 Zimmern.",
        "Ana meets Liv in Oslo on 9 May 2026.",
    )
    await wish(memory, model, *said)
    german = "Ana möchte kurze Antworten, sucht 3 Zimmer und trifft Liv in Oslo am 9. Mai 2026."
    model.answer(CONSOLIDATION, consolidation(german))
    result = await memory.admin.consolidate(ANA, KEY, force=True)
    assert (result.outcome, result.kept_share, asked(model).count(CONSOLIDATION)) == ("saved", 1.0, 1)


async def test_the_agents_own_text_is_written_in_its_persona_and_nobody_elses_is(
    memory: Mnemic, model: LoopbackModel
) -> None:
    await memory.admin.configure_agent(ANA, persona="A harbor master who is sparing with words.")
    teacher = identity("ana", session="s1", teaches=True)
    for scope in ("agent", "user"):
        told = f"The harbor of the {scope} closes at nine in winter."
        drawn: Any = {scope: [reflection(told)]}
        model.answer(REFLECTIONS, reflections(**drawn))
        await say(memory, teacher.model_copy(update={"session_id": scope}), told, "Well.", "Yes.", "So.")
        model.answer(CONSOLIDATION, consolidation(told))
        key = {"agent": "agent:harbor", "user": KEY}[scope]
        assert (await memory.admin.consolidate(teacher, key, force=True)).outcome == "saved"
        assert ("sparing with words" in last_prompt(model, CONSOLIDATION)) == (scope == "agent")
