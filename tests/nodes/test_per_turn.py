"""Formation turn by turn: each turn at once, few memories of it, and a day's cap beyond which batches go on."""

import asyncio
from collections.abc import AsyncIterator
from itertools import count
from typing import Any, LiteralString

import psycopg
import pytest

from mnemic.service.memory import Mnemic
from mnemic.storage import scopes
from tests.support.loopback import LoopbackModel, Request
from tests.support.scripted import (
    DECISIONS,
    FACTS,
    REFLECTIONS,
    asked,
    contents,
    decisions,
    fact,
    facts,
    last_prompt,
    reflection,
    reflections,
    scripted_memory,
    together,
    turns,
)
from tests.support.server import Clone
from tests.support.worlds import identity

ANA = identity("ana", session="s1")
LATER = identity("ana", session="s2")
NOBODY = identity(None, session="s1")
NAMES = ("Alba", "Brisa", "Coral", "Delfim", "Estrela")
#: One fact of each importance from 1 to 5, the least important first.
FIVE = facts(*[fact(f"Ana owns a boat called {name}.", importance=rank) for rank, name in enumerate(NAMES, start=1)])
TURN = ("I keep bees.", "assistant: How nice.")


@pytest.fixture
async def memory(clean_db: Clone, model: LoopbackModel) -> AsyncIterator[Mnemic]:
    """The service, forming turn by turn."""
    async with scripted_memory(clean_db, model, formation_mode="per_turn") as opened:
        yield opened


def unformed(superuser: psycopg.Connection) -> int:
    return one(superuser, "select count(*) from mnemic.messages where formed_by is null")


def written(superuser: psycopg.Connection, user: str = "ana") -> int:
    """What the user's day counts."""
    return one(superuser, f"select coalesce(sum(turn_writes), 0) from mnemic.scopes where scope_key = 'user:{user}'")


def one(superuser: psycopg.Connection, statement: Any) -> int:
    row = superuser.execute(statement).fetchone()
    assert row is not None
    return int(row[0])


def use_up(superuser: psycopg.Connection, writes: int, user: str = "ana") -> None:
    superuser.execute("insert into mnemic.agents (agent_id) values ('harbor') on conflict do nothing")
    superuser.execute(
        "insert into mnemic.scopes (agent_id, scope_key, turn_writes, turn_writes_on)"
        " values ('harbor', %s, %s, (now() at time zone 'utc')::date)",
        (f"user:{user}", writes),
    )


def cool_down(superuser: psycopg.Connection) -> None:
    superuser.execute("update mnemic.sessions set last_activity_at = now() - interval '10 minutes'")


def a_new_fact_each_time(model: LoopbackModel) -> None:
    numbers = count(1)

    def answer(_: Request) -> Any:
        return facts(fact(f"Hive number {next(numbers)} stands at the quay.", 1, 2))

    model.answer(FACTS, answer)
    model.answer(DECISIONS, decisions())


async def test_one_agent_may_be_formed_turn_by_turn_at_once(clean_db: Clone, model: LoopbackModel) -> None:
    lighthouse = identity("ana", agent="lighthouse", session="s1")
    model.answer(FACTS, facts(fact("Ana keeps bees.")))
    async with scripted_memory(clean_db, model) as memory:
        await memory.admin.configure_agent(ANA, formation_mode="per_turn")
        for who in (ANA, lighthouse):
            await memory.observe(who, turns(*TURN))

        (run,) = await memory.form(ANA, force=False)
        assert (run.reason, run.formed, run.pending, run.stored) == ("turn", 2, 0, {"fact": 1})
        assert await memory.form(ANA, force=False) == []
        assert await memory.form(lighthouse, force=False) == []


@pytest.mark.parametrize(
    ("said", "most", "kept"),
    [(["a" * 600], 1, [5]), (["a" * 601], 5, [3, 4, 5]), (["a" * 300, "b" * 301], 5, [3, 4, 5])],
    ids=["600 characters", "601 characters", "two messages"],
)
async def test_a_long_turn_takes_the_multi_fact_pass_and_stores_three_at_most(
    memory: Mnemic, model: LoopbackModel, said: list[str], most: int, kept: list[int]
) -> None:
    model.answer(FACTS, FIVE)
    model.answer(DECISIONS, decisions())
    await memory.observe(ANA, turns(*said, "assistant: " + "c" * 900))
    (run,) = await memory.form(ANA, force=False)

    assert f"At most {most} facts" in last_prompt(model, FACTS)
    assert run.stored == {"fact": len(kept)}
    assert sorted(item.importance for item in await memory.memories(ANA, ["fact"])) == kept


async def test_facts_reflections_and_the_episode_share_the_cap(memory: Mnemic, model: LoopbackModel) -> None:
    model.answer(FACTS, facts(fact("Ana keeps bees.", importance=1), fact("Ana owns a red boat.", importance=4)))
    short = reflection("Ana wants short answers.", importance=5)
    model.answer(DECISIONS, decisions())
    model.answer(REFLECTIONS, reflections(user=[short], episode="Ana and the assistant spoke of boats."))
    await memory.observe(ANA, turns("a" * 601))
    (run,) = await memory.form(ANA, force=False)

    assert run.stored == {"fact": 1, "reflection": 1, "episode": 1}
    assert await contents(memory, ANA) == ["Ana owns a red boat."]


async def test_pending_turns_are_formed_one_by_one(memory: Mnemic, model: LoopbackModel) -> None:
    said = ["assistant: Welcome.", "One.", "One more.", "assistant: Yes.", "Two.", "Three.", "assistant: No."]
    await memory.observe(ANA, turns(*said[:5], "assistant: Go on.", *said[5:]))
    runs = await memory.form(ANA, force=False)

    assert [(run.reason, run.formed, run.pending) for run in runs] == [("turn", 4, 4), ("turn", 2, 2),
                                                                                ("turn", 2, 0)]  # fmt: skip
    assert asked(model) == [FACTS, REFLECTIONS] * 3
    prompts = [request["messages"][1]["content"] for request in model.chat_requests[::2]]
    assert [("Two." in prompt, "Three." in prompt) for prompt in prompts] == [(False, False), (True, False),
                                                                              (False, True)]  # fmt: skip


async def test_what_is_left_of_the_day_caps_the_last_turn(
    memory: Mnemic, model: LoopbackModel, superuser: psycopg.Connection
) -> None:
    model.answer(FACTS, FIVE)
    model.answer(DECISIONS, decisions())
    use_up(superuser, 18)
    await memory.observe(ANA, turns("a" * 601))
    (run,) = await memory.form(ANA, force=False)

    assert (run.stored, written(superuser)) == ({"fact": 2}, 20)


async def test_beyond_the_days_cap_turns_wait_for_their_batch(
    memory: Mnemic, model: LoopbackModel, superuser: psycopg.Connection
) -> None:
    a_new_fact_each_time(model)
    use_up(superuser, 20)
    await memory.observe(ANA, turns(*TURN, "And a hive.", "assistant: Yes."))
    await memory.observe(LATER, turns(*TURN, minutes=10))
    assert [await memory.form(who, force=False) for who in (ANA, LATER)] == [[], []]

    cool_down(superuser)
    assert [(run.reason, run.formed) for run in await memory.form(ANA, force=False)] == [("cold", 4)]
    assert [(run.reason, run.formed) for run in await memory.form(LATER)] == [("forced", 2)]
    assert (written(superuser), unformed(superuser), len(await memory.memories(ANA, ["fact"]))) == (20, 0, 2)


@pytest.mark.parametrize("used", [19, 20])
async def test_where_the_run_has_no_user_the_turns_first_speaker_counts(
    memory: Mnemic, model: LoopbackModel, superuser: psycopg.Connection, used: int
) -> None:
    a_new_fact_each_time(model)
    use_up(superuser, used, user="bo")
    await memory.observe(
        NOBODY, [*turns("assistant: Welcome."), *turns("I keep bees.", user="bo", minutes=1)], several_speakers=True
    )
    await memory.observe(
        NOBODY, turns("assistant: Fine.", "So do I.", "assistant: Fine.", user="ana", minutes=2), several_speakers=True
    )
    runs = await memory.form(NOBODY, force=False)

    assert [run.reason for run in runs] == (["turn", "turn"] if used == 19 else [])
    assert (written(superuser, "bo"), written(superuser, "ana")) == (20, 20 - used)


async def test_a_users_run_counts_on_their_own_day_whoever_speaks(
    memory: Mnemic, model: LoopbackModel, superuser: psycopg.Connection
) -> None:
    a_new_fact_each_time(model)
    await memory.observe(ANA, turns("I keep bees.", "assistant: Fine.", user="bo"), several_speakers=True)
    await memory.form(ANA, force=False)

    assert (written(superuser, "ana"), written(superuser, "bo")) == (1, 0)


async def test_a_retry_counts_on_the_day_of_those_who_spoke(
    memory: Mnemic, model: LoopbackModel, superuser: psycopg.Connection
) -> None:
    a_new_fact_each_time(model)
    use_up(superuser, 20, "bo")
    await memory.observe(NOBODY, turns("I keep bees.", "assistant: Fine.", user="bo"), several_speakers=True)
    superuser.execute("update mnemic.messages set quarantined = true")

    runs = await memory.form(NOBODY, retry=True)  # in a batch, for the day is used up
    assert ([run.formed for run in runs], unformed(superuser)) == ([2], 0)


@pytest.mark.parametrize("counted", [True, pytest.param(False, marks=pytest.mark.thorough)], ids=["", "control"])
async def test_two_turns_that_end_at_once_never_exceed_the_day(
    memory: Mnemic,
    model: LoopbackModel,
    superuser: psycopg.Connection,
    monkeypatch: pytest.MonkeyPatch,
    counted: bool,
) -> None:
    """Of two sessions of one user, with one memory left for the day; the control does not see what it has counted."""
    if not counted:
        blind: LiteralString = scopes._SQL["count_turn_writes"].replace("returning turn_writes", "returning 0")
        monkeypatch.setattr(scopes, "_SQL", {**scopes._SQL, "count_turn_writes": blind})
    both = together(2, facts(fact("Ana keeps bees.")), facts(fact("Forty hives belong to Ana.")))
    model.answer(FACTS, both, both, facts())
    model.answer(DECISIONS, decisions())
    use_up(superuser, 19)
    for who in (ANA, LATER):
        await memory.observe(who, turns(*TURN))
    runs = await asyncio.gather(*(memory.form(who, force=False) for who in (ANA, LATER)))

    assert sorted(len(of_session) for of_session in runs) == [0 if counted else 1, 1]  # the other waits for its batch
    assert written(superuser) == len(await memory.memories(ANA, ["fact"])) + 19 == (20 if counted else 21)
    if counted:
        for who in (ANA, LATER):
            assert await memory.form(who, force=False) == []
            await memory.form(who)
        assert (written(superuser), unformed(superuser)) == (20, 0)
