"""The product: its database filled, and its own operations through its own paths."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, LiteralString, Self
from uuid import UUID, uuid4

import psycopg
from pgvector import HalfVector
from pgvector.psycopg import register_vector
from psycopg.conninfo import make_conninfo

from benchmarks.latency.embedder import WordEmbedder
from benchmarks.latency.facts import COMMON, TURNS, Facts, Sayings
from benchmarks.latency.scripted import ScriptedModels
from mnemic.memory.recall.query import query
from mnemic.memory.runtime.resources import AccessTracker, Resources, open_resources
from mnemic.service.memory import Mnemic
from mnemic.state.identity import Identity
from mnemic.state.query import MemoryQuery
from mnemic.state.records import NewMemory, Relation, SearchResult
from mnemic.state.settings import Settings
from mnemic.storage import memories
from mnemic.storage.migrate import migrate
from mnemic.storage.schema import SERVICE_ROLE
from mnemic.storage.transaction import ScopedTransaction

AGENT = "bench"
ROLE = "supervisor"
#: Relations of each memory that has any, as many as a formation looks for neighbours.
EDGES_EACH = 5
_DAY = datetime(2026, 3, 2, tzinfo=UTC)

_GIVEN: LiteralString = (
    "create temporary table given (id uuid, owner text, category text, content text, search_text text, vec halfvec)"
)
#: Behind the policies and without the triggers: the history of loading is not what is measured.
_LOAD: tuple[LiteralString, ...] = (
    "set session_replication_role = replica",
    "set search_path = mnemic, public",
    "insert into agents (agent_id) values ('bench')",
    "insert into memories (agent_id, id, kind, scope_key, subject, category, content, importance,"
    " provenance, valid_from)"
    " select 'bench', id, 'fact', owner, 'Ana', category, content, 3, 'asserted', now() from given",
    "insert into entries (agent_id, scope_key, item_id, kind, category, model, vec, tsv)"
    " select 'bench', owner, id, 'fact', category, %(model)s, vec, to_tsvector('english', search_text) from given",
    "vacuum analyze",
)
_SIZE = "select pg_total_relation_size('mnemic.memories') + pg_total_relation_size('mnemic.entries')"


async def fill(dsn: str, facts: Facts) -> str:
    """Migrates and fills the empty database at `dsn`; the DSN of the service's role there."""
    await migrate(dsn)
    await asyncio.to_thread(_load, dsn, facts)
    return make_conninfo(dsn, user=SERVICE_ROLE)


def _load(dsn: str, facts: Facts) -> None:
    with psycopg.connect(dsn, autocommit=True) as connection:
        register_vector(connection)
        connection.execute(_GIVEN)
        with connection.cursor().copy("copy given from stdin with (format binary)") as copy:
            copy.set_types(["uuid", "text", "text", "text", "text", "halfvec"])
            for id_, owner, category, text, vector in zip(
                facts.ids, facts.owners, facts.categories, facts.texts, facts.vectors, strict=True
            ):
                copy.write_row((id_, f"user:{owner}", category, text, _search_text(text), HalfVector(vector)))
        for statement in _LOAD:
            connection.execute(statement, {"model": WordEmbedder.name} if "%(model)s" in statement else None)


def _search_text(text: str) -> str:
    return f"[2026-03-02] Ana: {text}"


class Product:
    """An open `Mnemic`, and a method for each operation."""

    def __init__(self, resources: Resources, facts: Facts, sayings: Sayings) -> None:
        self.memory = Mnemic(resources)
        self.allowed: Sequence[str] = tuple(resources.categories.of_role(ROLE).categories)
        self.resources = resources
        self._facts = facts
        self._sayings = sayings

    @classmethod
    @asynccontextmanager
    async def open(cls, service_dsn: str, facts: Facts, sayings: Sayings) -> AsyncIterator[Self]:
        """As the service opens it, but for its embedder and its models."""
        names = {"fast_model": "openai:scripted", "slow_model": "openai:scripted", "api_key": "none"}
        settings = Settings(database_url=service_dsn, embedder="hash", **names)
        async with open_resources(settings) as opened:
            models = ScriptedModels(settings, sayings.text)
            yield cls(replace(opened, embedder=WordEmbedder(), models=models), facts, sayings)

    def bytes_each(self, dsn: str) -> float:
        """Of memories and their entries with indexes and TOAST, for one memory."""
        with psycopg.connect(dsn) as connection:
            row = connection.execute(_SIZE).fetchone()
        return float(row[0]) / len(self._facts) if row else 0.0

    async def give_standing_part(self, user: int) -> None:
        """Store a consolidation of 150 words, a commitment and three reflections for one user."""
        words = " ".join(self._sayings.text() for _ in range(11))
        new = [_memory("consolidation", user, words), _memory("core", user, self._sayings.text())]
        new += [_memory("reflection", user, self._sayings.text()) for _ in range(3)]
        await self._insert(self._who(user), new)

    async def memory_query(self, number: int) -> list[SearchResult]:
        """Ten memories by hybrid search."""
        return await query(
            self.resources, self._who(number), MemoryQuery(query=self._sayings.question(number), top_k=10)
        )

    async def semantic(self, user: int, question: str, categories: tuple[str, ...] | None) -> list[UUID]:
        """Return the ids of the ten memories nearest to a question in meaning."""
        request = MemoryQuery(query=question, categories=categories, search_type="semantic", top_k=10)
        return [item.id for item in await query(self.resources, self._who(user), request)]

    async def recall(self, number: int) -> Any:
        """Return the context of a turn, with a search."""
        return await self.memory.recall(self._turn(number), self._sayings.question(number), search="always")

    async def recall_by_default(self, number: int) -> Any:
        """Return the context of a turn, with a search because the memory knows a word of it."""
        return await self.memory.recall(self._turn(number), self._sayings.question(number))

    def _turn(self, number: int) -> Identity:
        return self._who(number).model_copy(update={"session_id": f"turn-{self._sayings.user(number)}"})

    async def add_conversation(self, number: int) -> None:
        """Six messages observed and formed: three facts."""
        who = self._who(number).model_copy(update={"session_id": f"product-{uuid4()}"})
        await self.memory.observe(who, [{"role": role, "content": self._sayings.text()} for role in TURNS])
        (run,) = await self.memory.form(who)
        if run.stored != {"fact": 3}:
            raise RuntimeError(f"a formation stored {run.stored}, not three facts; the measurement means nothing")

    async def insert_100(self, number: int) -> None:
        """Store a hundred memories in one operation."""
        user = self._sayings.user(number)
        new = [_memory("fact", user, self._sayings.text(), place) for place in range(100)]
        await self._insert(self._who(number), new)

    async def insert_100_related(self, number: int) -> None:
        """Store a hundred memories in one operation, each with five relations to stored ones."""
        user = self._sayings.user(number)
        relations = tuple(Relation(to_id=id_, strength=0.6) for id_ in self._facts.of(user, EDGES_EACH))
        new = [_memory("fact", user, self._sayings.text(), place) for place in range(100)]
        await self._insert(self._who(number), [replace(memory, relations=relations) for memory in new])

    async def note_use(self, number: int) -> None:
        """Count that ten memories were recalled, as `observe` does after a turn."""
        who, uses = self._who(number), AccessTracker()
        uses.note(who, self._facts.of(self._sayings.user(number), 10))
        await uses.write(self.resources.database, who)

    async def _insert(self, who: Identity, new: Sequence[NewMemory]) -> None:
        made = await self.resources.embedder.embed([memory.search_text for memory in new])
        vectors = {memory.id: vector for memory, vector in zip(new, made, strict=True)}

        async def act(tx: ScopedTransaction) -> None:
            await tx.begin_operation("formation")
            await memories.insert(tx, new, model=self.resources.embedder.name, vectors=vectors, run_id=None)

        await self.resources.database.write(who, act)

    def _who(self, number: int) -> Identity:
        return Identity(agent_id=AGENT, user_id=str(self._sayings.user(number)), role=ROLE)


def _memory(kind: Any, user: int, text: str, place: int = 0) -> NewMemory:
    return NewMemory(
        id=uuid4(),
        kind=kind,
        scope_key=f"user:{user}",
        category=COMMON[place % len(COMMON)],
        content=text,
        search_text=_search_text(text),
        subject="Ana",
        valid_from=_DAY,
        importance=3,
    )
