"""What a closed fact leaves behind: no prompt says any longer what it said, whoever closed it and wherever it went."""

import re
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import psycopg
import pytest

from mnemic.prompts.consolidation.write_consolidation import WriteConsolidationOutput
from mnemic.service.memory import Mnemic
from mnemic.state.identity import Identity
from mnemic.storage import memories
from tests.support.audited import assert_chain_is_whole
from tests.support.erasing import expire
from tests.support.loopback import LoopbackModel, Request, schema_name
from tests.support.mutating import worsen
from tests.support.scripted import (
    CONSOLIDATION,
    DECISIONS,
    FACTS,
    REFLECTIONS,
    asked,
    consolidation,
    contents,
    decision,
    decisions,
    fact,
    facts,
    last_prompt,
    meanwhile,
    reflection,
    reflections,
    say,
    scripted_memory,
)
from tests.support.server import Clone
from tests.support.worlds import identity, operate, text_of

KEYS = {"user": "user:ana", "group": "group:crew"}
CLOSINGS = ("superseded", "corrected", "forgotten", "expired")
PIER = "at the north pier"


def ana(session: str | None = None) -> Identity:
    return identity("ana", session=session, groups=["crew"])


BO = identity("bo", session="bos", groups=["crew"])


def boat(number: int) -> str:
    own = (f"{part}{number:02}" for part in ("mast", "keel", "sail"))  # a text that repeats itself is refused
    return f"Zeta{number:02} {PIER} with {' and '.join(own)}"


def known(number: int) -> str:
    return f"Ana moors the boat {boat(number)}."


def written(request: Request, *, is_told: bool) -> WriteConsolidationOutput:
    """A writer that keeps every sentence but those on a boat of which it is told that something has ended."""
    prompt = request["messages"][-1]["content"]
    parts = {name: "".join(re.findall(rf"<{name}>\n(.*?)\n</{name}>", prompt, re.DOTALL)) for name in
             ("present_text", "reflections", "no_longer_true")}  # fmt: skip
    ended = re.findall(r"no longer true: .*?(Zeta\d\d).*? \(since", parts["no_longer_true"]) if is_told else []
    lines = [
        *parts["present_text"].splitlines(),
        *re.findall(r"^- \[.{10}\] (.+)$", parts["reflections"], re.MULTILINE),
    ]
    said = [line for line in lines if PIER in line and not any(name in line for name in ended)]
    return consolidation("\n".join(dict.fromkeys(said)))


@asynccontextmanager
async def remembering(clone: Clone, model: LoopbackModel, *, is_told: bool = True) -> AsyncIterator[Mnemic]:
    """The service without what was said: that is found as said on its day, whatever is true today."""
    model.answer(CONSOLIDATION, lambda request: written(request, is_told=is_told))
    settings = {"keep_messages": "none", "facts_per_ten_messages": 10, "closings_per_message": 10}
    async with scripted_memory(clone, model, **settings) as memory:
        yield memory


async def tell(memory: Mnemic, model: LoopbackModel, session: str, scope: str, boats: Sequence[int]) -> None:
    """A session in which a fact and a reflection are drawn from each message, on a boat each."""
    model.answer(DECISIONS, decisions())
    model.answer(FACTS, facts(*[fact(known(number), place, scope=scope) for place, number in enumerate(boats, 1)]))
    drawn: Any = [
        reflection(f"The boat {boat(number)} is looked at first.", place) for place, number in enumerate(boats, 1)
    ]
    model.answer(REFLECTIONS, reflections(**{scope: drawn}))
    await say(memory, ana(session), *[known(number) for number in boats], *["Well."] * 4)
    model.answer(FACTS, facts())
    model.answer(REFLECTIONS, reflections())


async def threshold(memory: Mnemic, most: int) -> None:
    for key in KEYS.values():
        await memory.admin.configure_scope(ana(), key, threshold=most)


async def ids(memory: Mnemic, boats: Sequence[int]) -> list[UUID]:
    found = {row.content: row.id for row in await memory.memories(ana(), ["fact"])}
    return [found[known(number)] for number in boats]


async def sell(memory: Mnemic, model: LoopbackModel, boats: Sequence[int]) -> None:
    """A formation that ends the facts on these boats."""

    def decided(request: Request) -> object:
        prompt = request["messages"][-1]["content"]
        number = {name: int(known) for known, name in re.findall(r"known (\d+) .*moors the boat (Zeta\d\d)", prompt)}
        new = re.findall(r"new (\d+) .*sold the boat (Zeta\d\d)", prompt)
        return decisions(*[decision(int(place), "DELETE", number[name]) for place, name in new if name in number])

    model.answer(DECISIONS, decided)
    sold = [f"Ana sold the boat Zeta{number:02}." for number in boats]
    model.answer(FACTS, facts(*[fact(text, place, scope="group") for place, text in enumerate(sold, 1)]))
    await say(memory, ana(f"sale {boats[0]}"), *sold, *["Well."] * 4)
    model.answer(FACTS, facts())


async def close(
    memory: Mnemic, model: LoopbackModel, superuser: psycopg.Connection, how: str, boats: Sequence[int]
) -> None:
    if how == "superseded":
        await sell(memory, model, boats)
        return
    for number, memory_id in zip(boats, await ids(memory, boats), strict=True):
        if how == "corrected":
            await memory.correct(ana(), memory_id, f"Ana moors the boat Zeta{number:02} at the south pier.")
        elif how == "forgotten":
            await memory.forget(ana(), memory_id)
        else:
            expire(superuser, memory_id)


async def chat(memory: Mnemic, session: str = "idle") -> None:
    """A formation from which nothing comes, and whatever is due after it."""
    await say(memory, ana(session), "Hm.", "Well.", "Yes.", "So.")


async def in_context(memory: Mnemic, boats: Sequence[int]) -> set[int]:
    """The boats of which any member is told where they were, asked for or not."""
    found = set()
    for number in boats:
        for who in (ana("now"), BO):
            context = text_of(
                (await memory.recall(who, f"Where is the boat Zeta{number:02}?", search="always")).context
            )
            found |= {int(name) for name in re.findall(rf"Zeta(\d\d) {PIER}", context)}
    return found


@pytest.mark.parametrize("how", CLOSINGS)
@pytest.mark.parametrize("is_waiting", [True, False])
async def test_what_rests_on_a_closed_fact_is_looked_at_again_and_the_rest_stays(
    clean_db: Clone, model: LoopbackModel, superuser: psycopg.Connection, how: str, *, is_waiting: bool
) -> None:
    async with remembering(clean_db, model) as memory:
        await threshold(memory, 9 if is_waiting else 1)
        await tell(memory, model, "first", "user", [1, 2])
        assert bool(await contents(memory, ana(), "reflection")) == is_waiting
        assert await in_context(memory, [1, 2]) == {1, 2}
        await threshold(memory, 9)
        await close(memory, model, superuser, how, [1])
        await chat(memory)

        assert await in_context(memory, [1, 2]) == {2}
        if asked(model)[-1] == CONSOLIDATION:
            told = last_prompt(model, CONSOLIDATION).partition("<no_longer_true>")[2]
            assert f"no longer true: {known(1)} (since 2026-" in told
            assert ("now: Ana sold the boat" in told) == (how == "superseded")
            assert ("south pier" in told) == (how == "corrected")
        # at once where nothing else was drawn from those words; else in one call, and not again
        calls = asked(model).count(CONSOLIDATION)
        assert calls == (not is_waiting) + (not is_waiting or how in ("superseded", "expired"))
        await chat(memory, "later still")
        assert asked(model).count(CONSOLIDATION) == calls
        assert_chain_is_whole(superuser, "harbor")


#: Sessions of six boats, of which the first five are closed: whose, whether a consolidation took them in, and how.
FLEET = [
    ("user", True, "forgotten"),
    ("user", False, "forgotten"),
    ("group", True, "corrected"),
    ("user", False, "corrected"),
    ("user", True, "superseded"),
    ("group", False, "superseded"),
    ("group", True, "expired"),
    ("group", False, "expired"),
]


async def left_of_the_fleet(
    clone: Clone, model: LoopbackModel, superuser: psycopg.Connection, *, is_told: bool = True
) -> tuple[set[int], ...]:
    """Of 48 boats those that contexts tell of, before and after, and the eight that are where they were."""
    fleet = [(*session, range(10 * place + 1, 10 * place + 7)) for place, session in enumerate(FLEET)]
    everything = [number for *_, boats in fleet for number in boats]
    async with remembering(clone, model, is_told=is_told) as memory:
        for is_absorbed in (True, False):
            await threshold(memory, 1 if is_absorbed else 99)
            for scope, absorbed, _, boats in fleet:
                if absorbed == is_absorbed:
                    await tell(memory, model, f"of {boats[0]}", scope, boats)
        before = await in_context(memory, everything)
        for _, _, how, boats in sorted(fleet, key=lambda session: session[2] == "superseded"):
            await close(memory, model, superuser, how, boats[:5])
        await chat(memory)
        assert len(await memory.memories(ana(), ["consolidation"])) == 2
        return before, await in_context(memory, everything), {boats[5] for *_, boats in fleet}


@pytest.mark.thorough
async def test_of_forty_closed_facts_no_context_says_what_they_said(
    clean_db: Clone, model: LoopbackModel, superuser: psycopg.Connection
) -> None:
    before, after, still_there = await left_of_the_fleet(clean_db, model, superuser)
    assert len(before) == 48
    assert after == still_there


@pytest.mark.thorough
@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({}, id="the writer is not told"),
        pytest.param({"find_stale": ("where f.kind = 'fact'", "where false")}, id="nothing is looked at"),
        pytest.param({"close_parts": ("in ('active', 'absorbed')", "= 'active'")}, id="the parts are searched"),
    ],
)
async def test_control_without_each_rule_a_context_says_what_no_longer_holds(
    clean_db: Clone,
    model: LoopbackModel,
    superuser: psycopg.Connection,
    monkeypatch: pytest.MonkeyPatch,
    changes: dict[str, tuple[str, str]],
) -> None:
    worsen(monkeypatch, memories, **changes)
    _, after, still_there = await left_of_the_fleet(clean_db, model, superuser, is_told=bool(changes))
    assert after > still_there


async def test_undo_restores_facts_closed_together_and_keeps_others_of_the_words(
    clean_db: Clone, model: LoopbackModel
) -> None:
    async with remembering(clean_db, model) as memory:
        await threshold(memory, 9)
        await tell(memory, model, "first", "user", [1, 2])
        waiting = await contents(memory, ana(), "reflection")
        (closed,) = await ids(memory, [1])
        await memory.forget(ana(), closed)
        assert await contents(memory, ana(), "reflection") == waiting[1:]
        await memory.history.undo(ana(), (await memory.history.events(ana(), closed))[-1].op_id)
        assert await contents(memory, ana(), "reflection") == waiting
        assert await in_context(memory, [1, 2]) == {1, 2}

        # the same words, in a fact that holds: the reflection may be about that one
        model.answer(FACTS, facts(fact(known(3)), fact("Ana paints boats.")))
        model.answer(REFLECTIONS, reflections(user=[reflection(f"The boat {boat(3)} is looked at first.")]))
        await say(memory, ana("other"), f"I moor the boat {boat(3)} and paint it.", "Well.", "Yes.", "So.")
        await memory.forget(ana(), (await ids(memory, [3]))[0])
        assert len(await contents(memory, ana(), "reflection")) == 3


async def test_undone_consolidation_is_rewritten_if_it_states_a_closed_fact(
    clean_db: Clone, model: LoopbackModel, superuser: psycopg.Connection
) -> None:
    async with remembering(clean_db, model) as memory:
        await threshold(memory, 1)
        await tell(memory, model, "first", "user", [1, 2])
        await sell(memory, model, [1])
        (text,) = await memory.memories(ana(), ["consolidation"])
        rewriting = (await memory.history.events(ana(), text.id))[-1]
        await memory.history.undo(ana(), rewriting.op_id)
        assert await in_context(memory, [1, 2]) == {1, 2}
        parts = await memory.memories(ana(), ["reflection"], with_closed=True)
        assert [part.state for part in parts] == ["absorbed", "absorbed"]
        await chat(memory)
        assert await in_context(memory, [1, 2]) == {2}
        assert_chain_is_whole(superuser, "harbor")


async def test_undo_of_the_closing_session_restores_all_that_rested_on_the_fact(
    clean_db: Clone, model: LoopbackModel, superuser: psycopg.Connection
) -> None:
    async with remembering(clean_db, model) as memory:
        await threshold(memory, 1)
        await tell(memory, model, "first", "user", [1, 2])
        (before,) = await memory.memories(ana(), ["consolidation"])
        began = datetime.now(UTC)
        await sell(memory, model, [1])
        assert await in_context(memory, [1, 2]) == {2}
        await memory.history.undo_session(ana(), "sale 1", since=began)
        assert await contents(memory, ana(), "consolidation") == [before.content]
        calls = asked(model).count(CONSOLIDATION)
        await chat(memory)
        assert await in_context(memory, [1, 2]) == {1, 2}
        assert asked(model).count(CONSOLIDATION) == calls
        assert_chain_is_whole(superuser, "harbor")


async def test_fact_closed_while_the_model_writes_makes_the_text_stale(
    clean_db: Clone, model: LoopbackModel, superuser: psycopg.Connection
) -> None:
    async with remembering(clean_db, model) as memory:
        await threshold(memory, 1)
        await tell(memory, model, "first", "user", [1, 2, 3])
        first, second = await ids(memory, [1, 2])
        expire(superuser, first)
        forgetting = meanwhile(lambda: memory.forget(ana(), second), consolidation(f"The boat {boat(2)} is big."))
        model.answer(CONSOLIDATION, forgetting)
        late = await memory.admin.consolidate(ana(), "user:ana")
        assert (late.outcome, late.absorbed) == ("stale", 0)
        assert await in_context(memory, [1, 2, 3]) == {1, 2, 3}
        model.answer(CONSOLIDATION, lambda request: written(request, is_told=True))
        assert (await memory.admin.consolidate(ana(), "user:ana")).outcome == "saved"
        assert await in_context(memory, [1, 2, 3]) == {3}


async def test_a_text_that_still_says_what_has_ended_is_refused_and_told_again(
    clean_db: Clone, model: LoopbackModel, superuser: psycopg.Connection
) -> None:
    async with remembering(clean_db, model) as memory:
        await threshold(memory, 1)
        await tell(memory, model, "first", "user", [1, 2])
        expire(superuser, *await ids(memory, [1]))
        model.answer(CONSOLIDATION, consolidation(f"- {known(1)}\n- The boat {boat(2)} is big."))
        refused = await memory.admin.consolidate(ana(), "user:ana")
        assert (refused.outcome, refused.problem) == ("refused", "stale")
        revision = last_prompt(model, CONSOLIDATION).partition("<revision>")[2]
        assert f"no longer true: {known(1)}" in revision
        model.answer(CONSOLIDATION, lambda request: written(request, is_told=True))
        assert (await memory.admin.consolidate(ana(), "user:ana", force=True)).outcome == "saved"
        assert await in_context(memory, [1, 2]) == {2}


async def test_confidential_closed_fact_is_not_shown_to_the_text_of_a_group(
    clean_db: Clone, model: LoopbackModel
) -> None:
    async with remembering(clean_db, model) as memory:
        await threshold(memory, 9)
        for number, category in ((1, "projects"), (2, "profile"), (3, "projects")):
            model.answer(FACTS, facts(fact(known(number), category=category)))
            model.answer(REFLECTIONS, reflections(group=[reflection(f"The boat {boat(number)} is looked at first.")]))
            await say(memory, ana(f"s{number}"), f"I moor the boat {boat(number)}.", "Well.", "Yes.", "So.")
        secret, *others = await ids(memory, [1, 2, 3])
        await operate(memory.resources.database, ana(), lambda tx: memories.make_private(tx, secret))
        for memory_id in (secret, *others):
            await memory.forget(ana(), memory_id)
        model.answer(FACTS, facts())
        model.answer(REFLECTIONS, reflections())
        await chat(memory)
        prompt = last_prompt(model, CONSOLIDATION).partition("<no_longer_true>")[2]
        assert [known(number) in prompt for number in (1, 2, 3)] == [False, False, True]


async def test_what_was_only_put_into_other_words_is_not_outdated(clean_db: Clone, model: LoopbackModel) -> None:
    """The old words of an updated fact are closed, and still hold."""
    async with remembering(clean_db, model) as memory:
        await threshold(memory, 1)
        await tell(memory, model, "s1", "user", [1])
        asked = len(model.chat_requests)
        whole = f"{known(1)[:-1]} and the dinghy."
        model.answer(FACTS, facts(fact(whole)))
        model.answer(DECISIONS, decisions(decision(1, "UPDATE", 1, text=whole)))
        await threshold(memory, 9)
        await say(memory, ana("s2"), f"I moor the boat {boat(1)} and the dinghy.", *["Well."] * 4)
        assert [item.content for item in await memory.memories(ana(), ["fact"])] == [whole]
        assert CONSOLIDATION not in [schema_name(request) for request in model.chat_requests[asked:]]
        (old,) = [item for item in await memory.memories(ana(), ["fact"], with_closed=True) if item.state != "active"]
        assert (old.content, old.valid_until) == (known(1), None)


@pytest.mark.parametrize("event", ["DELETE", "UPDATE"])
async def test_a_successor_that_names_what_it_ends_does_not_say_it_on(
    clean_db: Clone, model: LoopbackModel, event: str
) -> None:
    """One has all words of what it ends, the other all but a name."""
    moved = f"{known(1)[:-1]} no longer." if event == "DELETE" else known(1).replace("Zeta01", "Yot")
    async with remembering(clean_db, model) as memory:
        await threshold(memory, 1)
        await tell(memory, model, "s1", "user", [1, 2])
        model.answer(FACTS, facts(fact(moved)))
        model.answer(DECISIONS, decisions(decision(1, event, 1, text=moved)))
        await threshold(memory, 9)
        await say(memory, ana("s2"), moved.replace("Ana moors", "I moor"), *["Well."] * 4)
        assert set(await contents(memory, ana(), "fact")) == {moved, known(2)}
        (text,) = await contents(memory, ana(), "consolidation")
        assert (boat(1) in text, boat(2) in text) == (False, True)
