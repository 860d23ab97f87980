"""Savers for a host's graph, and everything they have written down."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Literal

import psycopg
import pytest
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
from langgraph.graph import START, StateGraph
from psycopg import sql

from mnemic.state.identity import Identity
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
            with clone.as_superuser() as connection:
                return "\n".join(checkpoint_rows(connection))

        yield saver, everything


def checkpoint_rows(connection: psycopg.Connection) -> list[str]:
    """Every row of every table that the saver made, bytes and all."""
    tables = [name for (name,) in connection.execute("select tablename from pg_tables where schemaname = 'public'")]
    assert {"checkpoints", "checkpoint_blobs", "checkpoint_writes"} <= set(tables)
    statements = [sql.SQL("select * from {}").format(sql.Identifier(table)) for table in tables]
    return [repr(row) for statement in statements for row in connection.execute(statement)]


both_savers = pytest.mark.parametrize("savers", [in_process, in_postgres], ids=["memory", "postgres"])
