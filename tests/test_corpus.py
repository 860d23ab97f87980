"""The example conversations, formed by the offline rules and held against what a careful reader wants remembered."""

import pytest

from benchmarks.corpus.forming import form_corpus
from benchmarks.corpus.report import Report, make_report
from tests.support.server import Clone


@pytest.fixture
async def report(fresh_db: Clone) -> Report:
    return make_report(await form_corpus(database_url=fresh_db.service_dsn))


async def test_the_offline_rules_carry_the_example_conversations(report: Report) -> None:
    everything = report.rows[-1]
    assert everything.expected >= 60
    assert everything.found >= 0.25 * everything.expected
    assert report.wrong_share <= 0.06
    assert report.first_pass_share >= 0.95


async def test_what_changed_is_current_once_and_still_readable(report: Report) -> None:
    # the plan to deploy on 28 April is no fact that "live since 19 May" contradicts, so rules leave both
    still_open = {(old.id, new.id) for old, new, closed in report.changes() if not closed}
    assert still_open <= {("F141", "F191")}
    assert len(report.changes()) - len(still_open) >= 4
