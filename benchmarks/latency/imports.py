"""What importing costs: CPU of fresh processes, in turns."""

import subprocess
import sys
from statistics import median

PRODUCT = "import mnemic, mnemic.graphs.recall, mnemic.graphs.formation"
LANGGRAPH = "import langgraph.graph, langgraph.checkpoint.postgres"
_MEASURED = "import time; begun = time.process_time(); {}; print(time.process_time() - begun)"


def import_seconds(runs: int) -> tuple[float, float]:
    """CPU seconds of the product's graphs, and of LangGraph with its Postgres saver: medians."""
    product, langgraph = [], []
    for _ in range(runs + 1):
        product.append(_seconds(PRODUCT))
        langgraph.append(_seconds(LANGGRAPH))
    return median(product[1:]), median(langgraph[1:])  # the first one may have to compile


def _seconds(statement: str) -> float:
    command = [sys.executable, "-c", _MEASURED.format(statement)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)  # noqa: S603 - our own words
    return float(done.stdout)
