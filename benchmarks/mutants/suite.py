"""Runs tests of a checkout in a process of their own."""

import json
import os
import signal
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.mutants.plugin import REPORT, TESTS

_NO_TESTS = 5


@dataclass
class Run:
    """How a run ended: what failed, how long each test took, and why the run itself did not work, if so."""

    failed: list[str] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)
    broken: str = ""


def run_tests(
    tree: Path, tests: Sequence[str] | None, *, timeout: float, stop: bool = True, workers: int = 0, **environment: str
) -> Run:
    """Runs these tests in this order, or all; to the first failure if it may stop there."""
    with tempfile.TemporaryDirectory() as directory:
        report, listed = Path(directory) / "report", Path(directory) / "tests"
        report.touch()
        variables = {**os.environ, **environment, REPORT: str(report)}
        python = tree / ".venv/bin/python"
        command = [str(python), "-m", "pytest", "-q", "-p", "benchmarks.mutants.plugin", "-p", "no:cacheprovider"]
        command += ["-p", "no:randomly", *(["-x"] if stop else []), *(["-n", str(workers)] if workers else [])]
        if tests is not None:
            listed.write_text(json.dumps(list(tests)))
            variables[TESTS] = str(listed)
            command += dict.fromkeys(test.partition("::")[0] for test in tests)
        with (Path(directory) / "output").open("w+") as output:
            status = _wait(command, tree, variables, output.fileno(), timeout)
        run = Run()
        for line in report.read_text().splitlines():
            test, outcome, seconds = json.loads(line)
            run.seconds[test] = run.seconds.get(test, 0) + seconds
            if outcome == "failed" and test not in run.failed:
                run.failed.append(test)
        if status is None:
            run.broken = f"timeout after {timeout:.0f} s"
        elif status not in (0, 1, _NO_TESTS) or (status == 1 and not run.failed):
            run.broken = _last_error((Path(directory) / "output").read_text(errors="replace"))
        elif status == _NO_TESTS:
            raise LookupError(f"none of these tests exists: {tests}")
        return run


def _wait(command: list[str], tree: Path, variables: dict[str, str], output: int, timeout: float) -> int | None:
    with subprocess.Popen(  # noqa: S603
        command, cwd=tree, env=variables, stdout=output, stderr=subprocess.STDOUT, start_new_session=True
    ) as process:
        for seconds, end in ((timeout, signal.SIGINT), (30, signal.SIGKILL)):
            try:
                status = process.wait(seconds)
                return status if end == signal.SIGINT else None
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, end)
    return None


def _last_error(output: str) -> str:
    errors = [line for line in output.splitlines() if line.startswith(("E  ", "ImportError", "ERROR", "SyntaxError"))]
    return "import: " + (errors[0] if errors else output[-300:]).strip("E ").strip()
