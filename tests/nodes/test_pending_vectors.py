"""Texts that the embedder refuses, or does not answer for: stored at once, found by words, embedded later."""

import asyncio
import logging
import threading
from collections.abc import Callable
from typing import Any
from uuid import uuid4

import psycopg
import pytest

from mnemic.service.memory import Mnemic
from mnemic.state.errors import EmbedderUnavailableError, EmbeddingError
from mnemic.state.graphs import Lease
from mnemic.state.records import FilledVectors
from mnemic.storage import embeddings, inbox
from mnemic.storage.doctor import check_vectors
from mnemic.storage.transaction import ScopedTransaction
from tests.support.loopback import LoopbackModel, Request
from tests.support.scripted import (
    DECISIONS,
    DIMENSIONS,
    FACTS,
    REFLECTIONS,
    asked,
    contents,
    decision,
    decisions,
    fact,
    facts,
    last_prompt,
    scripted_memory,
    turns,
)
from tests.support.server import Clone
from tests.support.worlds import identity

ANA = identity("ana", session="s1")
BEES = "Ana keeps forty bees in Oslo."
#: 2,000 characters, as somebody pastes them.
LONG = "The mandrake grows behind the old mill. " + "Nothing else is known of that garden. " * 51
SAID = ("I keep forty bees in Oslo", "assistant: How nice", LONG, "Thank you")


def refusing(is_bad: Callable[[str], bool]) -> Callable[[Request], Any]:
    """An endpoint that answers with status 400 if one of the texts is bad."""
    return lambda request: 400 if any(is_bad(text) for text in request["input"]) else None


def pending(superuser: psycopg.Connection) -> int:
    (row,) = superuser.execute("select count(*) from mnemic.entries where model = ''").fetchall()
    return int(row[0])


def let_them_be_due(superuser: psycopg.Connection) -> None:
    superuser.execute("update mnemic.entries set embed_after = now() - interval '1 second' where model = ''")


async def by_meaning(memory: Mnemic, question: str, kind: str) -> list[str]:
    found = await memory.query(ANA, question, search_type="semantic", top_k=10)
    return [item.content for item in found if item.kind == kind]


async def test_a_message_that_is_too_long_for_the_endpoint_holds_up_nothing(
    memory: Mnemic, model: LoopbackModel, superuser: psycopg.Connection
) -> None:
    model.answer(FACTS, facts(fact(BEES, 1, 3)))  # the messages of its sources are kept
    model.answer_embeddings(refusing(lambda text: len(text) > 900))
    await memory.observe(ANA, turns(*SAID))

    (run,) = await memory.form(ANA)

    assert (run.formed, run.pending, await contents(memory, ANA)) == (4, 0, [BEES])
    assert asked(model) == [FACTS, REFLECTIONS]
    assert pending(superuser) == 0
    assert LONG.strip() in await by_meaning(memory, LONG[:300], "message")


async def test_a_refused_text_is_found_by_words_until_the_endpoint_takes_it(
    memory: Mnemic, model: LoopbackModel, superuser: psycopg.Connection, caplog: pytest.LogCaptureFixture
) -> None:
    model.answer(FACTS, facts(fact(BEES, 1, 3)))  # the messages of its sources are kept
    model.answer_embeddings(refusing(lambda text: "mandrake" in text))
    await memory.observe(ANA, turns(*SAID))
    await memory.form(ANA)

    assert asked(model) == [FACTS, REFLECTIONS]
    assert pending(superuser) == 1
    assert "1 of " in caplog.text
    assert "mandrake" not in caplog.text
    found = await memory.query(ANA, "What is known of the mandrake?")  # which is refused itself
    assert LONG.strip() in [item.content for item in found]
    with pytest.raises(EmbeddingError, match='search_type="text"'):
        await memory.query(ANA, "mandrake", search_type="semantic")
    recalled = await memory.recall(ANA, "Do you remember the mandrake?", search="always")
    assert (recalled.degraded, "mandrake" in recalled.context.turn) == ("text_only", True)
    assert "; without a vector" in (await check_vectors(memory.resources.database, "openai:embed-test")).note
    assert await memory.admin.embed_pending(ANA) == FilledVectors(embedded=0, pending=1)

    model.answer_embeddings(None)
    before = superuser.execute("select agent_id, revision, hash from mnemic.heads").fetchall()
    assert await memory.admin.embed_pending(ANA) == FilledVectors(embedded=1, pending=0)
    assert LONG.strip() in await by_meaning(memory, LONG[:300], "message")
    assert superuser.execute("select agent_id, revision, hash from mnemic.heads").fetchall() == before
    assert superuser.execute("select distinct model from mnemic.entries").fetchall() == [
        (memory.resources.embedder.name,)
    ]


@pytest.mark.parametrize("answer", [400, 500])
async def test_facts_without_embedder_are_compared_by_words_and_embedded_later(
    memory: Mnemic, model: LoopbackModel, superuser: psycopg.Connection, answer: int
) -> None:
    await memory.remember(ANA, BEES, category="activity")
    model.answer_embeddings(answer)
    fifty = "Ana keeps fifty bees in Oslo."
    model.answer(FACTS, facts(fact(fifty, category="activity"), fact("Ana plays the violin.")))
    model.answer(DECISIONS, decisions(decision(1, "DELETE", 1)))
    await memory.observe(ANA, turns("I keep fifty bees in Oslo now, and play the violin"))

    (run,) = await memory.form(ANA)

    assert BEES in last_prompt(model, DECISIONS)
    assert (run.formed, await contents(memory, ANA)) == (1, [fifty, "Ana plays the violin."])
    assert asked(model) == [FACTS, DECISIONS, REFLECTIONS]
    assert pending(superuser) == 3
    (found, *_) = await memory.query(ANA, "violin", search_type="text")
    assert "violin" in found.content
    if answer == 500:
        with pytest.raises(EmbedderUnavailableError):
            await memory.admin.embed_pending(ANA)

    model.answer_embeddings(None)
    assert await memory.admin.embed_pending(ANA) == FilledVectors(embedded=3, pending=0)
    assert fifty in await by_meaning(memory, fifty, "fact")


async def test_an_explicit_write_is_stored_while_the_embedder_stands_still(
    clean_db: Clone, model: LoopbackModel, superuser: psycopg.Connection
) -> None:
    answered = threading.Event()
    async with scripted_memory(clean_db, model, pool_timeout_seconds=1) as memory:
        kept = await memory.remember(ANA, BEES, category="activity")
        model.answer_embeddings(lambda _: answered.wait(timeout=20) and None)
        new = await memory.remember(ANA, "Ana plays the violin.", category="activity")
        assert kept.id
        await memory.correct(ANA, kept.id, "Ana keeps fifty bees in Oslo.")
        again = await memory.remember(ANA, "Ana plays the violin.", category="activity")
        answered.set()
        model.answer_embeddings(None)

        assert (again.known, again.id) == (True, new.id)
        assert await contents(memory, ANA) == ["Ana keeps fifty bees in Oslo.", "Ana plays the violin."]
        assert await memory.admin.embed_pending(ANA) == FilledVectors(embedded=2, pending=0)


async def test_next_formation_fills_due_vectors_and_backs_off_for_refused_texts(
    memory: Mnemic, model: LoopbackModel, superuser: psycopg.Connection
) -> None:
    model.answer_embeddings(refusing(lambda text: "mandrake" in text))
    requests: list[int] = []

    async def form(text: str) -> None:
        before = len(model.embedding_requests)
        await memory.observe(ANA, turns(text))
        await memory.form(ANA)
        await memory.resources.background.finish()
        after = model.embedding_requests[before:]
        requests.append(sum("mandrake" in text for request in after for text in request["input"]))

    await memory.remember(ANA, "Ana grows a mandrake.", category="activity")
    await form("I have a dog")
    let_them_be_due(superuser)
    await form("I have a cat")
    await form("I have a bird")
    assert (pending(superuser), [count > 0 for count in requests]) == (1, [False, True, False])
    waits = "select refusals, embed_after > now() + interval '3 minutes' from mnemic.entries where model = ''"
    assert superuser.execute(waits).fetchall() == [(1, True)]

    model.answer_embeddings(None)
    let_them_be_due(superuser)
    await form("I have a fish")
    assert pending(superuser) == 0


async def test_outage_or_stop_does_not_lengthen_the_wait_of_a_refused_text(
    memory: Mnemic, model: LoopbackModel, superuser: psycopg.Connection
) -> None:
    model.answer_embeddings(500)
    await memory.remember(ANA, BEES, category="activity")
    superuser.execute("update mnemic.entries set refusals = 5, embed_after = null")
    with pytest.raises(EmbedderUnavailableError):
        await memory.admin.embed_pending(ANA)
    waits = "select embed_after < now() + interval '61 seconds' from mnemic.entries"
    assert superuser.execute(waits).fetchall() == [(True,)]

    let_them_be_due(superuser)
    is_asked, loop = asyncio.Event(), asyncio.get_running_loop()
    may_answer = threading.Event()

    def answer(_: Request) -> None:
        loop.call_soon_threadsafe(is_asked.set)
        may_answer.wait(timeout=20)

    model.answer_embeddings(answer)
    task = asyncio.create_task(memory.admin.embed_pending(ANA))
    await is_asked.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    may_answer.set()
    assert superuser.execute("select embed_after from mnemic.entries").fetchall() == [(None,)]


async def test_a_wrong_key_is_an_error_and_leaves_the_messages_pending(memory: Mnemic, model: LoopbackModel) -> None:
    model.answer(FACTS, facts(fact(BEES)))
    model.answer_embeddings(401)
    await memory.observe(ANA, turns("I keep forty bees in Oslo"))
    with pytest.raises(EmbeddingError, match="MNEMIC_API_KEY"):
        await memory.form(ANA)

    model.answer_embeddings(None)
    (run,) = await memory.form(ANA)
    assert (run.formed, await contents(memory, ANA)) == (1, [BEES])


async def are_due(tx: ScopedTransaction) -> bool:
    """Whether a formation that ends in this transaction has vectors filled."""
    await tx.begin_operation("formation")
    lease = Lease(work="formation", scope_key="session:s1", holder=uuid4())
    _, has_due_vectors = await inbox.end_formation(tx, "s1", lease)
    return has_due_vectors


async def test_a_vector_is_filled_for_its_own_text_and_scope_alone(
    memory: Mnemic, model: LoopbackModel, superuser: psycopg.Connection, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.ERROR)
    model.answer_embeddings(500)
    await memory.remember(ANA, BEES, category="activity")
    let_them_be_due(superuser)
    database, vector = memory.resources.database, [1.0] * DIMENSIONS
    for other in (identity("jonas", session="s2"), identity("ana", agent="museum")):
        async with database.transaction(other) as tx:
            assert not await are_due(tx)
            assert await embeddings.claim(tx, limit=10) == []

    async with database.transaction(ANA) as tx:
        assert await are_due(tx)
        (claimed,) = await embeddings.claim(tx, limit=10)
        assert await embeddings.claim(tx, limit=10) == []
    superuser.execute("set session_replication_role = replica")
    superuser.execute("update mnemic.memories set content = 'Ana sold her bees.'")
    superuser.execute("set session_replication_role = origin")
    async with database.transaction(ANA) as tx:
        assert await embeddings.fill(tx, [claimed], [vector], model="any") == 0
    assert pending(superuser) == 1
