"""One run: every size of table with everybody on one server, then recall@10, then what importing costs."""

from collections.abc import AsyncIterator, Sequence
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass

from benchmarks.latency.by_hand import ByHand
from benchmarks.latency.embedder import WordEmbedder
from benchmarks.latency.exactness import recall_at_10
from benchmarks.latency.facts import RARE, Facts, Sayings
from benchmarks.latency.imports import import_seconds
from benchmarks.latency.operations import MEM0_SEARCH, reading, writing
from benchmarks.latency.peer_mem0 import Mem0Peer
from benchmarks.latency.peer_store import StorePeer, Tuned
from benchmarks.latency.product import AGENT, Product, fill
from benchmarks.latency.server import BenchServer, bench_server
from benchmarks.latency.timing import Backends, Figures, interleaved
from benchmarks.latency.world import World

USERS = 100
FEW_SCOPES, MANY_SCOPES = 20, 1000
_IMPORTS = 7


@dataclass(frozen=True, kw_only=True)
class Measured:
    """A table of so many rows."""

    rows: int
    reading: dict[str, Figures]
    writing: dict[str, Figures]
    #: Bytes of one memory, of the product and of PostgresStore.
    product_bytes: float
    store_bytes: float
    #: Parameters with which PostgresStore's search was measured.
    store_tuned: Tuned


@dataclass(frozen=True, kw_only=True)
class Results:
    """All that a run has found."""

    sizes: tuple[Measured, ...]
    #: Recall@10 by what was searched.
    recall: dict[str, float]
    #: CPU seconds of importing the product's graphs, and LangGraph with its saver.
    product_import: float
    langgraph_import: float
    mem0: bool


async def measure(sizes: Sequence[int], repetitions: int) -> Results:
    """All of it, which takes some minutes and a few GB of temporary files at 100,000 rows."""
    has_mem0 = _has_mem0()
    with bench_server() as server:
        measured = [await _at(server, rows, repetitions, mem0=has_mem0) for rows in sizes]
        recall = await _recall(server, max(sizes))
    product_import, langgraph_import = import_seconds(_IMPORTS)
    return Results(
        sizes=tuple(measured),
        recall=recall,
        product_import=product_import,
        langgraph_import=langgraph_import,
        mem0=has_mem0,
    )


def _has_mem0() -> bool:
    from importlib.util import find_spec

    return find_spec("mem0") is not None


async def _at(server: BenchServer, rows: int, repetitions: int, *, mem0: bool) -> Measured:
    world = World.made(USERS)
    facts, sayings = Facts.made(world, WordEmbedder(), rows), Sayings(world)
    dsn = server.new_database("bench_product")
    with ExitStack() as peers, server.admin as admin:
        store = peers.enter_context(StorePeer.open(server.new_database("bench_store"), facts, sayings))
        tuned = store.tune()
        async with _opened(dsn, facts, sayings) as (product, by_hand):
            product_bytes, store_bytes = product.bytes_each(dsn), store.bytes_each()
            for user in range(USERS):
                await product.give_standing_part(user)
            reads = reading(product, by_hand, store)
            if mem0:
                peer = peers.enter_context(Mem0Peer.open(server.new_database("bench_mem0"), facts, sayings))
                reads[MEM0_SEARCH] = peer.search
            backends = Backends(admin)
            return Measured(
                rows=rows,
                reading=await interleaved(reads, backends, repetitions=repetitions),
                writing=await interleaved(writing(product, by_hand, store), backends, repetitions=repetitions),
                product_bytes=product_bytes,
                store_bytes=store_bytes,
                store_tuned=tuned,
            )


@asynccontextmanager
async def _opened(dsn: str, facts: Facts, sayings: Sayings) -> AsyncIterator[tuple[Product, ByHand]]:
    service = await fill(dsn, facts)
    async with (
        Product.open(service, facts, sayings) as product,
        ByHand.open(service, AGENT, product.allowed, facts, sayings) as by_hand,
    ):
        yield product, by_hand


async def _recall(server: BenchServer, rows: int) -> dict[str, float]:
    found: dict[str, float] = {}
    for scopes in (FEW_SCOPES, MANY_SCOPES):
        world = World.made(scopes)
        facts, sayings = Facts.made(world, WordEmbedder(), rows), Sayings(world)
        service = await fill(server.new_database("bench_recall"), facts)
        async with Product.open(service, facts, sayings) as product:
            found[f"{scopes:,} scopes"] = await recall_at_10(product, facts, sayings)
            if scopes == FEW_SCOPES:
                found[f"{scopes:,} scopes, 5 % visible"] = await recall_at_10(product, facts, sayings, RARE)
    return found
