"""Every way in which an endpoint fails is told in one line that says what to do, in time, and nothing is lost."""

import re
from pathlib import Path

import pytest

from benchmarks.endpoint_faults.faults import FAULTS
from benchmarks.endpoint_faults.trying import trials
from tests.support.server import Clone

PAGE = Path(__file__).parents[2] / "docs" / "endpoint_faults.md"


@pytest.mark.thorough
async def test_whatever_an_endpoint_does_is_told_and_nothing_is_lost(worker_db: Clone) -> None:
    found = [trial async for trial in trials(database_url=worker_db.service_dsn)]
    assert len(found) == len(FAULTS) >= 40
    assert {trial.fault.name: trial.problems for trial in found if trial.problems} == {}


def test_the_page_has_a_row_for_each_fault() -> None:
    names = re.findall(r"^\| ([^|]+) \| \d+ \| \S", PAGE.read_text(), re.MULTILINE)
    assert names == [fault.name for fault in FAULTS]
