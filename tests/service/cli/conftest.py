"""The command line as a user meets it, on this worker's database."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from typer.testing import Result

from mnemic.storage.database import Database
from tests.support.commands import invoke
from tests.support.loopback import LoopbackModel
from tests.support.scripted import model as model
from tests.support.server import Clone

Command = Callable[..., Result]


def prepare(clone: Clone, *acts: Callable[[Database], Awaitable[object]]) -> None:
    """Does this, one after the other, before or between commands."""

    async def act_in_order() -> None:
        async with clone.database() as db:
            for act in acts:
                await act(db)

    asyncio.run(act_in_order())


@pytest.fixture
def env(clean_db: Clone) -> dict[str, str]:
    """The settings of a command that has no model."""
    dsns = {"MNEMIC_DATABASE_URL": clean_db.service_dsn, "MNEMIC_ADMIN_URL": clean_db.administrator_dsn}
    return {**dsns, "MNEMIC_EMBEDDER": "hash"}


@pytest.fixture
def mnemic(env: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> Command:
    """`mnemic("form", "chat.jsonl")` runs a command; a traceback fails the test by itself."""
    monkeypatch.delenv("COLUMNS", raising=False)  # a shell may export it
    for name, value in env.items():
        monkeypatch.setenv(name, value)

    def run(*words: object, typed: str | bytes | None = None) -> Result:
        return invoke(*map(str, words), typed=typed)

    return run


@pytest.fixture
def online(env: dict[str, str], model: LoopbackModel, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """The settings of a command with a real client on the scripted model."""
    models = {
        "MNEMIC_BASE_URL": model.base_url,
        "MNEMIC_AGENT_MODEL": "openai:gpt-agent",
        "MNEMIC_FAST_MODEL": "openai:gpt-fast",
        "MNEMIC_SLOW_MODEL": "openai:gpt-slow",
    }
    for name, value in models.items():
        monkeypatch.setenv(name, value)
    return {**env, **models}
