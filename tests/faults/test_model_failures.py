"""A model that fails in every way: a typed failure, the messages still pending, nothing half-written."""

import json
import logging
import traceback
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any

import psycopg
import pytest
import pytest_asyncio
from pydantic import BaseModel

from mnemic.service.memory import Mnemic
from mnemic.state.errors import EmbeddingError, ModelError, ModelOutputError
from tests.support.loopback import Answer, LoopbackModel, Reply, bag_of_words, hang_up
from tests.support.matrix import mostly_thorough
from tests.support.rollbacks import everything
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

#: The service is opened once; each test finds the database empty.
pytestmark = pytest.mark.asyncio(loop_scope="module")

#: In the conversation, in the answers, and in no message, log or checkpoint.
CANARY = "Zanzibarquelle"
ANSWER_CANARY = "Yttriumgarten"
#: One call and one repair.
ATTEMPTS = 2
#: One request and the client's own two retries, each after a longer pause; the loopback server asks for short ones.
REQUESTS = 3


@dataclass(frozen=True, kw_only=True)
class Failure:
    """A model's failure."""

    #: Of a schema's name and a good answer's text.
    answer: Callable[[str, str], Answer]
    error: type[ModelError]
    requests: int


def _said(text: Callable[[str], str] | str, **more: Any) -> Failure:
    """Words instead of an answer, or an answer that is no good."""

    def answer(_: str, good: str) -> Answer:
        return Reply(content=text if isinstance(text, str) else text(good), **more)

    return Failure(answer=answer, error=ModelOutputError, requests=ATTEMPTS)


def _transport(answer: Answer, requests: int = 1) -> Failure:
    return Failure(answer=lambda *_: answer, error=ModelError, requests=requests)


def _body(**fields: Any) -> bytes:
    head = {"id": "c", "object": "chat.completion", "created": 1, "model": "m"}
    return json.dumps({**head, **fields}).encode()


_LONG = json.dumps({"text": [f"{ANSWER_CANARY} {number}" for number in range(25_000)]})
#: What an answer may say instead of what was wanted; tests/models has more of them, for a single call.
SAID: dict[str, Failure] = {
    "garbage": _said(f"Certainly! {ANSWER_CANARY}: the memory is { {} }"),
    "null": Failure(answer=lambda *_: {"content": None}, error=ModelOutputError, requests=ATTEMPTS),
    "500 KB of JSON": _said(_LONG),
    "500 KB around a good answer": _said(lambda good: good + " " * 500_000),
    "brackets without end": _said("[" * 20_000),
    "cut in the middle": _said(lambda good: good[: len(good) // 2], finish_reason="length"),
    "JSON null": _said("null"),
    "a refusal": _said("", message={"content": None, "refusal": f"I will not speak of {ANSWER_CANARY}."}),
}
SENT: dict[str, Failure] = {
    # the request itself is at fault: asked once, and counted as a try
    "400": Failure(answer=lambda *_: 400, error=ModelOutputError, requests=1),
    "401": _transport(401),
    "500": _transport(500, REQUESTS),
    "no text at all": _transport(b""),
    "bytes that are no text": _transport(b'{"choices": "\xff\xfe"}'),
    "no choices": _transport(_body(choices=[])),
    "choices of another type": _transport(_body(choices="none")),
    "an error with 200": _transport(_body(error={"message": ANSWER_CANARY, "code": "overloaded"})),
    "hung up": _transport(hang_up, REQUESTS),
}


# -- a session that meets them

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
#: What calls cost, and who waits for what.
MOVING = ("token_usage", "leases")
Script = tuple[Mnemic, LoopbackModel]


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def script(worker_db: Clone) -> AsyncIterator[Script]:
    """The service, opened once for all of them."""
    with scripted_model() as model:
        async with scripted_memory(worker_db, model) as memory:
            yield memory, model


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
            await self.memory.admin.configure_agent(ANA, extraction="single")
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
        before = everything(self.superuser, without=MOVING)
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
        assert everything(self.superuser, without=MOVING) == before

    async def recover(self, *, single: bool = False) -> None:
        """The next good answers form everything, once."""
        self.answer_well()
        (run,) = await self.memory.form(ANA)

        assert (run.formed, run.pending) == (4, 0)
        assert await contents(self.memory, ANA) == [LISBON if single else PORTO]
        assert await contents(self.memory, ANA, "reflection") == [WISH]


@pytest.fixture
def trial(script: Script, superuser: psycopg.Connection, caplog: pytest.LogCaptureFixture) -> Trial:
    return Trial(*script, superuser, caplog)


LATER = (DECISIONS, REFLECTIONS, OBSERVATIONS)
#: Everything in the first step, one of each sort in the others.
FAILURES = {f"{FACTS}: {name}": (FACTS, failure) for name, failure in {**SAID, **SENT}.items()} | {
    f"{step}: {name}": (step, failure) for step in LATER for name, failure in SOME.items()
}
FEW = ("garbage", "cut in the middle", "400", "401", "hung up")


@pytest.mark.parametrize(
    "failing",
    mostly_thorough(FAILURES, *(f"{FACTS}: {name}" for name in FEW), *(f"{step}: 500" for step in LATER)),
)
async def test_a_step_fails(trial: Trial, failing: tuple[str, Failure]) -> None:
    """The model fails in this way in this step, and recovers."""
    step, failure = failing
    single = step == OBSERVATIONS
    await trial.begin(single=single)
    trial.model.answer(step, failure.answer(step, GOOD[step].model_dump_json()))
    await trial.form_in_vain(failure.error)
    assert asked(trial.model).count(step) == failure.requests
    await trial.recover(single=single)


def _vectors(make: Any) -> Any:
    """A server that has its own way with each vector, written out in JSON."""

    def answer(request: dict[str, Any]) -> bytes:
        made = [make(bag_of_words(text, DIMENSIONS)) for text in request["input"]]
        data = [{"object": "embedding", "index": place, "embedding": vector} for place, vector in enumerate(made)]
        return json.dumps({"object": "list", "model": "m", "data": data}).encode()

    return answer


#: No vector of these texts can be had, or not now.
NO_VECTORS: dict[str, Answer] = {
    "NaN": _vectors(lambda vector: [float("nan"), *vector[1:]]),
    "empty": _vectors(lambda vector: []),
    "nested": _vectors(lambda vector: [[value] for value in vector]),
    "strings": _vectors(lambda vector: [str(value) for value in vector]),
    "nulls": _vectors(lambda vector: [None for _ in vector]),
    "one too many": lambda request: [bag_of_words("x", DIMENSIONS)] * (len(request["input"]) + 1),
    "of another type": b'{"object": "list", "model": "m", "data": [{"index": 0, "embedding": 7}]}',
    "400": 400,
    "500": 500,
}
#: A setting is wrong.
WRONG_EMBEDDER: dict[str, Answer] = {
    "shorter": _vectors(lambda vector: vector[:-1]),
    "none": b'{"object": "list", "model": "m", "data": []}',
    "bytes that are no text": b'{"data": "\xff"}',
    "401": 401,
    "404": 404,
}


@pytest.mark.parametrize("vectors", mostly_thorough(WRONG_EMBEDDER, "401"))
async def test_the_embedder_is_set_up_wrongly(trial: Trial, vectors: Answer) -> None:
    await trial.begin()
    trial.model.answer_embeddings(vectors)
    await trial.form_in_vain(EmbeddingError)
    assert len(trial.model.embedding_requests) == 1
    await trial.recover()


@pytest.mark.parametrize("vectors", mostly_thorough(NO_VECTORS, "NaN"))
async def test_no_vector_can_be_had(trial: Trial, vectors: Answer) -> None:
    memory, model = trial.memory, trial.model
    await trial.begin()
    model.answer_embeddings(vectors)
    (run,) = await memory.form(ANA)

    assert (run.formed, run.pending, await contents(memory, ANA)) == (4, 0, [PORTO])
    assert asked(model) == [FACTS, DECISIONS, REFLECTIONS]
    assert CANARY not in trial.caplog.text
    model.answer_embeddings(None)
    assert (await memory.admin.embed_pending(ANA)).pending == 0
    (found, *_) = await memory.query(ANA, PORTO, search_type="semantic")
    assert found.content == PORTO


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

    assert (run.formed, run.pending) == (4, 0)
    assert [result.outcome for result in run.consolidations] == ["failed"]
    assert await contents(memory, ANA, "reflection") == sorted(wishes)
    before = everything(trial.superuser, without=MOVING)
    with pytest.raises(failure.error):
        await memory.admin.consolidate(ANA, "user:ana", force=True)
    assert everything(trial.superuser, without=MOVING) == before
    assert asked(model).count(CONSOLIDATION) == 2 * failure.requests

    model.answer(CONSOLIDATION, consolidation(" ".join(wishes)))
    assert (await memory.admin.consolidate(ANA, "user:ana", force=True)).absorbed == 4


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
