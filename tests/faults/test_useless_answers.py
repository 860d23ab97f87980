"""Nothing is lost to a useless answer: 200 of them, and every message has its words, or something accounts for it."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import psycopg
import pytest
from pydantic import BaseModel

from mnemic.prompts.formation.decide import DECIDE, Decision
from mnemic.prompts.formation.extraction import EXTRACT_FACTS, EXTRACT_OBSERVATIONS, EXTRACT_REFLECTIONS
from mnemic.service.memory import Mnemic
from mnemic.state.errors import ModelOutputError
from mnemic.state.graphs import Lease
from mnemic.state.identity import Identity
from mnemic.state.kinds import Extraction
from mnemic.storage import inbox
from mnemic.storage.transaction import ScopedTransaction
from tests.support.loopback import LoopbackModel
from tests.support.matrix import few_first
from tests.support.scripted import (
    CONSOLIDATION,
    DECISIONS,
    FACTS,
    OBSERVATIONS,
    REFLECTIONS,
    asked,
    consolidation,
    contents,
    decision,
    decisions,
    fact,
    facts,
    observation,
    observations,
    reflection,
    reflections,
    say,
    scripted_memory,
    scripted_model,
    turns,
)
from tests.support.server import Clone
from tests.support.worlds import executing, identity

#: Messages of each conversation.
SAID = (
    "I keep forty hives of bees in Gentbrugge, and I sell the honey on Saturdays.",
    "My sister Rita is allergic to walnuts, so no walnuts at the party on 9 May.",
    "assistant: Noted. Forty hives, and no walnuts for Rita.",
    "We moved from Ghent to Gentbrugge in March, and I work at the harbor now.",
)
FOREIGN: tuple[list[int], ...] = ([], [0], [5], [99], [-1], [-4, 5], [2**40], [17, 18, 19], [0, 0, 0])
PROMPTS = {
    FACTS: EXTRACT_FACTS.prompt.system,
    REFLECTIONS: EXTRACT_REFLECTIONS.prompt.system,
    OBSERVATIONS: EXTRACT_OBSERVATIONS.prompt.system,
}
_FIRST_PERSON = ("I keep bees.", "We moved to Gentbrugge.", "My sister is allergic.", "You are kind.", "I work there.")
_LONG = "Ana keeps " + " and ".join(f"{n} hives in {n}{n}" for n in "abcdefghijklmnopqrstuvwxyz") + "."
#: So many drafts of a kind are the answer.
_TIMES = (1, 3, 5)


class Useless(NamedTuple):
    """One answer."""

    step: str
    name: str
    answer: BaseModel
    #: Whether formation goes on without it.
    goes_on: bool = False


def useless_answers() -> list[Useless]:
    """Of every step, of both kinds of extraction."""
    drafted = [answer for step in (FACTS, REFLECTIONS, OBSERVATIONS) for answer in _drafts(step)]
    return [*drafted, *_decisions(), *_consolidations()]


def _drafts(step: str) -> Iterator[Useless]:
    for times in _TIMES:
        for numbers in FOREIGN:
            name = "no sources" if not numbers else f"foreign numbers {numbers}"
            yield Useless(step, name, _answer(step, ["Ana keeps bees."] * times, numbers))
        for number, text in enumerate(_FIRST_PERSON):
            yield Useless(step, f"first person {number}", _answer(step, [text] * times, [1]))
        for number, text in enumerate((_LONG, _LONG * 3, f"{_LONG[:-1]} {'and more ' * 60}.")):
            yield Useless(step, f"too long {number}", _answer(step, [text] * times, [1, 2, 4]))
        lines = [line.strip(" -;.") for line in PROMPTS[step].splitlines()]
        for number, text in enumerate([line for line in lines if len(line.split()) >= 6][:4]):
            yield Useless(step, f"a copy of the prompt {number}", _answer(step, [text] * times, [1, 2]))
    yield Useless(step, "empty lists", _answer(step, [], [], nothing_else=False))


def _answer(step: str, texts: list[str], numbers: list[int], *, nothing_else: bool = True) -> BaseModel:
    draft: Any = {FACTS: fact, OBSERVATIONS: observation, REFLECTIONS: reflection}[step]
    made = [draft(text).model_copy(update={"messages": numbers}) for text in texts]
    if step == REFLECTIONS:
        return reflections(user=made, nothing_else=nothing_else)
    return (facts if step == FACTS else observations)(*made, nothing_else=nothing_else)


def _decisions() -> Iterator[Useless]:
    """Whatever is no good becomes ADD: the new fact stands beside the known one."""
    text = "Ana lives in Oslo with two cats."
    made: dict[str, list[Decision]] = {
        "nothing": [],
        "foreign numbers": [decision(99, "DELETE", 1), decision(1, "DELETE", 99), decision(0, "NONE", 0)],
        "a repeat of something else": [decision(1, "NONE", 1)],
        "the old text": [decision(1, "UPDATE", 1, text=text + " And more.")],
        "first person": [decision(1, "UPDATE", 1, text="I live in Bergen with two cats.")],
        "too long": [decision(1, "UPDATE", 1, text=_LONG)],
        "a copy of the prompt": [decision(1, "UPDATE", 1, text=DECIDE.prompt.system[:200])],
        "an update without words": [decision(1, "UPDATE", 1, text="")],
    }
    for name, answer in made.items():
        yield Useless(DECISIONS, name, decisions(*answer), goes_on=True)


def _consolidations() -> Iterator[Useless]:
    for name, text in {
        "nothing": "",
        "white space": " \n ",
        "one word for ever": "bees " * 300,
        "too long": " ".join(f"Ana keeps hive {n} at quay {n * 7}." for n in range(200)),
    }.items():
        yield Useless(CONSOLIDATION, name, consolidation(text), goes_on=True)


# -- what becomes of what was said

OSLO = "Ana lives in Oslo with two cats."
BERGEN = "Ana lives in Bergen with two cats."
WISH = "Ana wants short answers."


def of_kind(extraction: Extraction) -> list[Useless]:
    return [answer for answer in useless_answers() if (answer.step == OBSERVATIONS) == (extraction == "single")]


def lost(superuser: psycopg.Connection) -> list[tuple[str, int]]:
    """Messages without words that no memory rests on; in these scripts no model says that there is nothing else."""
    return superuser.execute(
        "select m.session_id, m.place from mnemic.messages m where m.content is null and not exists ("
        " select from mnemic.sources s join mnemic.memories x on (x.agent_id, x.id) = (s.agent_id, s.memory_id)"
        " where (s.agent_id, s.message_id) = (m.agent_id, m.id) and x.content <> '')"
    ).fetchall()


async def meet(memory: Mnemic, model: LoopbackModel, who: Identity, useless: Useless) -> None:
    """A conversation that this answer meets; the other steps answer well, and never that there is nothing else."""
    if useless.step == DECISIONS:
        before = who.model_copy(update={"session_id": f"{who.session_id} before"})
        model.answer(FACTS, facts(fact(OSLO), nothing_else=False))
        model.answer(DECISIONS, decisions())
        model.answer(REFLECTIONS, reflections())
        await say(memory, before, "I live in Oslo with two cats.")
    model.answer(FACTS, facts(fact(BERGEN), nothing_else=False))
    model.answer(REFLECTIONS, reflections(user=[reflection(WISH)], nothing_else=False))
    if useless.step == CONSOLIDATION:
        await memory.admin.configure_scope(who, f"user:{who.user_id}", threshold=1)
    await memory.observe(who, turns(*SAID, user=who.user_id))
    model.answer(useless.step, useless.answer)
    model.chat_requests.clear()
    if not useless.goes_on:
        with pytest.raises(ModelOutputError, match="twice: "):
            await memory.form(who)
        assert asked(model).count(useless.step) == 2, useless
        return
    (run,) = await memory.form(who)
    assert run.uncovered_messages == len(SAID) - 1, useless
    kept = {OSLO, BERGEN} if useless.step == DECISIONS else {BERGEN}
    assert kept <= {*await contents(memory, who)}, useless
    assert await contents(memory, who, "reflection") == [WISH], useless
    if useless.step == CONSOLIDATION:
        assert [result.outcome for result in run.consolidations] == ["refused"], useless


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
    assert pending == (len(SAID) * sum(not answer.goes_on for _, answers in met for answer in answers),)


@pytest.mark.parametrize("every", few_first([50, 1], 1))
async def test_no_useless_answer_loses_a_word(clean_db: Clone, superuser: psycopg.Connection, every: int) -> None:
    kinds: tuple[Extraction, ...] = ("sequential", "single")
    await meet_all(clean_db, superuser, [(kind, of_kind(kind)[::every]) for kind in kinds])


@pytest.mark.thorough
async def test_control_what_lets_words_go_at_once_is_found_out(
    clean_db: Clone, superuser: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if every message that a run has read might go."""
    every = "update messages set content = null where formed_by is not null"
    end_formation = inbox.end_formation

    async def forget_and_end(tx: ScopedTransaction, session_id: str, lease: Lease) -> tuple[int, bool]:
        await executing(every)(tx)
        return await end_formation(tx, session_id, lease)

    monkeypatch.setattr(inbox, "end_formation", forget_and_end)
    some = [answer for answer in of_kind("sequential") if answer.goes_on][:1]
    with pytest.raises(AssertionError, match="sequential 0"):
        await meet_all(clean_db, superuser, [("sequential", some)])


@pytest.mark.thorough
async def test_control_without_the_check_of_answers_the_run_goes_on(
    clean_db: Clone, superuser: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mnemic.memory.formation.builder.MemoryBuilder.issue", lambda *_: None)
    for extraction in ("sequential", "single"):
        with pytest.raises(BaseException, match="DID NOT RAISE"):
            await meet_all(clean_db, superuser, [(extraction, of_kind(extraction)[:1])])
