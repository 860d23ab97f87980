"""The parts of the speed harness that decide what its figures mean."""

from dataclasses import replace
from uuid import UUID, uuid4

import numpy as np
import pytest

from benchmarks.latency.embedder import WordEmbedder
from benchmarks.latency.exactness import nearest, share
from benchmarks.latency.facts import RARE, Facts
from benchmarks.latency.gates import Gate
from benchmarks.latency.measuring import Measured, Results
from benchmarks.latency.operations import CONVERSATION, INSERT, SEARCH, STORE_BATCH, STORE_SEARCH
from benchmarks.latency.peer_store import Tuned
from benchmarks.latency.report import edge_milliseconds, gates
from benchmarks.latency.timing import Figures, Sample
from benchmarks.latency.world import World

ROWS = 4000


@pytest.fixture(scope="module")
def facts() -> Facts:
    return Facts.made(World.made(20), WordEmbedder(), ROWS)


def figures(cpu: float, wall: float = 1.0) -> Figures:
    return Figures(calls=2, cpu=cpu, client=cpu / 2, server=cpu / 2, wall=wall, wall_p95=wall)


def test_each_user_has_equal_reproducible_facts_and_a_rare_category(facts: Facts) -> None:
    assert Facts.made(World.made(20), WordEmbedder(), ROWS).texts == facts.texts
    assert set(np.bincount(facts.owners)) == {ROWS // 20}
    rare = np.array([category == RARE for category in facts.categories])
    assert set(np.bincount(facts.owners[rare])) == {ROWS // 20 // 20}
    assert len(set(facts.texts)) > 0.99 * ROWS


def test_exact_truth_compares_every_cosine_also_within_a_category(facts: Facts) -> None:
    question = facts.vectors[7]
    found = nearest(facts, 7, question, None)
    assert found[0] == facts.ids[7]
    cosines = {id_: float(vector @ question) for id_, vector in zip(facts.ids, facts.vectors, strict=True)}
    own = {id_ for id_, owner in zip(facts.ids, facts.owners, strict=True) if owner == 7}
    assert set(found) == set(sorted(own, key=cosines.__getitem__)[-10:])
    category_of = dict(zip(facts.ids, facts.categories, strict=True))
    found = nearest(facts, 7, facts.vectors[7], RARE)
    assert len(found) == 10
    assert {category_of[id_] for id_ in found} == {RARE}
    # what is missing and what is foreign lowers the share
    truth: list[UUID] = [uuid4() for _ in range(10)]
    assert share(truth[::-1], truth) == 1
    assert share(truth[:5], truth) == 0.5
    assert share([uuid4() for _ in range(10)], truth) == 0
    assert share([], []) == 1


def test_latency_figures_are_medians_of_both_sides_and_the_95th_percentile() -> None:
    samples = [Sample(wall=float(number), client=1.0, server=number / 100) for number in range(1, 101)]
    made = Figures.of([*samples, Sample(wall=1000.0, client=1.0, server=90.0)])
    assert (made.calls, made.client, made.wall) == (101, 1.0, 51.0)
    assert made.cpu == pytest.approx(1.51)
    assert made.wall_p95 == 96


def results(rows: int) -> Results:
    """A run that keeps every limit."""
    measured = Measured(
        rows=rows,
        reading={
            "memory_query": figures(1.2, 3),
            SEARCH: figures(1.0),
            STORE_SEARCH: figures(2.0),
            "automatic recall": figures(2.0, 4),
        },
        writing={
            "add conversation": figures(4.0),
            CONVERSATION: figures(1.0),
            "100 memories": figures(7.0, 10),
            "100 memories, 500 relations": figures(8.0, 20),
            INSERT: figures(5.0),
            STORE_BATCH: figures(100.0),
        },
        product_bytes=500,
        store_bytes=1000,
        store_tuned=Tuned("hnsw.ef_search=40", recall=1.0, shipped_recall=1.0),
    )
    return Results(sizes=(measured,), recall={"20 scopes": 1.0}, product_import=1.1, langgraph_import=1.0, mem0=False)


def failed(found: Results) -> list[str]:
    return [gate.name for gate in gates(found) if not gate.passes]


def test_each_limit_that_is_not_kept_fails_its_own_gate_and_no_other() -> None:
    for rows, count in ((1000, 5), (10_000, 8), (100_000, 8)):
        assert (failed(results(rows)), len(gates(results(rows)))) == ([], count)
    good = results(100_000)
    (measured,) = good.sizes
    slow = replace(measured, reading={**measured.reading, "memory_query": figures(1.7, 151)})
    assert failed(replace(good, sizes=(slow,))) == [
        "100,000 rows: memory_query / by hand",
        "100,000 rows: memory_query, p95 in ms",
    ]
    slow = replace(measured, reading={**measured.reading, "automatic recall": figures(2.6, 4)})
    assert failed(replace(good, sizes=(slow,))) == ["100,000 rows: automatic recall / search by hand"]
    large = replace(measured, rows=10_000, product_bytes=601.0)
    assert failed(replace(good, sizes=(large,))) == ["10,000 rows: bytes / PostgresStore"]
    assert failed(replace(good, recall={"20 scopes": 0.98})) == ["recall@10, 20 scopes"]
    assert failed(replace(good, product_import=1.2)) == ["import CPU / LangGraph with its saver"]
    # a relation costs what five hundred of them add, and a gate is kept at its very limit
    assert edge_milliseconds(measured.writing) == pytest.approx(0.02)
    assert Gate(name="", value=0.99, limit=0.99, at_least=True).passes
    assert Gate(name="", value=1.6, limit=1.6).passes
    assert not Gate(name="", value=1.61, limit=1.6).passes
