"""What somebody would write by hand for the same tables: psycopg alone, the service's own role and scoped transactions.

Left out is what makes the product more than its statements: budgets and limits per category, boosts and related
memories, quoted phrases, explanations, leases and tries, the decision step, checks of texts, tokens used, typed errors.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, LiteralString, Self
from uuid import UUID, uuid4

import psycopg
from pgvector import HalfVector
from pgvector.psycopg import register_vector_async

from benchmarks.latency import by_hand_sql as sql
from benchmarks.latency.embedder import WordEmbedder
from benchmarks.latency.facts import COMMON, TURNS, Facts, Sayings


class ByHand:
    """One connection, and a method for each operation."""

    def __init__(
        self, connection: psycopg.AsyncConnection, agent: str, allowed: Sequence[str], facts: Facts, sayings: Sayings
    ) -> None:
        self._connection = connection
        self._agent = agent
        self._allowed = list(allowed)
        self._facts = facts
        self._sayings = sayings
        self._embedder = WordEmbedder()

    @classmethod
    @asynccontextmanager
    async def open(
        cls, dsn: str, agent: str, allowed: Sequence[str], facts: Facts, sayings: Sayings
    ) -> AsyncIterator[Self]:
        """Connect as the service's role."""
        async with await psycopg.AsyncConnection.connect(dsn, autocommit=True) as connection:
            await register_vector_async(connection)
            yield cls(connection, agent, allowed, facts, sayings)

    async def memory_query(self, number: int) -> list[Any]:
        """Ten memories by hybrid search."""
        question = self._sayings.question(number)
        values = {"question": question, "vector": self._half(question), "model": self._embedder.name}
        async with self._scoped(number, allowed=self._allowed):
            return await self._rows(sql.SEARCH, number, values)

    async def add_conversation(self, number: int) -> None:
        """Six messages observed; three facts of them stored with their sources, once nothing like them is known."""
        session, messages = f"hand-{uuid4()}", {uuid4(): self._sayings.text() for _ in TURNS}
        owner = f"user:{self._sayings.user(number)}"
        said: dict[str, Any] = {"ids": [*messages], "texts": [*messages.values()], "roles": [*TURNS]}
        async with self._scoped(number, f"session:{session}"):
            await self._rows(sql.OBSERVE, number, {**said, "session": session, "owner": owner})
        cited = [message for message, role in zip(messages, TURNS, strict=True) if role == "user"]
        new = self._memories([self._sayings.text() for _ in cited])
        async with self._scoped(number):
            await self._rows(sql.SIMILAR, number, {**new, "owner": owner})
        kept = {"cited": cited, "cited_vectors": [self._half(messages[message]) for message in cited]}
        async with self._scoped(number, f"session:{session}"):
            op_id = await self._begin_operation(session)
            values = {**new, **kept, "owner": owner, "session": session, "op_id": op_id, "messages": [*messages]}
            await self._rows(sql.FORM, number, values)

    async def insert_100(self, number: int) -> None:
        """Store a hundred memories in one operation."""
        new = self._memories([self._sayings.text() for _ in range(100)])
        async with self._scoped(number):
            await self._begin_operation(None)
            await self._rows(sql.INSERT, number, {**new, "owner": f"user:{self._sayings.user(number)}"})

    async def note_use(self, number: int) -> None:
        """Count that ten memories were recalled."""
        user = self._sayings.user(number)
        async with self._scoped(number):
            await self._rows(sql.USE, number, {"ids": self._facts.of(user, 10), "owner": f"user:{user}"})

    def _half(self, text: str) -> HalfVector:
        return HalfVector(self._embedder.vector(text))

    def _memories(self, texts: Sequence[str]) -> dict[str, Any]:
        return {
            "ids": [uuid4() for _ in texts],
            "texts": list(texts),
            "search_texts": [f"[2026-03-02] Ana: {text}" for text in texts],
            "categories": [COMMON[place % len(COMMON)] for place in range(len(texts))],
            "vectors": [self._half(text) for text in texts],
            "model": self._embedder.name,
        }

    @asynccontextmanager
    async def _scoped(self, number: int, *also: str, allowed: Sequence[str] | None = None) -> AsyncIterator[None]:
        scope = {**self._scope(number), "allowed": allowed}
        scope["scope_keys"] += also
        async with self._connection.transaction():
            await self._connection.execute(sql.SCOPE, scope)
            yield

    async def _begin_operation(self, session: str | None) -> UUID:
        op_id = uuid4()
        await self._connection.execute(sql.BEGIN_OPERATION, {"op_id": op_id, "session": session})
        return op_id

    async def _rows(self, statement: LiteralString, number: int, values: Mapping[str, Any]) -> list[Any]:
        cursor = await self._connection.execute(statement, {**self._scope(number), **values}, binary=True)
        return await cursor.fetchall() if cursor.description else []

    def _scope(self, number: int) -> dict[str, Any]:
        return {"agent_id": self._agent, "scope_keys": [f"agent:{self._agent}", f"user:{self._sayings.user(number)}"]}
