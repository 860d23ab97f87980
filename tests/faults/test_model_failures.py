"""A model that fails in every way: a typed failure, the messages still pending, nothing half-written."""

import json
import logging
import traceback
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import psycopg
import pytest
import pytest_asyncio
from psycopg import sql
from pydantic import BaseModel

from mnemic.service.memory import Mnemic
from mnemic.state.errors import EmbeddingError, EmbeddingInputError, ModelError, ModelOutputError
from tests.faults.model_failures import ANSWER_CANARY, ATTEMPTS, CALLED, CANARY, SAID, SENT, Failure
from tests.support.loopback import Answer, LoopbackModel, bag_of_words
from tests.support.matrix import mostly_thorough
from tests.support.scripted import (
    CONSOLIDATION,
    DECISIONS,
    DIMENSIONS,
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
    scripted_memory,
    scripted_model,
    turns,
)
from tests.support.server import Clone
from tests.support.worlds import identity

#: The service is opened once for each way of asking; each test finds the database empty.
pytestmark = pytest.mark.asyncio(loop_scope="module")

ANA = identity("ana", session="s1")
LISBON = "Ana works every day at the big old harbor office near the river bridge in Lisbon."
PORTO = LISBON.replace("Lisbon", "Porto")
WISH = "Ana wants short answers."
GOOD: dict[str, BaseModel] = {
    FACTS: facts(fact(PORTO)),
    DECISIONS: decisions(decision(1, "DELETE", 1)),
    REFLECTIONS: reflections(user=[reflection(WISH)]),
    OBSERVATIONS: observations(observation(WISH)),
}
#: One of each sort for the steps behind the first.
SOME = {name: {**SAID, **SENT}[name] for name in ("garbage", "500 KB of JSON", "cut in the middle", "a refusal", "500")}
Script = tuple[Mnemic, LoopbackModel]


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def by_schema(worker_db: Clone) -> AsyncIterator[Script]:
    """The service whose models are asked by a JSON schema."""
    with scripted_model() as model:
        async with scripted_memory(worker_db, model) as memory:
            yield memory, model


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def by_call(worker_db: Clone) -> AsyncIterator[Script]:
    """The service whose models are asked by a tool call."""
    with scripted_model() as model:
        async with scripted_memory(worker_db, model, structured_output="function_calling") as memory:
            yield memory, model


def stored(superuser: psycopg.Connection) -> dict[str, list[Any]]:
    """Every row but what calls cost and who waits for what."""
    names = superuser.execute("select tablename from pg_tables where schemaname = 'mnemic' order by 1").fetchall()
    tables = [name for (name,) in names if name not in ("token_usage", "leases", "migrations")]
    query = sql.SQL("select to_jsonb(t)::text from mnemic.{} t order by 1")
    return {name: superuser.execute(query.format(sql.Identifier(name))).fetchall() for name in tables}


@dataclass
class Trial:
    """A session that knows one fact already and has four messages pending; a model that answers well until told not."""

    memory: Mnemic
    model: LoopbackModel
    superuser: psycopg.Connection
    caplog: pytest.LogCaptureFixture

    async def begin(self, *, single: bool = False) -> None:
        self.model.answer_embeddings(None)
        self.model.answer(REFLECTIONS, reflections())
        self.model.answer(FACTS, facts(fact(LISBON)))
        await self.memory.observe(ANA, turns("I work in Lisbon", minutes=-60))
        await self.memory.form(ANA)
        self.answer_well()
        if single:
            await self.memory.configure_agent(ANA, extraction="single")
        messages = turns(f"I work in Porto by the {CANARY}", "assistant: ok", "yes", "short, please")
        await self.memory.observe(ANA, messages)
        self.model.chat_requests.clear()
        self.model.embedding_requests.clear()

    def answer_well(self) -> None:
        for output, good in GOOD.items():
            self.model.answer(output, good)
        self.model.answer_embeddings(None)

    async def form_in_vain(self, error: type[ModelError]) -> None:
        """Typed, without contents, and every row as it was."""
        before = stored(self.superuser)
        # every record, but those of the clients: at DEBUG they log what is sent, for whoever asks them to
        with self.caplog.at_level(logging.DEBUG), pytest.raises(ModelError) as caught:
            await self.memory.form(ANA)

        assert type(caught.value) is error
        shown = "".join(traceback.format_exception(caught.value)) + "".join(
            record.getMessage()
            for record in self.caplog.records
            if record.name.split(".")[0] not in ("openai", "httpx", "httpcore")
        )
        assert CANARY not in shown
        assert ANSWER_CANARY not in shown
        assert stored(self.superuser) == before

    async def recover(self, *, single: bool = False) -> None:
        """The next good answers form everything, once."""
        self.answer_well()
        (run,) = await self.memory.form(ANA)

        assert (run["formed"], run["pending"]) == (4, 0)
        assert await contents(self.memory, ANA) == [LISBON if single else PORTO]
        assert await contents(self.memory, ANA, "reflection") == [WISH]

    async def fail(self, failure: Failure, step: str) -> None:
        """The model fails in this way in this step, and recovers."""
        single = step == OBSERVATIONS
        await self.begin(single=single)
        self.model.answer(step, failure.answer(step, GOOD[step].model_dump_json()))
        await self.form_in_vain(failure.error)
        assert asked(self.model).count(step) == failure.requests
        await self.recover(single=single)


@pytest.fixture
def trial(by_schema: Script, superuser: psycopg.Connection, caplog: pytest.LogCaptureFixture) -> Trial:
    return Trial(*by_schema, superuser, caplog)


@pytest.mark.parametrize(
    "failure", mostly_thorough({**SAID, **SENT}, "garbage", "cut in the middle", "400", "401", "hung up")
)
async def test_the_first_step_fails(trial: Trial, failure: Failure) -> None:
    await trial.fail(failure, FACTS)


@pytest.mark.parametrize("step", [DECISIONS, REFLECTIONS, OBSERVATIONS])
@pytest.mark.parametrize("failure", mostly_thorough(SOME, "500"))
async def test_a_later_step_fails(trial: Trial, failure: Failure, step: str) -> None:
    await trial.fail(failure, step)


@pytest.mark.parametrize("failure", mostly_thorough(CALLED, "broken arguments", "no call"))
async def test_a_tool_call_fails(
    by_call: Script, superuser: psycopg.Connection, caplog: pytest.LogCaptureFixture, failure: Failure
) -> None:
    await Trial(*by_call, superuser, caplog).fail(failure, FACTS)


def _vectors(make: Any) -> Any:
    """A server that has its own way with each vector, written out in JSON."""

    def answer(request: dict[str, Any]) -> bytes:
        made = [make(bag_of_words(text, DIMENSIONS)) for text in request["input"]]
        data = [{"object": "embedding", "index": place, "embedding": vector} for place, vector in enumerate(made)]
        return json.dumps({"object": "list", "model": "m", "data": data}).encode()

    return answer


VECTORS: dict[str, Answer] = {
    "NaN": _vectors(lambda vector: [float("nan"), *vector[1:]]),
    "infinite": _vectors(lambda vector: [float("inf"), *vector[1:]]),
    "too large": _vectors(lambda vector: [1e308 for _ in vector]),
    "zero": _vectors(lambda vector: [0.0] * len(vector)),
    "too short": _vectors(lambda vector: vector[1:]),
    "empty": _vectors(lambda vector: []),
    "nested": _vectors(lambda vector: [[value] for value in vector]),
    "strings": _vectors(lambda vector: [str(value) for value in vector]),
    "nulls": _vectors(lambda vector: [None for _ in vector]),
    "one too few": lambda request: [bag_of_words("x", DIMENSIONS)] * (len(request["input"]) - 1),
    "one too many": lambda request: [bag_of_words("x", DIMENSIONS)] * (len(request["input"]) + 1),
    "none": b'{"object": "list", "model": "m", "data": []}',
    "of another type": b'{"object": "list", "model": "m", "data": [{"index": 0, "embedding": 7}]}',
    "a page": b"<html>Bad gateway</html>",
    "bytes that are no text": b'{"data": "\xff"}',
    "400": 400,
    "401": 401,
    "422": 422,
    "429": 429,
    "500": 500,
}
REFUSED = (400, 413, 422)


@pytest.mark.parametrize("vectors", mostly_thorough(VECTORS, "NaN", "one too few", "400"))
async def test_the_embeddings_fail(trial: Trial, vectors: Answer) -> None:
    await trial.begin()
    trial.model.answer_embeddings(vectors)
    await trial.form_in_vain(EmbeddingInputError if vectors in REFUSED else EmbeddingError)
    assert len(trial.model.embedding_requests) <= 3
    await trial.recover()


@pytest.mark.parametrize("failure", mostly_thorough(SOME, "garbage"))
async def test_a_consolidation_that_fails_leaves_text_and_reflections(trial: Trial, failure: Failure) -> None:
    memory, model = trial.memory, trial.model
    await trial.begin()
    wishes = [f"Ana wants short answers about {topic}." for topic in ("boats", "bees", "tea", "nets")]
    model.answer(REFLECTIONS, reflections(user=[reflection(wish) for wish in wishes]))
    model.answer(
        CONSOLIDATION, failure.answer(CONSOLIDATION, consolidation("Ana wants short answers.").model_dump_json())
    )
    (run,) = await memory.form(ANA)

    assert (run["formed"], run["pending"]) == (4, 0)
    assert [result["outcome"] for result in run["consolidations"]] == ["failed"]
    assert await contents(memory, ANA, "reflection") == sorted(wishes)
    before = stored(trial.superuser)
    with pytest.raises(failure.error):
        await memory.consolidate(ANA, "user:ana", force=True)
    assert stored(trial.superuser) == before
    assert asked(model).count(CONSOLIDATION) == 2 * failure.requests

    model.answer(CONSOLIDATION, consolidation(" ".join(wishes)))
    assert (await memory.consolidate(ANA, "user:ana", force=True))["absorbed"] == 4


async def test_one_repair_is_enough_for_any_flaw_that_passes(trial: Trial) -> None:
    await trial.begin()
    for output, good in GOOD.items():
        trial.model.answer(output, "garbage", good)
    await trial.memory.form(ANA)

    assert asked(trial.model) == [output for output in (FACTS, DECISIONS, REFLECTIONS) for _ in range(ATTEMPTS)]
    assert await contents(trial.memory, ANA) == [PORTO]


@pytest.mark.thorough
async def test_control_a_step_that_is_saved_before_the_next_is_found_out(trial: Trial) -> None:
    await trial.begin()

    def write_too_early(_: Any) -> Answer:
        trial.superuser.execute("update mnemic.sessions set message_count = message_count + 1")
        return 500

    trial.model.answer(REFLECTIONS, write_too_early)
    with pytest.raises(AssertionError):
        await trial.form_in_vain(ModelError)


@pytest.mark.thorough
async def test_control_the_messages_and_answers_are_there_to_be_told(
    trial: Trial, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = trial.model
    await trial.begin()
    model.answer(FACTS, SAID["garbage"].answer(FACTS, "{}"))
    monkeypatch.setattr(ModelOutputError, "__str__", lambda self: model.chat_requests[0]["messages"][1]["content"])
    with pytest.raises(AssertionError, match="not in"):
        await trial.form_in_vain(ModelOutputError)
