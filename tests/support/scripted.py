"""A Mnemic whose models answer from a script, over the real clients; such scripts; fixtures that a conftest imports."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from datetime import timedelta
from threading import Barrier
from typing import Any

import pytest
from pydantic import BaseModel

from mnemic.memory.runtime.resources import Resources, open_resources
from mnemic.prompts.background.insights import InsightsOutput
from mnemic.prompts.consolidation.write_consolidation import WriteConsolidationOutput
from mnemic.prompts.formation.decide import DecideOutput, Decision
from mnemic.prompts.formation.extraction import (
    ExtractFactsOutput,
    ExtractObservationsOutput,
    ExtractReflectionsOutput,
    FactDraft,
    ObservationDraft,
    ReflectionDraft,
)
from mnemic.service.governance.administration import Administration
from mnemic.service.memory import Mnemic
from mnemic.state.identity import Identity
from mnemic.state.kinds import Kind
from mnemic.state.settings import Settings
from mnemic.storage import opening
from mnemic.storage.database import Database
from tests.support.loopback import Answer, LoopbackModel, Request, schema_name
from tests.support.server import Clone
from tests.support.worlds import MORNING

FACTS = ExtractFactsOutput.__name__
DECISIONS = DecideOutput.__name__
REFLECTIONS = ExtractReflectionsOutput.__name__
OBSERVATIONS = ExtractObservationsOutput.__name__
CONSOLIDATION = WriteConsolidationOutput.__name__
DIMENSIONS = 384


@contextmanager
def scripted_model() -> Iterator[LoopbackModel]:
    """A model that finds nothing worth keeping until it is told; a decision or a consolidation it must be told."""
    with LoopbackModel() as model:
        model.answer(FACTS, facts())
        model.answer(DECISIONS, decisions())
        model.answer(REFLECTIONS, reflections())
        model.answer(OBSERVATIONS, observations())
        model.answer(InsightsOutput.__name__, InsightsOutput(insights=[]))
        yield model


def scripted_settings(clone: Clone, model: LoopbackModel, **changes: Any) -> Settings:
    """Settings as an operator would write them, on the scripted endpoint."""
    return Settings(
        **{
            "database_url": clone.service_dsn,
            "fast_model": "openai:gpt-fast",
            "slow_model": "openai:gpt-slow",
            "base_url": model.base_url,
            "api_key": "test",
            "embedder": "openai:embed-test",
            "embedder_dimensions": DIMENSIONS,
            "pool_size": 4,
            **changes,
        }
    )


@asynccontextmanager
async def scripted_resources(clone: Clone, model: LoopbackModel, **changes: Any) -> AsyncIterator[Resources]:
    """Database, models and embedder, opened as the service opens them."""
    async with open_resources(scripted_settings(clone, model, **changes)) as resources:
        yield resources


@asynccontextmanager
async def scripted_memory(clone: Clone, model: LoopbackModel, **changes: Any) -> AsyncIterator[Mnemic]:
    """The whole service on the scripted endpoint."""
    async with scripted_resources(clone, model, **changes) as resources:
        yield Mnemic(resources)


def facts(*drafts: FactDraft, nothing_else: bool = True) -> ExtractFactsOutput:
    return ExtractFactsOutput(facts=list(drafts), nothing_else=nothing_else)


def fact(content: str, *messages: int, **given: Any) -> FactDraft:
    """A fact of Ana's from the first message, unless others are named."""
    usual = {"subject": "Ana", "scope": "user", "category": "projects", "importance": 3, "private": False}
    values: dict[str, Any] = {**usual, "provenance": "asserted", "messages": list(messages or (1,)), **given}
    return FactDraft(content=content, **values)


def reflection(content: str, *messages: int, **given: Any) -> ReflectionDraft:
    """A reflection on the first message, unless others are named."""
    values: dict[str, Any] = {"category": "goals", "importance": 3, "private": False, **given}
    return ReflectionDraft(content=content, messages=list(messages or (1,)), **values)


def reflections(*, episode: str = "", nothing_else: bool = True, **given: Any) -> ExtractReflectionsOutput:
    """The reflections of each scope that is named, and an episode."""
    scopes = {scope: list(given.pop(scope, ())) for scope in ("agent", "group", "user", "session")}
    return ExtractReflectionsOutput(**scopes, episode=episode, nothing_else=nothing_else, **given)


def observation(content: str, *messages: int, **given: Any) -> ObservationDraft:
    """An observation on the first message, unless others are named."""
    values: dict[str, Any] = {"scope": "user", "category": "projects", "importance": 3, "private": False, **given}
    return ObservationDraft(content=content, messages=list(messages or (1,)), **values)


def observations(*drafts: ObservationDraft, nothing_else: bool = True) -> ExtractObservationsOutput:
    return ExtractObservationsOutput(observations=list(drafts), nothing_else=nothing_else)


def decisions(*made: Decision) -> DecideOutput:
    return DecideOutput(decisions=list(made))


def decision(fact: int, event: Any, *known: int, text: str = "", reason: str = "It says so.") -> Decision:
    return Decision(fact=fact, reason=reason, event=event, known=list(known), text=text)


def consolidation(text: str) -> WriteConsolidationOutput:
    return WriteConsolidationOutput(text=text)


def turns(*texts: str, user: str | None = None, minutes: int = 0) -> list[dict[str, Any]]:
    """Messages of a user, one a minute from nine o'clock on; `assistant: ...` is the assistant's."""
    rows = []
    for place, text in enumerate(texts):
        role, content = (
            ("assistant", text.removeprefix("assistant: ")) if text[:11] == "assistant: " else ("user", text)
        )
        said_at = MORNING + timedelta(minutes=minutes + place)
        rows.append({"role": role, "content": content, "time": said_at.isoformat()})
        if role == "user" and user:
            rows[-1]["user"] = user
    return rows


async def say(memory: Mnemic, who: Identity, *texts: str) -> None:
    """Observes these turns and forms what is pending."""
    await memory.observe(who, turns(*texts))
    await memory.form(who)


async def contents(memory: Mnemic, who: Identity, kind: Kind = "fact") -> list[str]:
    """What this identity's living memories of a kind say, in alphabetical order."""
    return sorted(item.content for item in await memory.memories(who, [kind]))


def asked(model: LoopbackModel) -> list[str]:
    """The outputs that were asked for, in the order of the requests."""
    return [schema_name(request) or "" for request in model.chat_requests]


def last_prompt(model: LoopbackModel, output: str) -> str:
    """System and user text of the newest request for this output."""
    request = next(request for request in reversed(model.chat_requests) if schema_name(request) == output)
    return "\n".join(message["content"] for message in request["messages"])


def together(runs: int, *answers: BaseModel) -> Any:
    """One answer for each of so many requests, all held back until the last one has arrived."""
    barrier = Barrier(runs)

    def answer(_: Request) -> BaseModel:
        place = barrier.wait(timeout=20)
        return answers[place % len(answers)]

    return answer


def meanwhile(act: Callable[[], Coroutine[Any, Any, Any]], answer: Answer) -> Any:
    """An answer that is given once something has happened on the test's own event loop."""
    loop = asyncio.get_running_loop()

    def reply(_: Request) -> Answer:
        asyncio.run_coroutine_threadsafe(act(), loop).result(timeout=20)
        return answer

    return reply


#: Databases of this process that the doctor has found sound.
_SOUND: set[str] = set()


@pytest.fixture
def model() -> Iterator[LoopbackModel]:
    """The scripted model behind `memory`."""
    with scripted_model() as running:
        yield running


@pytest.fixture
async def resources(clean_db: Clone, model: LoopbackModel) -> AsyncIterator[Resources]:
    """What `memory` works with, for tests that store what it is then asked for."""
    async with AsyncExitStack() as stack:
        with pytest.MonkeyPatch.context() as patch:
            # no test changes the set-up of its worker's database: once is enough for the doctor to look at all of it
            if clean_db.name in _SOUND:
                patch.setattr(opening, "require_sound", take_for_sound)
            opened = await stack.enter_async_context(scripted_resources(clean_db, model))
        _SOUND.add(clean_db.name)
        yield opened


async def take_for_sound(_: Database) -> None:
    """A start that does not look at its database."""


@pytest.fixture
def memory(resources: Resources) -> Mnemic:
    """The service on these resources, and so on the worker's database without a row."""
    return Mnemic(resources)


@pytest.fixture
async def administration(clean_db: Clone) -> AsyncIterator[Administration]:
    """An administrator of the same database."""
    async with Administration.open(admin_url=clean_db.administrator_dsn) as opened:
        yield opened
