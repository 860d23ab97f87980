"""Savers for a host's graph, hosts whose threads are saved, and everything that a saver has written down."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Annotated, Any, Literal

import psycopg
import pytest
from langchain_core.messages import AIMessage, AnyMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.graph.state import CompiledStateGraph
from langgraph.types import interrupt
from psycopg import sql
from typing_extensions import TypedDict

from mnemic.state.identity import Identity
from mnemic.storage.database import Database
from mnemic.storage.threads import ThreadOwner, ThreadSaver
from tests.support.server import Clone

Durability = Literal["sync", "async", "exit"]
DURABILITIES: tuple[Durability, ...] = ("sync", "async", "exit")
Everything = Callable[[], Awaitable[str]]
Savers = Callable[[Clone], AbstractAsyncContextManager[tuple[BaseCheckpointSaver[str], Everything]]]


def in_sequence(state: Any, nodes: Mapping[str, Any], context: Any = Identity) -> Any:
    """A host's graph to be compiled: these nodes one after the other."""
    builder = StateGraph(state, context_schema=context)
    builder.add_sequence([*nodes.items()])
    builder.add_edge(START, next(iter(nodes)))
    return builder


@asynccontextmanager
async def in_process(_: Clone) -> AsyncIterator[tuple[BaseCheckpointSaver[str], Everything]]:
    saver = InMemorySaver()

    async def everything() -> str:
        return f"{dict(saver.storage)} {dict(saver.writes)} {saver.blobs}"

    yield saver, everything


@asynccontextmanager
async def in_postgres(clone: Clone) -> AsyncIterator[tuple[BaseCheckpointSaver[str], Everything]]:
    async with AsyncPostgresSaver.from_conn_string(clone.superuser_dsn) as saver:
        await saver.setup()

        async def everything() -> str:
            """Every row of every table that the saver made, bytes and all."""
            with clone.as_superuser() as connection:
                tables = connection.execute("select tablename from pg_tables where schemaname = 'public'").fetchall()
                assert {("checkpoints",), ("checkpoint_blobs",), ("checkpoint_writes",)} <= {*tables}
                statements = [sql.SQL("select * from {}").format(sql.Identifier(table)) for (table,) in tables]
                return "\n".join(repr(row) for statement in statements for row in connection.execute(statement))

        yield saver, everything


both_savers = pytest.mark.parametrize("savers", [in_process, in_postgres], ids=["memory", "postgres"])


#: The saver's tables, and the one that says where threads stand.
TABLES = ("checkpoints", "checkpoint_blobs", "checkpoint_writes", "supervisor_checkpoints")
Host = CompiledStateGraph[Any, Any, Any, Any]


class Talk(TypedDict, total=False):
    messages: Annotated[list[AnyMessage], add_messages]
    #: Plain text, which the library saves in another place.
    note: str
    count: int
    #: Of the host alone, not of its subgraph.
    work: str


class Consulted(TypedDict, total=False):
    messages: Annotated[list[AnyMessage], add_messages]
    count: int


def saver_of(db: Database, user: str = "ana", agent: str = "harbor") -> ThreadSaver:
    """A saver of one person's threads."""
    return ThreadSaver(db, ThreadOwner(agent, user))


def at(thread_id: str, **more: str) -> RunnableConfig:
    return {"configurable": {"thread_id": thread_id, "checkpoint_ns": "", **more}}


def said(text: str) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": text}]}


def words(state: Any) -> list[str]:
    return [str(message.content) for message in state["messages"]]


async def _answer(state: Talk) -> Talk:
    heard = words(state)[-1]
    return {"messages": [AIMessage(f"Heard {heard}")], "note": f"note {heard}", "count": state.get("count", 0) + 1}


def answering(saver: BaseCheckpointSaver[Any] | None) -> Host:
    """A host that answers each message with its words."""
    host: Host = in_sequence(Talk, {"answer": _answer}).compile(checkpointer=saver)
    return host


def asking(saver: BaseCheckpointSaver[Any] | None, worked: list[str] | None = None) -> Host:
    """A host that works on two things at once, one of which, in a subgraph, has a question for its user.

    Args:
        worked: gets a word for each time that the other thing is done.
    """

    async def ask(state: Consulted) -> Consulted:
        return {"messages": [AIMessage(f"Asked: {interrupt('Really?')}")]}

    async def work(state: Talk) -> Talk:
        (worked if worked is not None else []).append("worked")
        return {"work": "worked"}

    within = in_sequence(Consulted, {"prepare": lambda state: {"count": 7}, "ask": ask}, context=None)
    graph = StateGraph(Talk)
    graph.add_node("greet", _answer)
    graph.add_node("consult", within.compile())
    graph.add_node("work", work)
    for before, after in ((START, "greet"), ("greet", "consult"), ("greet", "work"), ("consult", END), ("work", END)):
        graph.add_edge(before, after)
    return graph.compile(checkpointer=saver)


async def everything(saver: BaseCheckpointSaver[Any], thread_id: str) -> list[Any]:
    """All that a checkpointer has of a thread, in every namespace; writes by their tasks."""
    found = [item async for item in saver.alist({"configurable": {"thread_id": thread_id}})]
    return sorted(
        (
            [
                item.config["configurable"]["checkpoint_ns"],
                item.checkpoint["id"],
                item.parent_config and item.parent_config["configurable"]["checkpoint_id"],
                item.checkpoint,
                {name: value for name, value in item.metadata.items() if name != "thread_id"},
                sorted((task, channel, repr(value)) for task, channel, value in item.pending_writes or ()),
            ]
            for item in found
        ),
        key=lambda row: (str(row[0]), str(row[1])),
    )


def counts(superuser: psycopg.Connection, tables: Sequence[str] = TABLES) -> dict[str, int]:
    """Rows of the tables, everybody's."""
    rows = {table: superuser.execute(f"select count(*) from mnemic.{table}".encode()).fetchone() for table in tables}
    return {table: row[0] for table, row in rows.items() if row}


def misplaced(superuser: psycopg.Connection) -> list[tuple[object, ...]]:
    """Threads whose row is missing, stands elsewhere than at the latest checkpoint, or has no thread."""
    return superuser.execute(
        "select thread, latest, stands from (select thread_id as thread, max(checkpoint_id) as latest"
        " from mnemic.checkpoints where checkpoint_ns = '' group by 1) as c full join (select"
        " mnemic.thread_prefix(agent_id, user_id) || thread_id as thread, checkpoint_data ->> 'checkpoint_id' as stands"
        " from mnemic.supervisor_checkpoints) as s using (thread) where latest is distinct from stands"
    ).fetchall()
