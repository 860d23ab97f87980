"""One fault after the other, in a formation or an answer; then the endpoint is healthy again."""

import logging
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from langchain_core.messages import HumanMessage
from langgraph.checkpoint.memory import InMemorySaver

from benchmarks.endpoint_faults.faults import CANARY, FAULTS, Fault
from benchmarks.endpoint_faults.server import FaultyEndpoint
from mnemic.prompts.formation.extraction import ExtractFactsOutput, ExtractReflectionsOutput, FactDraft
from mnemic.service.memory import Mnemic
from mnemic.state.errors import ModelError
from mnemic.state.identity import Identity
from mnemic.state.settings import Settings

#: Silence that is borne, and the longest that an answer may take.
_TIMEOUT, DEADLINE = 0.6, 2.5
_FACT = FactDraft(
    content="Ana lives in Porto.",
    subject="Ana",
    scope="user",
    category="profile",
    importance=3,
    private=False,
    provenance="asserted",
    messages=[1],
)
_ANSWERS = {
    "ExtractFactsOutput": ExtractFactsOutput(facts=[_FACT], nothing_else=True).model_dump_json(),
    "ExtractReflectionsOutput": ExtractReflectionsOutput(
        agent=[], group=[], user=[], session=[], episode="", nothing_else=True
    ).model_dump_json(),
}
_SAID = ({"id": "1", "role": "user", "content": "I live in Porto."}, {"id": "2", "role": "assistant", "content": "Oh."})


@dataclass(frozen=True, kw_only=True)
class Trial:
    """What came of a fault."""

    fault: Fault
    #: What a person reads, without the server's port.
    told: str
    seconds: float
    requests: int
    #: What should not have been.
    problems: tuple[str, ...]


async def trials(**settings: Any) -> AsyncIterator[Trial]:
    """Every fault.

    Args:
        settings: of the `Mnemic`, its database.
    """
    async with FaultyEndpoint(_ANSWERS).listening() as endpoint:
        given: dict[str, Any] = {"base_url": endpoint.url, "api_key": "none", "embedder": "openai:m"}
        given |= {f"{tier}_model": "openai:m" for tier in ("fast", "slow", "agent")}
        limits = {"model_timeout_seconds": _TIMEOUT, "model_deadline_seconds": DEADLINE}
        async with Mnemic.open(settings=Settings(**given, **limits, **settings)) as memory:
            for number, fault in enumerate(FAULTS):
                yield await _trial(memory, endpoint, fault, f"fault-{number}")


async def _trial(memory: Mnemic, endpoint: FaultyEndpoint, fault: Fault, agent_id: str) -> Trial:
    who = Identity(agent_id=agent_id, user_id="ana", session_id="talk")
    strike = _answer if fault.place == "answer" else _form
    began = time.monotonic()
    async with endpoint.failing(fault):
        told = await strike(memory, who)
    seconds = time.monotonic() - began
    problems = [
        *(["it is not told what failed"] if fault.told not in told or not told else []),
        *(["the endpoint's own words are told"] if CANARY in told else []),
        *(["more than one line"] if "\n" in told else []),
        *(["too late"] if seconds > DEADLINE + 1 else []),
    ]
    if (left := await strike(memory, who)) or (fault.place != "answer" and not await memory.memories(who)):
        problems.append(f"something is lost: {left}")
    shown = told.replace(endpoint.url, "http://localhost:8000/v1")
    return Trial(fault=fault, told=shown, seconds=seconds, requests=endpoint.requests, problems=tuple(problems))


async def _form(memory: Mnemic, who: Identity) -> str:
    """Return the error, else the first warning; empty if everything was formed with its vectors."""
    await memory.observe(who, [dict(said) for said in _SAID])
    with _warnings() as warnings:
        try:
            await memory.form(who)
        except ModelError as error:
            return str(error)
    return warnings[0] if warnings else ""


@contextmanager
def _warnings() -> Iterator[list[str]]:
    """Collect the messages of the warnings that are logged in the block."""
    messages: list[str] = []

    def collect(record: logging.LogRecord) -> bool:
        if record.levelno >= logging.WARNING:
            messages.append(record.getMessage())
        return True

    logger = logging.getLogger("mnemic")
    logger.addFilter(collect)
    try:
        yield messages
    finally:
        logger.removeFilter(collect)


async def _answer(memory: Mnemic, who: Identity) -> str:
    graph: Any = memory.graphs.supervisor(InMemorySaver())
    given = {"messages": [HumanMessage("I live in Porto.")]}
    try:
        async for _ in graph.astream(given, memory.threads.config(who), context=who, stream_mode="messages"):
            pass
    except ModelError as error:
        return str(error)
    return ""
