"""What importing costs a host: CPU of fresh processes, in turns."""

import os
import subprocess
import sys
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

_STATEMENTS = {
    "product": "import mnemic, mnemic.graphs.recall, mnemic.graphs.formation",
    "langgraph": "import langgraph.graph, langgraph.checkpoint.postgres",
}
_MEASURED = """
import sys, time
sys.path.insert(0, {!r})
begun = time.process_time()
import host
print(time.process_time() - begun)
"""


def import_seconds(runs: int) -> tuple[float, float]:
    """CPU seconds of the product's graphs, and of LangGraph with its Postgres saver: medians."""
    with TemporaryDirectory(prefix="mnemic-latency-") as folder:
        hosts = [_host(Path(folder) / name, statement) for name, statement in _STATEMENTS.items()]
        taken = [[_seconds(host) for host in hosts] for _ in range(runs + 1)]
    product, langgraph = zip(*taken[1:], strict=True)  # the first ones may have to compile
    return median(product), median(langgraph)


def _host(folder: Path, statement: str) -> Path:
    """Return a host's own module that imports one of them, as hosts do."""
    folder.mkdir()
    (folder / "host.py").write_text(f"{statement}\n")
    return folder


def _seconds(host: Path) -> float:
    command = [sys.executable, "-c", _MEASURED.format(str(host))]
    # installed packages have their bytecode; without this a checkout's modules would be compiled in every process
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    done = subprocess.run(  # noqa: S603 - our own words
        command, env=environment, capture_output=True, text=True, check=True
    )
    return float(done.stdout)
