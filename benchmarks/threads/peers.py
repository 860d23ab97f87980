"""The two checkpointers, each under the same small agent, with a thread of 50,000 tokens."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver, CheckpointTuple
from langgraph.checkpoint.base.id import uuid6
from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
from langgraph.graph import END, START, MessagesState, StateGraph
from psycopg_pool import AsyncConnectionPool

from benchmarks.latency.server import BenchServer
from mnemic.service.memory import Mnemic
from mnemic.state.identity import Identity
from mnemic.state.settings import Settings
from mnemic.storage.migrate import migrate

Durability = Literal["sync", "async", "exit"]
DURABILITIES: tuple[Durability, ...] = ("sync", "async", "exit")
CONNECTIONS = 4
#: 160 messages of 250 words, a token and a quarter each.
_MESSAGES, _TEXT = 160, "word " * 250
_WHO = Identity(agent_id="harbor", user_id="ana", session_id="s1")


@dataclass(frozen=True)
class Peer:
    """A checkpointer, a graph of two steps over it, and the config of its long thread."""

    saver: BaseCheckpointSaver[Any]
    graph: Any
    config: RunnableConfig
    #: What a run would have in memory.
    read: list[CheckpointTuple] = field(default_factory=list)

    async def begin(self) -> None:
        """Fill the thread."""
        await self.graph.ainvoke({"messages": [HumanMessage(_TEXT) for _ in range(_MESSAGES)]}, self.config)
        if found := await self.saver.aget_tuple(self._latest):
            self.read.append(found)

    async def turn(self, durability: Durability) -> object:
        """One more message, and the two answers to it."""
        return await self.graph.ainvoke({"messages": [HumanMessage("hello")]}, self.config, durability=durability)

    async def load(self) -> object:
        """Read the thread's state, as a run begins."""
        return await self.saver.aget_tuple(self._latest)

    async def save(self) -> object:
        """Save the whole state once more as a new checkpoint; `begin` has read it."""
        found = self.read[0]
        version = self.saver.get_next_version(found.checkpoint["channel_versions"]["messages"], None)
        versions = {**found.checkpoint["channel_versions"], "messages": version}
        checkpoint = {**found.checkpoint, "id": str(uuid6(clock_seq=-2)), "channel_versions": versions}
        config = {"configurable": {**found.config["configurable"], **self._latest["configurable"]}}
        return await self.saver.aput(config, checkpoint, found.metadata, {"messages": version})  # type: ignore[arg-type]

    @property
    def _latest(self) -> RunnableConfig:
        return {"configurable": {**self.config["configurable"], "checkpoint_ns": ""}}


def _graph(saver: BaseCheckpointSaver[Any]) -> Any:
    async def think(state: MessagesState) -> dict[str, Any]:
        return {"messages": [AIMessage("so")]}

    async def answer(state: MessagesState) -> dict[str, Any]:
        return {"messages": [AIMessage("fine")]}

    graph = StateGraph(MessagesState)
    graph.add_node("think", think)
    graph.add_node("answer", answer)
    graph.add_edge(START, "think")
    graph.add_edge("think", "answer")
    graph.add_edge("answer", END)
    return graph.compile(checkpointer=saver)


@asynccontextmanager
async def ours(server: BenchServer) -> AsyncIterator[Peer]:
    """Mnemic's, as its service's role, behind row-level security."""
    dsn = server.new_database("bench_threads")
    await migrate(dsn)
    service = f"{dsn} user=mnemic_app"
    async with Mnemic.open(database_url=service, embedder="hash", settings=Settings(pool_size=CONNECTIONS)) as memory:
        saver = memory.threads.checkpointer()
        yield Peer(saver, _graph(saver), memory.threads.config(_WHO))


@asynccontextmanager
async def plain(server: BenchServer) -> AsyncIterator[Peer]:
    """LangGraph's own, as its documentation sets it up, as a superuser."""
    options = {"autocommit": True, "prepare_threshold": 0}
    dsn = server.new_database("bench_plain")
    async with AsyncConnectionPool(dsn, min_size=1, max_size=CONNECTIONS, kwargs=options, open=False) as pool:
        saver = AsyncPostgresSaver(pool)  # type: ignore[arg-type]
        await saver.setup()
        yield Peer(saver, _graph(saver), {"configurable": {"thread_id": "s1"}})
