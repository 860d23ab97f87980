"""mem0's search on its own pgvector table, without its models and without its telemetry."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from tempfile import TemporaryDirectory
from typing import Any, Self
from uuid import uuid4

import psycopg
from pgvector.psycopg import register_vector
from psycopg.types.json import Jsonb

from benchmarks.latency.embedder import DIMENSIONS, LangChainEmbedder, WordEmbedder
from benchmarks.latency.facts import Facts, Sayings

MISSING = "mem0 is left out: pip install '.[bench]'"
_TIME = "2026-03-02T00:00:00+00:00"


class _Embedding:
    """What mem0 asks its embedding model."""

    config = None

    def __init__(self) -> None:
        self._embedder = LangChainEmbedder(WordEmbedder())

    def embed(self, text: str, memory_action: str | None = None) -> list[float]:
        return self._embedder.embed_query(text)


class Mem0Peer:
    """mem0 on a filled database."""

    def __init__(self, memory: Any, sayings: Sayings) -> None:
        self._memory = memory
        self._sayings = sayings

    @classmethod
    @contextmanager
    def open(cls, dsn: str, facts: Facts, sayings: Sayings) -> Iterator[Self]:
        """Fill the empty database at `dsn` and open mem0 there.

        Raises:
            ImportError: mem0 is not installed.
        """
        with TemporaryDirectory(prefix="mnemic-mem0-") as folder:
            # read when mem0 is imported
            os.environ.update(MEM0_TELEMETRY="False", MEM0_DIR=folder)
            with psycopg.connect(dsn, autocommit=True) as connection:
                connection.execute("create extension vector")
                memory = _memory(dsn, folder)
                memory.vector_store.create_col()
                _load(connection, facts)
            yield cls(memory, sayings)
            memory.vector_store.connection_pool.close()

    async def search(self, number: int) -> Any:
        """Ten memories."""
        filters = {"user_id": str(self._sayings.user(number))}
        return self._memory.search(self._sayings.question(number), filters=filters, top_k=10)


def _memory(dsn: str, folder: str) -> Any:
    from mem0 import Memory

    store = {"connection_string": dsn, "collection_name": "mem0", "embedding_model_dims": DIMENSIONS}
    made = Memory.from_config(
        {
            "vector_store": {"provider": "pgvector", "config": store},
            # replaced below, and never asked
            "llm": {"provider": "openai", "config": {"api_key": "none"}},
            "embedder": {"provider": "openai", "config": {"api_key": "none", "embedding_dims": DIMENSIONS}},
            "history_db_path": f"{folder}/history.db",
        }
    )
    made.embedding_model = _Embedding()
    return made


def _load(connection: psycopg.Connection, facts: Facts) -> None:
    register_vector(connection)
    connection.execute("drop index if exists mem0_hnsw_idx")
    with connection.cursor().copy("copy mem0 (id, vector, payload) from stdin with (format binary)") as copy:
        copy.set_types(["uuid", "vector", "jsonb"])
        for owner, text, vector in zip(facts.owners, facts.texts, facts.vectors, strict=True):
            copy.write_row((uuid4(), vector, Jsonb(_payload(str(owner), text))))
    connection.execute("create index mem0_hnsw_idx on mem0 using hnsw (vector vector_cosine_ops)")
    connection.execute("vacuum analyze")


def _payload(owner: str, text: str) -> dict[str, str]:
    return {
        "user_id": owner,
        "data": text,
        "text_lemmatized": text,
        "hash": "0" * 32,
        "created_at": _TIME,
        "updated_at": _TIME,
        "attributed_to": "user",
    }
