"""A turn is answered all the same: with less memory where the embedder or the database fails, and it says so."""

import logging
import os
import shutil
import signal
import threading
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from mnemic.models.chat import MAX_RETRIES
from mnemic.service.memory import Mnemic
from mnemic.state.errors import DatabaseSetupError, DatabaseUnavailableError, EmbeddingError
from mnemic.storage.embedded.postmaster import try_exclusive
from mnemic.storage.embedded.server import EmbeddedPostgres
from tests.nodes.bees import ANA, BEES, GREETING, PAST, WISH, fill
from tests.support.loopback import LoopbackModel
from tests.support.scripted import scripted_memory, scripted_resources
from tests.support.server import Clone, fast_directory


@pytest.mark.parametrize(("status", "requests"), [(401, 1), (500, 1 + MAX_RETRIES)])
async def test_without_the_embedder_the_search_goes_by_text_alone(
    memory: Mnemic, model: LoopbackModel, caplog: pytest.LogCaptureFixture, status: int, requests: int
) -> None:
    await fill(memory, model)
    model.answer_embeddings(status)
    context = await memory.recall(ANA, PAST)

    assert (context["degraded"], context["searched"]) == ("text_only", "past_question")
    assert BEES in context["context"]
    assert WISH in context["context"]
    assert len(model.embedding_requests) == requests
    assert [record.getMessage() for record in caplog.records if record.name == "mnemic"] == [
        f"the question has no vector, so a search goes by text alone: openai:embed-test:384 could not be used: "
        f"{'key refused' if status == 401 else 'server error'} (HTTP {status}, scripted_code)"
    ]
    assert await memory.recall_text(ANA, PAST) == context["context"]


async def test_an_embedder_that_never_answers_keeps_no_turn_waiting(
    clean_db: Clone, model: LoopbackModel, caplog: pytest.LogCaptureFixture
) -> None:
    async with scripted_memory(clean_db, model, recall_timeout_seconds=0.3) as memory:
        await fill(memory, model)
        answered = threading.Event()
        model.answer_embeddings(lambda _: answered.wait(timeout=20) and None)
        context = await memory.recall(ANA, PAST)
        answered.set()

    assert (context["degraded"], BEES in context["context"]) == ("text_only", True)
    assert "no answer within 0.3 s" in caplog.text


async def test_a_recall_that_lacks_nothing_says_so(memory: Mnemic, model: LoopbackModel) -> None:
    await fill(memory, model)
    assert (await memory.recall(ANA, PAST))["degraded"] is None
    model.answer_embeddings(401)
    for question in (GREETING, ""):  # no search, so nothing is missing
        assert (await memory.recall(ANA, question))["degraded"] is None
    assert len(model.embedding_requests) == 1


async def test_a_search_by_method_names_the_way_without_an_embedder(memory: Mnemic, model: LoopbackModel) -> None:
    await fill(memory, model)
    model.answer_embeddings(401)
    with pytest.raises(EmbeddingError, match=r'key refused .*; search_type="text" searches without the embedder'):
        await memory.query(ANA, PAST)
    assert BEES in {found.content for found in await memory.query(ANA, PAST, search_type="text")}


async def test_with_every_connection_in_use_the_turn_goes_without_memory(
    clean_db: Clone, model: LoopbackModel, caplog: pytest.LogCaptureFixture
) -> None:
    async with scripted_resources(clean_db, model, pool_size=1, recall_timeout_seconds=0.1) as resources:
        memory = Mnemic(resources)
        await fill(memory, model)
        async with resources.database.scoped(ANA):
            context = await memory.recall(ANA, PAST)
            assert await memory.recall_text(ANA, PAST) == ""
            with pytest.raises(DatabaseUnavailableError, match="MNEMIC_POOL_SIZE"):
                await memory.query(ANA, PAST)
        assert (await memory.recall(ANA, PAST))["degraded"] is None  # and the next one has it again

    nothing: dict[str, object] = {
        "context": "",
        "memories": [],
        "searched": None,
        "tokens": 0,
        "revision": None,
        "updates": [],
        "over_budget": [],
    }
    assert context == {**nothing, "degraded": "no_memory"}
    warnings = [record for record in caplog.records if record.name == "mnemic"]
    assert {record.levelno for record in warnings} == {logging.WARNING}
    assert all("goes without memory: no connection" in record.getMessage() for record in warnings)
    assert len(model.embedding_requests) == 2  # the search's, and the last recall's: without a database nobody embeds


async def test_a_search_that_takes_too_long_is_cut_and_the_turn_goes_without_memory(
    clean_db: Clone, model: LoopbackModel
) -> None:
    async with scripted_memory(clean_db, model, recall_timeout_seconds=0.2, lock_timeout_seconds=20) as memory:
        await fill(memory, model)
        with clean_db.as_superuser() as connection, connection.transaction():
            connection.execute("lock table mnemic.entries")
            assert (await memory.recall(ANA, PAST))["degraded"] == "no_memory"
            assert (await memory.recall(ANA, GREETING))["degraded"] is None
        assert (await memory.recall(ANA, PAST))["degraded"] is None


async def test_nothing_of_the_question_is_logged(
    memory: Mnemic, model: LoopbackModel, superuser: psycopg.Connection, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, logger="mnemic")
    await fill(memory, model)
    model.answer_embeddings(401)
    secret = "Mara's diagnosis of last year"
    await memory.recall(ANA, secret, search="always")
    with superuser.transaction():
        superuser.execute("lock table mnemic.memories")
        assert (await memory.recall(ANA, secret, search="always"))["degraded"] == "no_memory"
    assert len([record for record in caplog.records if record.name == "mnemic"]) == 2
    assert "Mara" not in caplog.text


async def test_what_does_not_pass_by_itself_is_raised(fresh_db: Clone, model: LoopbackModel) -> None:
    async with scripted_memory(fresh_db, model) as memory:
        await fill(memory, model)
        with fresh_db.as_superuser() as connection:
            connection.execute("drop table mnemic.entries")
        with pytest.raises(DatabaseSetupError):
            await memory.recall(ANA, PAST)


@pytest.fixture
def base() -> Iterator[Path]:
    directory = fast_directory() / f"mnemic-killed-{uuid.uuid4().hex[:12]}"
    yield directory
    shutil.rmtree(directory)


def kill_server(base: Path, how: signal.Signals = signal.SIGKILL) -> None:
    pid = int((base / "data" / "postmaster.pid").read_text().split()[0])
    os.kill(pid, how)
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    while (lock := try_exclusive(base / "server.lock")) is None:
        time.sleep(0.01)  # a backend notices a moment later that its server is gone
    os.close(lock)


PATIENCE = {"pool_size": 2, "pool_timeout_seconds": 1, "recall_timeout_seconds": 1}


@pytest.mark.thorough
async def test_an_embedded_database_that_was_shut_down_stays_down(
    clean_db: Clone, model: LoopbackModel, base: Path
) -> None:
    async with scripted_memory(clean_db, model, database_url=None, data_dir=base, **PATIENCE) as memory:
        await fill(memory, model)
        kill_server(base, signal.SIGINT)
        for _ in range(3):
            assert (await memory.recall(ANA, PAST))["degraded"] == "no_memory"
        with EmbeddedPostgres(base):
            assert (await memory.recall(ANA, PAST))["degraded"] is None
