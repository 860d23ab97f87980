"""However often one comes back to a model that fails, it is asked a bounded number of times."""

import threading
from collections.abc import AsyncIterator
from contextlib import suppress
from types import ModuleType
from typing import Any, TypedDict

import psycopg
import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, StateGraph

from mnemic.models import answers
from mnemic.models.embedders import openai as embedder
from mnemic.service.memory import Mnemic
from mnemic.state.errors import EmbeddingError, ModelError
from mnemic.storage import leases
from tests.support.loopback import Answer, LoopbackModel
from tests.support.loopback_wire import bag_of_words
from tests.support.mutating import worsen
from tests.support.scripted import (
    DIMENSIONS,
    FACTS,
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
TRIES = 5
ANSWER = "Yttriumgarten"
#: A call and its repair.
CALLS = 2
GOOD = facts(fact("Ana keeps bees."))


@pytest.fixture
async def script(clean_db: Clone) -> AsyncIterator[tuple[Mnemic, LoopbackModel]]:
    """A service with 60 messages pending, the first of which no model can answer."""
    with scripted_model() as model:
        async with scripted_memory(clean_db, model) as memory:
            await memory.observe(ANA, turns("POISON", *[f"m{place}" for place in range(59)]))
            yield memory, model


def poisoned(request: dict[str, Any]) -> Any:
    said = str(request["messages"])
    return f"no JSON {ANSWER}" if "POISON" in said else GOOD


async def come_back(memory: Mnemic, superuser: psycopg.Connection | None = None, times: int = 100) -> None:
    """So many runs that nobody insists on; with a superuser each after the wait of the one before."""
    for _ in range(times):
        with suppress(ModelError):
            await memory.form(ANA, force=False)
        if superuser:
            expire_leases(superuser)


@pytest.mark.parametrize(
    ("answer", "requests"),
    [("no JSON", CALLS), *(pytest.param(*case, marks=pytest.mark.thorough) for case in ((400, 1), (401, 1), (500, 3)))],
)
async def test_within_the_wait_nobody_asks_again(
    script: tuple[Mnemic, LoopbackModel], answer: str | int, requests: int
) -> None:
    memory, model = script
    model.answer(FACTS, answer)
    await come_back(memory, times=50)
    await memory.observe(ANA, turns("and another thing", minutes=99))
    await come_back(memory, times=50)

    assert len(model.chat_requests) == requests


async def test_a_poisoned_message_is_asked_about_as_often_as_it_may(
    script: tuple[Mnemic, LoopbackModel], superuser: psycopg.Connection
) -> None:
    memory, model = script
    model.answer(FACTS, poisoned)
    await come_back(memory, superuser)

    assert sum("POISON" in str(request["messages"]) for request in model.chat_requests) == TRIES * CALLS
    assert await contents(memory, ANA) == ["Ana keeps bees."]
    assert "POISON" in str(superuser.execute("select content from mnemic.messages where set_aside").fetchall())


def narrow(request: dict[str, Any]) -> Any:
    """A model that refuses more than ten messages at once, as one with a small window does."""
    return 400 if str(request["messages"]).count("(user): ") > 10 else GOOD


def counts(superuser: psycopg.Connection) -> tuple[int, int]:
    """Messages that were formed, and that were set aside."""
    row = superuser.execute(
        "select count(*) filter (where formed_by is not null), count(*) filter (where set_aside) from mnemic.messages"
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
@pytest.mark.parametrize(("module", "answer", "vectors"), [(answers, narrow, None), (embedder, GOOD, 400)])
async def test_control_a_refusal_taken_for_an_outage_is_paid_for_for_ever(
    script: tuple[Mnemic, LoopbackModel],
    superuser: psycopg.Connection,
    monkeypatch: pytest.MonkeyPatch,
    module: ModuleType,
    answer: Answer,
    vectors: Answer | None,
) -> None:
    memory, model = script
    monkeypatch.setattr(module, "refuses_request", lambda error: False)
    model.answer(FACTS, answer)
    model.answer_embeddings(vectors)
    await come_back(memory, superuser, times=40)

    assert counts(superuser) == (0, 0)
    assert asked(model).count(FACTS) == 40


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("lacks", "changes", "answer", "requests"),
    [
        ("wait", {"claim": ("(l.holder is null and %(forced)s)", "(l.holder is null or %(forced)s)")}, 401, 1),
        ("tries", {"give_back": ("tries + %(tries)s", "tries")}, poisoned, CALLS),
    ],
)
async def test_control_without_the_wait_or_the_tries_every_run_asks(
    script: tuple[Mnemic, LoopbackModel],
    superuser: psycopg.Connection,
    monkeypatch: pytest.MonkeyPatch,
    lacks: str,
    changes: dict[str, tuple[str, str]],
    answer: Answer,
    requests: int,
) -> None:
    memory, model = script
    worsen(monkeypatch, leases, **changes)
    model.answer(FACTS, answer)
    await come_back(memory, superuser if lacks == "tries" else None, times=20)

    assert len(model.chat_requests) == 20 * requests


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
            async with scripted_memory(clean_db, model, model_timeout_seconds=0.2) as memory:
                await memory.observe(ANA, turns("I keep bees"))
                with pytest.raises(EmbeddingError, match="timeout"):
                    await memory.form(ANA)
        finally:
            late.set()
        assert len(model.embedding_requests) == 3


class _Host(TypedDict):
    turn: int


async def test_a_hosts_checkpoints_hold_nothing_of_what_failed(script: tuple[Mnemic, LoopbackModel]) -> None:
    memory, model = script
    model.answer(FACTS, poisoned)

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
