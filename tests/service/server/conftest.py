"""One server with a key for all tests of a worker: it takes some seconds to start."""

from collections.abc import AsyncIterator, Iterator

import pytest
from langgraph_sdk.client import LangGraphClient

from tests.support.agents import is_agent
from tests.support.served import Served, serving
from tests.support.server import Server


@pytest.fixture(scope="session")
def served(server: Server, template: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(server, template, tmp_path_factory.mktemp("host")) as running:
        yield running


@pytest.fixture
async def ana(served: Served) -> AsyncIterator[LangGraphClient]:
    served.model.answer(is_agent, "I see.")
    async with served.client("ana") as client:
        yield client


@pytest.fixture
async def bea(served: Served) -> AsyncIterator[LangGraphClient]:
    async with served.client("bea") as client:
        yield client
