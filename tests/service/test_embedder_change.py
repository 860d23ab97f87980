"""Another embedder is set: vectors of the former one are counted, found by words, and there again afterwards."""

import logging

import psycopg
import pytest

from mnemic.storage.database import Database
from mnemic.storage.doctor import check_vectors
from tests.support.loopback import LoopbackModel
from tests.support.scripted import scripted_memory
from tests.support.searching import fact, know
from tests.support.server import Clone
from tests.support.worlds import identity

ANA = identity("ana", session="s1")
MEMORIES = 2000
MINILM = "minilm:all-MiniLM-L6-v2-int8"
ENDPOINT = "openai:embed-test:384"
#: The same in other words, and in its own; a fact of the time of the other embedder.
MEANT, WORDED, LATER = "Where does my seafaring vessel lie?", "Where is berth 777?", "Ana has sold her old piano."


@pytest.mark.thorough
async def test_an_embedder_may_be_changed_and_changed_back(
    worker_db: Clone, superuser: psycopg.Connection, caplog: pytest.LogCaptureFixture
) -> None:
    known = [fact(f"Ana paid for berth {number}.", "tasks") for number in range(MEMORIES - 1)]
    boat = fact("Ana's boat is moored in Faro.", "tasks")
    with LoopbackModel() as endpoint:
        async with scripted_memory(worker_db, endpoint, embedder="minilm") as memory:
            await know(memory.resources, ANA, *known, boat)
            first = [item.content for item in await memory.query(ANA, MEANT, search_type="semantic", top_k=3)]
            assert boat.content in first
        assert "another embedder" not in caplog.text

        async with scripted_memory(worker_db, endpoint) as memory:
            with caplog.at_level(logging.WARNING):
                found = [await memory.query(ANA, WORDED, top_k=1) for _ in range(2)]
            warnings = [record.getMessage() for record in caplog.records if "another embedder" in record.getMessage()]
            assert len(warnings) == 1
            assert all(part in warnings[0] for part in (f"{MEMORIES:,} of {MINILM}", ENDPOINT))
            assert [(one.content, one.explanation.similarity) for (one,) in found] == [(known[777].content, None)] * 2
            assert await memory.query(ANA, MEANT, search_type="semantic") == []
            await know(memory.resources, ANA, fact(LATER, "tasks"))
            assert [item.content for item in await memory.query(ANA, LATER, search_type="semantic")] == [LATER]
            await check_note(memory.resources.database)

        async with scripted_memory(worker_db, endpoint, embedder="minilm") as memory:
            again = await memory.query(ANA, MEANT, search_type="semantic", top_k=3)
            assert [item.content for item in again] == first
            (piano,) = await memory.query(ANA, LATER, top_k=1)
            assert (piano.content, piano.explanation.similarity) == (LATER, None)
    assert superuser.execute("select count(*) from mnemic.entries where model = %s", (MINILM,)).fetchone() == (
        MEMORIES,
    )


async def check_note(database: Database) -> None:
    """What the doctor says; the endpoint's own name lacks its length before it has answered."""
    for embedder in (ENDPOINT, "openai:embed-test"):
        finding = await check_vectors(database, embedder)
        assert finding.ok
        assert f"{MEMORIES:,} of {MINILM}" in finding.note
        assert f"of {ENDPOINT}" not in finding.note.replace(f"not of {ENDPOINT}", "")
