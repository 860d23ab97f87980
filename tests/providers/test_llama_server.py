"""A real, weak and slow endpoint: llama.cpp's server with a model of 135 million parameters.

What it writes is not judged. What is: all comes to its end, in an answer or a typed error, and nothing that was said is
lost.
"""

import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import AsyncIterator, Awaitable, Iterator
from contextlib import suppress
from importlib.util import find_spec

import pytest
import pytest_asyncio
from langchain.agents import create_agent
from langchain_core.messages import HumanMessage
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver
from pydantic import SecretStr

from mnemic.models.trial import try_models
from mnemic.service.memory import Mnemic
from mnemic.state.errors import ModelError
from mnemic.state.identity import Identity
from mnemic.state.settings import Settings
from tests.support import llama
from tests.support.server import Clone
from tests.support.worlds import identity

MISSING = [name for name in llama.PACKAGES if find_spec(name) is None]
pytestmark = [
    pytest.mark.slow,
    # one loop for all, for the clients of LangChain keep their connections from one model to the next
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.skipif(bool(MISSING), reason=f"not installed: {', '.join(MISSING)}"),
]
ANA = identity("ana", session="monday")
SAID = "My name is Ana and I live in Porto."


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with subprocess.Popen(
        [sys.executable, llama.__file__, str(port)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as server:
        end = time.monotonic() + 60
        while time.monotonic() < end:
            with suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{port}/health"):
                break
            time.sleep(0.2)
        yield f"http://127.0.0.1:{port}/v1"
        server.kill()


@pytest_asyncio.fixture(loop_scope="module", params=["json_schema", "function_calling", "text"])
async def memory(request: pytest.FixtureRequest, endpoint: str, clean_db: Clone) -> AsyncIterator[Mnemic]:
    name = "openai:smollm2"
    async with Mnemic.open(
        database_url=clean_db.service_dsn,
        base_url=endpoint,
        fast_model=name,
        slow_model=name,
        agent_model=name,
        embedder="hash",
        settings=Settings(structured_output=request.param, max_output_tokens=200, model_deadline_seconds=60),
    ) as opened:
        yield opened


async def outcome(work: Awaitable[object]) -> str:
    """What a person reads where it fails; empty where it comes to its end."""
    try:
        await work
    except ModelError as error:
        return str(error)
    return ""


async def test_formation_comes_to_its_end_and_loses_nothing(memory: Mnemic) -> None:
    said = [{"id": "1", "role": "user", "content": SAID}]
    await memory.observe(ANA, said)
    told = await outcome(memory.form(ANA))
    again = await memory.observe(ANA, said)
    assert (again.accepted, again.pending) == (0, 1 if told else 0)
    assert not told or "MNEMIC_" in told
    assert SAID not in told


async def test_a_chat_is_answered_or_says_why_not(memory: Mnemic) -> None:
    graph = memory.graphs.supervisor(InMemorySaver())
    config = memory.threads.config(ANA)
    told = await outcome(graph.ainvoke({"messages": [HumanMessage(SAID)]}, config, context=ANA))
    thread = await graph.aget_state(config)
    assert thread.values["messages"][0].text == SAID
    assert "as it was before" in told if told else thread.values["messages"][-1].text
    used = [used for used in await memory.usage.tokens(ANA) if used.step == "converse"]
    assert told or used[0].output_tokens


async def test_an_agent_with_the_middleware_answers_and_observes(memory: Mnemic, endpoint: str) -> None:
    model = ChatOpenAI(model="smollm2", base_url=endpoint, api_key=SecretStr("none"), max_completion_tokens=60)
    agent = create_agent(model, middleware=[memory.middleware()], context_schema=Identity)
    done = await agent.ainvoke({"messages": [HumanMessage(SAID, id="1")]}, context=ANA)
    assert len(done["messages"]) >= 2
    assert (await memory.observe(ANA, [HumanMessage(SAID, id="1")])).accepted == 0  # it is there already


async def test_the_trial_tells_what_works(memory: Mnemic) -> None:
    tried = [one async for one in try_models(memory.settings)]
    assert [one.name.partition(", ")[2] for one in tried][:3] == ["structured output", "tools", "a stream"]
    assert all(one.ok or one.note for one in tried)
    assert tried[-1].ok
