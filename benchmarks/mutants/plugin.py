"""pytest plugin: runs the tests of a list only, and writes down how each test ended and how long it took."""

import json
import os
from pathlib import Path

import pytest

TESTS, REPORT = "MUTANTS_TESTS", "MUTANTS_REPORT"


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keeps what is listed, in the order of the list."""
    if TESTS in os.environ:
        places = {test: place for place, test in enumerate(json.loads(Path(os.environ[TESTS]).read_text()))}
        config.hook.pytest_deselected(items=[item for item in items if item.nodeid not in places])
        items[:] = sorted((item for item in items if item.nodeid in places), key=lambda item: places[item.nodeid])


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """One line for each phase of a test; with workers, their master alone writes."""
    if "PYTEST_XDIST_WORKER" not in os.environ:
        with Path(os.environ[REPORT]).open("a") as file:
            file.write(json.dumps([report.nodeid, report.outcome, report.duration]) + "\n")
