"""A model that refuses what is too much for it, answers too late, or fails below a host's own checkpoints."""

import re
import threading
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any, TypedDict

import psycopg
import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, StateGraph

from mnemic.models import answers
from mnemic.models.failures import failure_of
from mnemic.service.memory import Mnemic
from mnemic.state.errors import ModelError
from tests.support.loopback import LoopbackModel, bag_of_words
from tests.support.scripted import (
    DIMENSIONS,
    FACTS,
    REFLECTIONS,
    asked,
    contents,
    fact,
    facts,
    scripted_memory,
    scripted_model,
    turns,
)
from tests.support.server import Clone
from tests.support.worlds import expire_leases, identity

ANA = identity("ana", session="s1")
ANSWER = "Yttriumgarten"
GOOD = facts(fact("Ana keeps bees."))


@pytest.fixture
async def script(clean_db: Clone) -> AsyncIterator[tuple[Mnemic, LoopbackModel]]:
    """A service with 60 messages pending."""
    with scripted_model() as model:
        async with scripted_memory(clean_db, model) as memory:
            await memory.observe(ANA, turns("POISON", *[f"m{place}" for place in range(59)]))
            yield memory, model


async def come_back(memory: Mnemic, superuser: psycopg.Connection, times: int) -> None:
    """So many runs that nobody insists on, each after the wait of the one before."""
    for _ in range(times):
        with suppress(ModelError):
            await memory.form(ANA, force=False)
        expire_leases(superuser)


def narrow(request: dict[str, Any]) -> Any:
    """A model that refuses more than ten messages at once, as one with a small window does."""
    return 400 if len(re.findall(r"\n\d+ \[\d\d:\d\d\] ", request["messages"][-1]["content"])) > 10 else GOOD


def counts(superuser: psycopg.Connection) -> tuple[int, int]:
    """Messages that were formed, and that were set aside."""
    row = superuser.execute(
        "select count(*) filter (where formed_by is not null), count(*) filter (where quarantined) from mnemic.messages"
    ).fetchone()
    assert row is not None
    return int(row[0]), int(row[1])


@pytest.mark.thorough
async def test_what_is_too_much_for_a_model_is_formed_in_smaller_batches(
    script: tuple[Mnemic, LoopbackModel], superuser: psycopg.Connection
) -> None:
    memory, model = script
    model.answer(FACTS, narrow)
    await come_back(memory, superuser, times=30)

    # of 60 messages 50 are a batch: 50, 25 and 12 are refused, 6 are formed, thrice; with 42 left none is due
    assert counts(superuser) == (18, 0)
    assert asked(model).count(FACTS) == 12


@pytest.mark.thorough
async def test_control_a_refusal_taken_for_an_outage_is_paid_for_for_ever(
    script: tuple[Mnemic, LoopbackModel], superuser: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory, model = script
    monkeypatch.setattr(answers, "failure_of", lambda *given: failure_of(*given)._replace(is_refused=False))
    model.answer(FACTS, narrow)
    await come_back(memory, superuser, times=40)

    assert counts(superuser) == (0, 0)
    assert asked(model).count(FACTS) == 40


@pytest.mark.thorough
async def test_vectors_that_never_arrive_are_not_waited_for(clean_db: Clone) -> None:
    late = threading.Event()

    def stall(request: dict[str, Any]) -> Any:
        late.wait(timeout=30)
        return [bag_of_words(text, DIMENSIONS) for text in request["input"]]

    with scripted_model() as model:
        model.answer(FACTS, facts(fact("Ana keeps bees.")))
        model.answer_embeddings(stall)
        try:
            async with scripted_memory(clean_db, model, model_timeout_seconds=1) as memory:
                await memory.observe(ANA, turns("I keep bees"))
                (run,) = await memory.form(ANA)
                assert (run.formed, await contents(memory, ANA)) == (1, ["Ana keeps bees."])
        finally:
            late.set()
        assert asked(model) == [FACTS, REFLECTIONS]


class _Host(TypedDict):
    turn: int


async def test_a_hosts_checkpoints_hold_nothing_of_what_failed(script: tuple[Mnemic, LoopbackModel]) -> None:
    memory, model = script
    model.answer(FACTS, f"no JSON {ANSWER}")

    async def form(_: _Host) -> _Host:
        await memory.form(ANA)
        return {"turn": 2}

    builder: Any = StateGraph(_Host)
    builder.add_node("form", form)
    builder.add_edge(START, "form")
    builder.add_edge("form", END)
    saver = InMemorySaver()
    with pytest.raises(ModelError):
        await builder.compile(checkpointer=saver).ainvoke({"turn": 1}, {"configurable": {"thread_id": "t"}})

    kept = repr((dict(saver.storage), dict(saver.writes), dict(saver.blobs)))
    assert "ModelOutputError" in kept
    assert "POISON" not in kept
    assert ANSWER not in kept
