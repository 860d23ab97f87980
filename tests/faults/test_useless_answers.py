"""Nothing is lost to a useless answer: 200 of them, and every message has its words, or something accounts for it."""

import psycopg
import pytest

from mnemic.service.memory import Mnemic
from mnemic.state.errors import ModelOutputError
from mnemic.state.identity import Identity
from mnemic.state.kinds import Extraction
from mnemic.state.records import ScopeSettings
from mnemic.storage import inbox
from tests.faults.useless_answers import SAID, Useless, useless_answers
from tests.support.loopback import LoopbackModel
from tests.support.matrix import few_first
from tests.support.scripted import (
    CONSOLIDATION,
    DECISIONS,
    FACTS,
    OBSERVATIONS,
    REFLECTIONS,
    asked,
    contents,
    decisions,
    fact,
    facts,
    reflection,
    reflections,
    scripted_memory,
    scripted_model,
    turns,
)
from tests.support.server import Clone
from tests.support.worlds import identity

OSLO = "Ana lives in Oslo with two cats."
BERGEN = "Ana lives in Bergen with two cats."
WISH = "Ana wants short answers."


def of_kind(extraction: Extraction) -> list[Useless]:
    return [one for one in useless_answers() if (one.step == OBSERVATIONS) == (extraction == "single")]


def lost(superuser: psycopg.Connection) -> list[tuple[str, int]]:
    """Messages without words that no memory rests on; in these scripts no model says that there is nothing else."""
    return superuser.execute(
        "select m.session_id, m.place from mnemic.messages m where m.content is null and not exists ("
        " select from mnemic.sources s join mnemic.memories x on (x.agent_id, x.id) = (s.agent_id, s.memory_id)"
        " where (s.agent_id, s.message_id) = (m.agent_id, m.id) and x.content <> '')"
    ).fetchall()


async def meet(memory: Mnemic, model: LoopbackModel, who: Identity, useless: Useless) -> None:
    """A conversation that this answer meets; the other steps answer well, and never that there is nothing else."""
    model.answer(FACTS, facts(fact(BERGEN), nothing_else=False))
    model.answer(REFLECTIONS, reflections(user=[reflection(WISH)], nothing_else=False))
    if useless.step == DECISIONS:
        await know_of_oslo(memory, model, who)
    if useless.step == CONSOLIDATION:
        await memory.configure_scope(who, ScopeSettings(scope_key=f"user:{who.user_id}", threshold=1))
    await memory.observe(who, turns(*SAID, user=who.user_id))
    model.answer(useless.step, useless.answer)
    model.chat_requests.clear()
    if not useless.goes_on:
        with pytest.raises(ModelOutputError, match="twice: "):
            await memory.form(who)
        assert asked(model).count(useless.step) == 2, useless
        return
    (run,) = await memory.form(who)
    assert run["unaccounted"] == len(SAID) - 1, useless
    kept = {OSLO, BERGEN} if useless.step == DECISIONS else {BERGEN}
    assert kept <= {*await contents(memory, who)}, useless
    assert await contents(memory, who, "reflection") == [WISH], useless
    if useless.step == CONSOLIDATION:
        assert [one["outcome"] for one in run["consolidations"]] == ["refused"], useless


async def know_of_oslo(memory: Mnemic, model: LoopbackModel, who: Identity) -> None:
    before = who.model_copy(update={"session_id": f"{who.session_id} before"})
    model.answer(FACTS, facts(fact(OSLO), nothing_else=False))
    model.answer(DECISIONS, decisions())
    model.answer(REFLECTIONS, reflections())
    await memory.observe(before, turns("I live in Oslo with two cats."))
    await memory.form(before)
    model.answer(FACTS, facts(fact(BERGEN), nothing_else=False))
    model.answer(REFLECTIONS, reflections(user=[reflection(WISH)], nothing_else=False))


async def meet_all(clone: Clone, superuser: psycopg.Connection, met: list[tuple[Extraction, list[Useless]]]) -> None:
    """With the hardest settings: no message is kept for its own sake, and what may go goes at once."""
    for extraction, answers in met:
        with scripted_model() as model:
            settings = {"extraction": extraction, "keep_messages": "none", "forget_after_days": 0}
            async with scripted_memory(clone, model, **settings) as memory:
                for number, useless in enumerate(answers):
                    who = identity(f"ana{number}", session=f"{extraction} {number}")
                    await meet(memory, model, who, useless)
    assert lost(superuser) == []
    (pending,) = superuser.execute("select count(*) from mnemic.messages where formed_by is null").fetchall()
    assert pending == (len(SAID) * sum(not one.goes_on for _, answers in met for one in answers),)


def test_there_are_two_hundred() -> None:
    assert len(useless_answers()) >= 200


@pytest.mark.parametrize("every", few_first([50, 1], 1))
async def test_no_useless_answer_loses_a_word(clean_db: Clone, superuser: psycopg.Connection, every: int) -> None:
    kinds: tuple[Extraction, ...] = ("sequential", "single")
    await meet_all(clean_db, superuser, [(kind, of_kind(kind)[::every]) for kind in kinds])


@pytest.mark.thorough
async def test_control_what_lets_words_go_at_once_is_found_out(
    clean_db: Clone, superuser: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if every message that a run has read might go."""
    careless = inbox._SQL["forget_due"].replace("forget_at <= clock_timestamp()", "formed_by is not null")
    assert careless != inbox._SQL["forget_due"]
    monkeypatch.setattr(inbox, "_SQL", {**inbox._SQL, "forget_due": careless})
    some = [one for one in of_kind("sequential") if one.goes_on][:1]
    with pytest.raises(AssertionError, match="sequential 0"):
        await meet_all(clean_db, superuser, [("sequential", some)])


@pytest.mark.thorough
async def test_control_without_the_check_of_answers_the_run_goes_on(
    clean_db: Clone, superuser: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mnemic.operations.formation.drafts.Drafts.flaw", lambda *_: None)
    for extraction in ("sequential", "single"):
        with pytest.raises(BaseException, match="DID NOT RAISE"):
            await meet_all(clean_db, superuser, [(extraction, of_kind(extraction)[:1])])
