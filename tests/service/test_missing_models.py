"""Without a model the offline rules work in its place: one warning names them, and the way to a model."""

import logging
from collections.abc import Iterator
from typing import Any

import pytest

from mnemic import Mnemic, Settings
from mnemic.models import missing
from tests.support.server import Clone


@pytest.fixture(autouse=True)
def _new_process() -> Iterator[None]:
    was_reported = missing.reported.is_set()
    missing.reported.clear()
    yield
    missing.reported.clear()
    if was_reported:
        missing.reported.set()


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({}, ["MNEMIC_FAST_MODEL, MNEMIC_SLOW_MODEL, MNEMIC_AGENT_MODEL", "MNEMIC_API_KEY"]),
        ({"api_key": "a"}, []),
        ({"fast_model": "openai:gpt-5-mini"}, ["MNEMIC_SLOW_MODEL, MNEMIC_AGENT_MODEL"]),
        (dict.fromkeys(("fast_model", "slow_model", "agent_model"), "offline"), []),
    ],
)
async def test_a_missing_model_is_reported_once(
    clean_db: Clone, caplog: pytest.LogCaptureFixture, settings: dict[str, Any], named: list[str]
) -> None:
    for _ in range(2):
        async with Mnemic.open(database_url=clean_db.service_dsn, embedder="hash", settings=Settings(**settings)):
            pass
    records = [record for record in caplog.records if record.name == "mnemic"]

    assert [record.levelno for record in records] == [logging.WARNING] * bool(named)
    assert [part for part in named if part not in caplog.text] == []
