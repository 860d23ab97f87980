"""The tables and the gates of a run."""

from collections.abc import Mapping

from rich.table import Table

from benchmarks.latency.gates import Gate
from benchmarks.latency.measuring import Measured, Results
from benchmarks.latency.operations import BY_HAND, SEARCH, STORE_BATCH, STORE_SEARCH, cpu_ratio
from benchmarks.latency.peer_mem0 import MISSING
from benchmarks.latency.product import EDGES_EACH
from benchmarks.latency.timing import Figures

#: The size at which the peers are compared, for their index costs more the more it holds; the one whose waiting counts.
_COMPARED, _LARGE = 10_000, 100_000


def tables(results: Results) -> list[Table]:
    """One for each size, and one for what does not depend on it."""
    return [*map(_of_size, results.sizes), _others(results)]


def notes(results: Results) -> list[str]:
    """Return the notes to the tables."""
    lines: list[str] = []
    for measured in results.sizes:
        tuned = measured.store_tuned
        lines.append(
            f"{measured.rows:,} rows: PostgresStore.search with {tuned.parameters}: recall@10 {tuned.recall:.3f}; "
            f"as shipped {tuned.shipped_recall:.3f}"
        )
        ratios = [cpu_ratio(measured.reading, name, STORE_SEARCH) for name in ("memory_query", SEARCH)]
        lines.append(
            f"{measured.rows:,} rows: CPU / PostgresStore.search: memory_query {ratios[0]:.2f}, by hand {ratios[1]:.2f}"
        )
    for name, recall in results.recall.items():
        lines.append(f"memory_query, {name}: recall@10 {recall:.3f}")
    if not results.mem0:
        lines.append(MISSING)
    return lines


def gates(results: Results) -> list[Gate]:
    """Every limit that this run can tell something about."""
    made = [
        Gate(name=f"recall@10, {name}", value=share, limit=0.99, at_least=True)
        for name, share in results.recall.items()
    ]
    for measured in results.sizes:
        made += _gates_of(measured)
    ratio = results.product_import / results.langgraph_import
    return [*made, Gate(name="import CPU / LangGraph with its saver", value=ratio, limit=1.15)]


def gates_table(found: list[Gate]) -> Table:
    """Each gate with its value."""
    table = Table("gate", "value", "limit", "", title="Gates")
    for gate in found:
        table.add_row(gate.name, f"{gate.value:.3g}", gate.described, "kept" if gate.passes else "[bold red]FAILED[/]")
    return table


def edge_milliseconds(writing: Mapping[str, Figures]) -> float:
    """Return the time that one relation adds to the save that writes it."""
    return (writing["100 memories, 500 relations"].wall - writing["100 memories"].wall) / (100 * EDGES_EACH)


def _gates_of(measured: Measured) -> list[Gate]:
    reading, writing = measured.reading, measured.writing
    found = {
        "memory_query / by hand": (cpu_ratio(reading, "memory_query"), 1.6),
        "automatic recall / search by hand": (cpu_ratio(reading, "automatic recall"), 2.5),
        "add conversation / by hand": (cpu_ratio(writing, "add conversation"), 5.0),
    }
    if measured.rows == _COMPARED:
        found["memory_query / PostgresStore.search"] = (cpu_ratio(reading, "memory_query", STORE_SEARCH), 0.65)
        found["100 memories / PostgresStore.batch"] = (cpu_ratio(writing, "100 memories", STORE_BATCH), 0.08)
        found["bytes / PostgresStore"] = (measured.product_bytes / measured.store_bytes, 0.6)
    if measured.rows == _LARGE:
        found["memory_query, p95 in ms"] = (reading["memory_query"].wall_p95, 150)
        found["automatic recall, p95 in ms"] = (reading["automatic recall"].wall_p95, 200)
        found["a relation in ms"] = (edge_milliseconds(writing), 2)
    return [
        Gate(name=f"{measured.rows:,} rows: {name}", value=value, limit=limit) for name, (value, limit) in found.items()
    ]


def _of_size(measured: Measured) -> Table:
    columns = ("CPU ms", "client", "server", "CPU / by hand", "wall ms", "p95")
    table = Table("operation", title=f"{measured.rows:,} memories of 100 users, 384 dimensions")
    for column in columns:
        table.add_column(column, justify="right")
    for figures in (measured.reading, measured.writing):
        for name, row in figures.items():
            ratio = f"{cpu_ratio(figures, name):.2f}" if BY_HAND[name] != name else ""
            cpu, wall = (row.cpu, row.client, row.server), (row.wall, row.wall_p95)
            table.add_row(name, *map(_number, cpu), ratio, *map(_number, wall))
        table.add_section()
    return table


def _others(results: Results) -> Table:
    table = Table("", "Mnemic", "peer", "ratio", title="Bytes and imports")
    for measured in results.sizes:
        name = f"bytes of a memory, {measured.rows:,} rows (peer: PostgresStore)"
        table.add_row(name, *_pair(measured.product_bytes, measured.store_bytes))
    name = "CPU seconds of importing (peer: LangGraph with its saver)"
    table.add_row(name, *_pair(results.product_import, results.langgraph_import))
    return table


def _pair(own: float, peer: float) -> tuple[str, str, str]:
    return _number(own), _number(peer), f"{own / peer:.2f}"


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:.2f}"
