"""LangGraph's PostgresStore: vectors searched through its default HNSW index, with parameters that reach a recall."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, Self
from uuid import UUID, uuid4

import psycopg
from langgraph.store.base import PutOp
from langgraph.store.postgres import PostgresStore
from langgraph.store.postgres.base import PostgresIndexConfig
from pgvector.psycopg import register_vector
from psycopg.types.json import Jsonb

from benchmarks.latency.embedder import DIMENSIONS, LangChainEmbedder, WordEmbedder
from benchmarks.latency.exactness import QUESTIONS, nearest, share
from benchmarks.latency.facts import COMMON, Facts, Sayings

_UPDATE = (
    "update store set value = jsonb_set(value, '{used}', to_jsonb(coalesce((value ->> 'used')::bigint, 0) + 1)),"
    " updated_at = clock_timestamp() where prefix = %(prefix)s and key = any(%(keys)s)"
)

#: Share of the ten nearest memories that a search has to return, as Mnemic's does.
EQUAL_RECALL: Final = 0.99
#: Parameters of pgvector's index, the cheapest first; the first ones are those of a connection without any.
_PARAMETERS: Final[tuple[Mapping[str, str], ...]] = (
    {"hnsw.ef_search": "40", "hnsw.iterative_scan": "off"},
    {"hnsw.ef_search": "200", "hnsw.iterative_scan": "off"},
    {"hnsw.ef_search": "40", "hnsw.iterative_scan": "strict_order", "hnsw.max_scan_tuples": "20000"},
    {"hnsw.ef_search": "200", "hnsw.iterative_scan": "strict_order", "hnsw.max_scan_tuples": "20000"},
    {"hnsw.ef_search": "1000", "hnsw.iterative_scan": "strict_order", "hnsw.max_scan_tuples": "20000"},
    {"hnsw.ef_search": "1000", "hnsw.iterative_scan": "strict_order", "hnsw.max_scan_tuples": "1000000"},
)


@dataclass(frozen=True)
class Tuned:
    """The parameters with which the store is measured."""

    parameters: str
    #: Recall@10 with them, and with the parameters of a connection without any.
    recall: float
    shipped_recall: float


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

    def tune(self) -> Tuned:
        """Set the cheapest parameters that reach the recall, or the dearest ones if none does."""
        recalls: list[float] = []
        for parameters in _PARAMETERS:
            for name, value in parameters.items():
                with self._store._cursor() as cursor:  # the store has no method for it
                    cursor.execute("select set_config(%s, %s, false)", (name, value))
            recalls.append(self._recall_at_10())
            if recalls[-1] >= EQUAL_RECALL:
                break
        described = ", ".join(f"{name}={value}" for name, value in parameters.items())
        return Tuned(described, recalls[-1], recalls[0])

    def _recall_at_10(self) -> float:
        embedder, total = WordEmbedder(), 0.0
        for number in range(QUESTIONS):
            user, question = self._sayings.user(number), self._sayings.question(number)
            found = [UUID(item.key) for item in self._search(number)]
            total += share(found, nearest(self._facts, user, embedder.vector(question), None))
        return total / QUESTIONS

    async def search(self, number: int) -> Any:
        """Ten memories by vector."""
        return self._search(number)

    def _search(self, number: int) -> Any:
        return self._store.search(self._namespace(number), query=self._sayings.question(number), limit=10)

    async def insert_100(self, number: int) -> None:
        """Store a hundred memories in one batch."""
        self._store.batch([self._put(number, place) for place in range(100)])

    async def note_use(self, number: int) -> None:
        """Count in the rows themselves that ten of them were recalled; the store has no method for it."""
        user = self._sayings.user(number)
        keys = [str(id_) for id_ in self._facts.of(user, 10)]
        self._connection.execute(_UPDATE, {"prefix": _prefix(user), "keys": keys})

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
        return "memories", _name(self._sayings.user(number))


def _name(user: int) -> str:
    """Return a name that begins no other one: the store also returns what lies in namespaces that begin alike."""
    return f"{user:04}"


def _prefix(user: int) -> str:
    return f"memories.{_name(user)}"


def _load(connection: psycopg.Connection, facts: Facts) -> None:
    """As rows in bulk, and the index built afterwards: one by one they would take minutes."""
    register_vector(connection)
    connection.execute("drop index if exists store_vectors_embedding_idx")
    prefixes = [_prefix(owner) for owner in facts.owners]
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
