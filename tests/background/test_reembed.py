"""The move to another embedder while the former one serves, broken off at any point; and vectors of pending entries."""

import asyncio
import threading
from collections.abc import Sequence
from typing import Any

import psycopg
import pytest

from mnemic import Mnemic
from mnemic.memory.background.sweep import sweep
from mnemic.memory.background.work import Work
from mnemic.service.worker import background_work
from mnemic.state.errors import EmbedderUnavailableError, InvalidInputError
from mnemic.state.identity import Identity
from mnemic.state.records import FilledVectors, Reembedded
from mnemic.state.settings import Settings
from mnemic.storage.doctor import check_vectors
from mnemic.storage.transaction import load_statements
from tests.background.test_jobs import until
from tests.background.working import SHORT
from tests.faults.processes import Worker, WorkerDiedError
from tests.support.loopback import LoopbackModel, Request
from tests.support.scripted import (
    FACTS,
    REFLECTIONS,
    facts,
    meanwhile,
    reflections,
    scripted_memory,
    scripted_settings,
    turns,
)
from tests.support.scripted import fact as draft
from tests.support.searching import fact, know
from tests.support.server import Clone
from tests.support.worlds import identity

ANA = identity("ana", session="s1")
FORMER, NEXT = "hash:384", "openai:embed-test:384"
BOTH = {"embedder": "openai:embed-test", "previous_embedder": "hash"}
#: More entries than one batch has.
MEMORIES = 150
BOAT = "Ana's boat is moored in Faro."


async def know_berths(clone: Clone, model: LoopbackModel, number: int = MEMORIES) -> None:
    """Store memories with vectors of the former embedder."""
    berths = [fact(f"Ana paid for berth {place}.", "tasks") for place in range(number - 1)]
    async with scripted_memory(clone, model, embedder="hash") as memory:
        await know(memory.resources, ANA, *berths, fact(BOAT, "tasks"))


def fail_after_a_batch(model: LoopbackModel) -> None:
    """Let the endpoint embed one batch of a move, and fail at the next one."""
    batches: list[Request] = []

    def answer(request: Request) -> Any:
        batches.extend([request] * (len(request["input"]) > 1))
        return 500 if len(batches) > 1 else None

    model.answer_embeddings(answer)


async def by_meaning(memory: Mnemic, question: str, top_k: int = 1) -> list[str]:
    results = await memory.query(ANA, question, search_type="semantic", top_k=top_k)
    return [item.content for item in results if item.related_to is None]


def entries(superuser: psycopg.Connection) -> list[tuple[str, str | None, int]]:
    """Numbers of entries by their embedder and the one that they move to."""
    return superuser.execute(
        "select model, next_model, count(*) from mnemic.entries group by 1, 2 order by 1, 2 nulls first"
    ).fetchall()


async def test_searches_use_the_former_vectors_until_every_entry_has_a_new_one(
    clean_db: Clone, model: LoopbackModel, superuser: psycopg.Connection
) -> None:
    await know_berths(clean_db, model)
    fail_after_a_batch(model)
    heads = superuser.execute("select agent_id, revision, hash from mnemic.heads").fetchall()
    async with scripted_memory(clean_db, model, **BOTH) as memory:
        assert await by_meaning(memory, BOAT) == [BOAT]
        with pytest.raises(EmbedderUnavailableError):
            await memory.admin.reembed()

        assert entries(superuser) == [(FORMER, None, MEMORIES - 100), (FORMER, NEXT, 100)]
        assert superuser.execute("select agent_id, revision, hash from mnemic.heads").fetchall() == heads
        assert await by_meaning(memory, "Where is the boat of Ana moored?") == [BOAT]
        recalled = await memory.recall(ANA, "Where is the boat of Ana moored?", search="always")
        assert (recalled.degraded, BOAT in recalled.context.turn) == (None, True)
        new = await memory.remember(ANA, "Ana plays the violin.", category="activity")
        assert (await by_meaning(memory, "Ana plays the violin.")) == ["Ana plays the violin."]
        assert (await memory.remember(ANA, "Ana plays the violin.", category="activity")).id == new.id
        (boat,) = await memory.query(ANA, BOAT, top_k=1)
        await memory.correct(ANA, boat.id, "Ana's boat is moored in Lagos.")
        assert "`mnemic reembed`" in (await check_vectors(memory.resources.database, NEXT)).note

        model.answer_embeddings(None)
        progress: list[tuple[int, int]] = []
        moved = await memory.admin.reembed(
            Identity(agent_id="harbor"), progress=lambda done, left: progress.append((done, left))
        )

        assert (moved.agents, moved.refused) == (1, 0)
        assert (progress[-1][0], progress[-1][1]) == (moved.embedded, 0)
        assert entries(superuser) == [(NEXT, None, MEMORIES + 2)]
        asked = len(model.embedding_requests)
        assert await by_meaning(memory, "Where is the boat of Ana moored?") == ["Ana's boat is moored in Lagos."]
        assert len(model.embedding_requests) == asked + 1
        assert await memory.admin.reembed() == Reembedded(agents=0, embedded=0, refused=0)
        with pytest.raises(InvalidInputError):
            await memory.admin.reembed(Identity(agent_id=""))


async def test_a_refused_text_waits_and_keeps_no_agent_from_the_switch(
    clean_db: Clone, model: LoopbackModel, superuser: psycopg.Connection
) -> None:
    await know_berths(clean_db, model, 5)
    model.answer_embeddings(lambda request: 400 if any("moored" in text for text in request["input"]) else None)
    async with scripted_memory(clean_db, model, **BOTH) as memory:
        assert await memory.admin.reembed() == Reembedded(agents=1, embedded=4, refused=1)
        assert entries(superuser) == [("", None, 1), (NEXT, None, 4)]
        (found,) = await memory.query(ANA, "boat", search_type="text", top_k=1)
        assert found.content == BOAT

        model.answer_embeddings(None)
        assert await memory.admin.embed_pending(ANA) == FilledVectors(embedded=1, pending=0)
    assert entries(superuser) == [(NEXT, None, 5)]


async def test_an_embedder_that_refuses_everything_takes_no_vector_away(
    clean_db: Clone, model: LoopbackModel, superuser: psycopg.Connection
) -> None:
    await know_berths(clean_db, model, 5)
    model.answer_embeddings(400)
    async with scripted_memory(clean_db, model, **BOTH) as memory:
        with pytest.raises(Exception, match="refused"):
            await memory.admin.reembed()
    assert entries(superuser) == [(FORMER, None, 5)]


@pytest.mark.thorough
async def test_a_worker_goes_on_with_a_move_and_takes_late_writers_along(
    clean_db: Clone, model: LoopbackModel, superuser: psycopg.Connection
) -> None:
    await know_berths(clean_db, model)
    fail_after_a_batch(model)
    async with scripted_memory(clean_db, model, **BOTH) as memory:
        with pytest.raises(EmbedderUnavailableError):
            await memory.admin.reembed()
        model.answer_embeddings(None)
        async with background_work(memory.resources, memory.graphs, SHORT) as work:

            async def is_moved(number: int) -> bool:
                return entries(superuser) == [(NEXT, None, number)]

            await sweep(work)
            await until(lambda: is_moved(MEMORIES))

            # a writer embedded its text before the switch, and stores it after
            former = memory.resources.with_embedder(FORMER)
            await know(former, ANA, fact("Ana plays the violin.", "activity"))
            superuser.execute("update mnemic.agents set moved_at = moved_at - interval '16 minutes'")
            await sweep(work)
            await until(lambda: is_moved(MEMORIES + 1))
            superuser.execute("update mnemic.agents set moved_at = moved_at - interval '16 minutes'")
            await sweep(work)
            over = "select searched_model is null and moved_at = 'infinity' from mnemic.agents"
            await until(lambda: _is_true(superuser, over))


async def _is_true(superuser: psycopg.Connection, statement: str) -> bool:
    return superuser.execute(statement).fetchone() == (True,)


async def test_formation_during_the_switch_stores_vectors_under_their_embedder(
    clean_db: Clone, model: LoopbackModel, superuser: psycopg.Connection
) -> None:
    await know_berths(clean_db, model, 5)
    model.answer_embeddings(500)
    async with scripted_memory(clean_db, model, **BOTH) as memory:
        with pytest.raises(EmbedderUnavailableError):
            await memory.admin.reembed()
        superuser.execute(
            "update mnemic.agents set next_model = %s, searched_model = %s", (NEXT, FORMER)
        )  # the move has begun
        model.answer_embeddings(None)
        model.answer(FACTS, facts(draft("Ana plays the violin.")))
        model.answer(REFLECTIONS, meanwhile(memory.admin.reembed, reflections()))
        await memory.observe(ANA, turns("I play the violin"))
        await memory.form(ANA)

    vector = "select model from mnemic.entries e join mnemic.memories m on m.id = e.item_id where m.content like %s"
    assert superuser.execute(vector, ("%violin%",)).fetchall() == [(FORMER,)]


async def test_pending_vectors_are_filled_by_a_job(
    clean_db: Clone, model: LoopbackModel, superuser: psycopg.Connection
) -> None:
    async with (
        scripted_memory(clean_db, model) as memory,
        background_work(memory.resources, memory.graphs, SHORT) as work,
    ):
        model.answer_embeddings(500)
        for who in (ANA, identity("bo", agent="museum")):
            await memory.remember(who, "The violin is in the attic.", category="knowledge")
        model.answer_embeddings(None)
        await sweep(work)
        await until(lambda: _is_idle(work))
        assert entries(superuser) == [("", None, 2)]  # none is due

        superuser.execute("update mnemic.entries set embed_after = now()")
        await sweep(work)

        async def are_filled() -> bool:
            return entries(superuser) == [(NEXT, None, 2)]

        await until(are_filled)


async def _is_idle(work: Work) -> bool:
    return not await work.queue.jobs()


# -- killed workers

KILLED_AT = 3


class Searching:
    """Searches by meaning, one after the other, while others move the vectors."""

    def __init__(self, memory: Mnemic, questions: Sequence[str]) -> None:
        self._memory, self._questions = memory, questions
        self.answered = 0
        #: Questions whose memory was not found by meaning.
        self.silent: list[str] = []

    async def run(self) -> None:
        while True:
            question = self._questions[self.answered % len(self._questions)]
            results = await by_meaning(self._memory, question, 10)
            if question not in results:
                self.silent.append(question)
            self.answered += 1
            await asyncio.sleep(0)


async def move_with_kills(
    clone: Clone, model: LoopbackModel, *, memories: int, kills: int, sabotage: dict[str, str] | None = None
) -> tuple[Searching, list[Any]]:
    """Move memories by workers of which some are killed while the embedder answers; then by two at once."""
    await know_berths(clone, model, memories)
    settings = scripted_settings(clone, model, **BOTH, background=False)
    async with scripted_memory(clone, model, **BOTH) as memory:
        searching = Searching(memory, [f"Ana paid for berth {place}." for place in range(0, memories - 1, 37)])
        task = asyncio.create_task(searching.run())
        for _ in range(kills):
            await asyncio.to_thread(_move_until_killed, settings, model, sabotage)
        model.answer_embeddings(None)
        with clone.as_superuser() as superuser:
            superuser.execute("update mnemic.entries set embed_after = null")  # as if a minute had passed
        with Worker(settings, sabotage) as one, Worker(settings, sabotage) as other:
            for worker in (one, other):
                worker.ask("admin.reembed")
            results = [await asyncio.to_thread(worker.answer, 600) for worker in (one, other)]
        await asyncio.sleep(0.5)  # searches go on after the switch
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    return searching, results


def _move_until_killed(settings: Settings, model: LoopbackModel, sabotage: dict[str, str] | None) -> None:
    batches, lock = [0], threading.Lock()
    with Worker(settings, sabotage) as worker:

        def answer(request: Request) -> Any:
            with lock:
                batches[0] += len(request["input"]) > 1
                if batches[0] == KILLED_AT:
                    worker.kill()

        model.answer_embeddings(answer)
        worker.ask("admin.reembed")
        with pytest.raises(WorkerDiedError):
            worker.answer(600)
    assert batches[0] >= KILLED_AT  # it died of the kill


@pytest.mark.thorough
async def test_killed_reembedding_loses_and_doubles_nothing_while_searches_work(
    worker_db: Clone, superuser: psycopg.Connection, model: LoopbackModel
) -> None:
    number = 2000
    searching, results = await move_with_kills(worker_db, model, memories=number, kills=5)

    assert [answer.error for answer in results] == [None, None]
    assert entries(superuser) == [(NEXT, None, number)]
    assert superuser.execute("select count(distinct item_id) from mnemic.entries").fetchone() == (number,)
    assert searching.silent == []
    assert searching.answered > 20
    embedded = [text for request in model.embedding_requests for text in request["input"] if "berth" in text]
    assert len(embedded) <= number + 5 * 100 + searching.answered


@pytest.mark.thorough
async def test_control_without_a_place_of_their_own_new_vectors_silence_searches(
    worker_db: Clone, model: LoopbackModel
) -> None:
    in_place = load_statements("embeddings")["stage"].replace(
        "next_model = case when g.vec is not null then %(model)s end, next_vec", "vec"
    )
    in_place = in_place.replace("set vec", "set model = %(model)s, vec").replace("e.next_vec is not", "e.vec is not")
    searching, _ = await move_with_kills(
        worker_db, model, memories=400, kills=1, sabotage={"embeddings.stage": in_place}
    )

    assert searching.silent
