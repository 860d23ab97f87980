"""LangGraph's PostgresStore, as it is shipped: vectors searched through its default HNSW index."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Self
from uuid import uuid4

import psycopg
from langgraph.store.base import PutOp
from langgraph.store.postgres import PostgresStore
from langgraph.store.postgres.base import PostgresIndexConfig
from pgvector.psycopg import register_vector
from psycopg.types.json import Jsonb

from benchmarks.latency.embedder import DIMENSIONS, LangChainEmbedder, WordEmbedder
from benchmarks.latency.facts import COMMON, Facts, Sayings

_UPDATE = (
    "update store set value = jsonb_set(value, '{used}', to_jsonb(coalesce((value ->> 'used')::bigint, 0) + 1)),"
    " updated_at = clock_timestamp() where prefix = %(prefix)s and key = any(%(keys)s)"
)


class StorePeer:
    """The store on a filled database, and a method for each operation."""

    def __init__(self, store: PostgresStore, connection: psycopg.Connection, facts: Facts, sayings: Sayings) -> None:
        self._store = store
        self._connection = connection
        self._facts = facts
        self._sayings = sayings

    @classmethod
    @contextmanager
    def open(cls, dsn: str, facts: Facts, sayings: Sayings) -> Iterator[Self]:
        """Fill the empty database at `dsn` and open the store there."""
        index: PostgresIndexConfig = {
            "dims": DIMENSIONS,
            "embed": LangChainEmbedder(WordEmbedder()),
            "fields": ["content"],
        }
        with PostgresStore.from_conn_string(dsn, index=index) as store:
            store.setup()
            with psycopg.connect(dsn, autocommit=True) as connection:
                _load(connection, facts)
                yield cls(store, connection, facts, sayings)

    async def search(self, number: int) -> Any:
        """Ten memories by vector."""
        return self._store.search(self._namespace(number), query=self._sayings.question(number), limit=10)

    async def insert_100(self, number: int) -> None:
        """Store a hundred memories in one batch."""
        self._store.batch([self._put(number, place) for place in range(100)])

    async def note_use(self, number: int) -> None:
        """Count in the rows themselves that ten of them were recalled; the store has no method for it."""
        user = self._sayings.user(number)
        keys = [str(id_) for id_ in self._facts.of(user, 10)]
        self._connection.execute(_UPDATE, {"prefix": f"memories.{user}", "keys": keys})

    def bytes_each(self) -> float:
        """Of tables, indexes and TOAST, for one memory."""
        row = self._connection.execute(
            "select pg_total_relation_size('store') + pg_total_relation_size('store_vectors')"
        ).fetchone()
        return float(row[0]) / len(self._facts) if row else 0.0

    def _put(self, number: int, place: int) -> PutOp:
        value = {"content": self._sayings.text(), "category": COMMON[place % len(COMMON)]}
        return PutOp(self._namespace(number), str(uuid4()), value)

    def _namespace(self, number: int) -> tuple[str, str]:
        return "memories", str(self._sayings.user(number))


def _load(connection: psycopg.Connection, facts: Facts) -> None:
    """As rows in bulk, and the index built afterwards: one by one they would take minutes."""
    register_vector(connection)
    connection.execute("drop index if exists store_vectors_embedding_idx")
    prefixes = [f"memories.{owner}" for owner in facts.owners]
    with connection.cursor().copy("copy store (prefix, key, value) from stdin with (format binary)") as copy:
        copy.set_types(["text", "text", "jsonb"])
        for row in zip(prefixes, facts.ids, facts.texts, facts.categories, strict=True):
            copy.write_row((row[0], str(row[1]), Jsonb({"content": row[2], "category": row[3]})))
    columns = "copy store_vectors (prefix, key, field_name, embedding) from stdin with (format binary)"
    with connection.cursor().copy(columns) as copy:
        copy.set_types(["text", "text", "text", "vector"])
        for prefix, key, vector in zip(prefixes, facts.ids, facts.vectors, strict=True):
            copy.write_row((prefix, str(key), "content", vector))
    connection.execute(
        "create index store_vectors_embedding_idx on store_vectors using hnsw (embedding vector_cosine_ops)"
    )
    connection.execute("vacuum analyze")
