"""The example conversations, formed without a model and held against what a careful reader wants remembered."""

import pytest

from benchmarks.corpus.forming import form_corpus
from benchmarks.corpus.report import make_report
from tests.support.server import Clone


@pytest.mark.thorough
async def test_offline_rules_keep_little_of_long_free_text_and_fall_into_no_trap(fresh_db: Clone) -> None:
    report = make_report(await form_corpus(database_url=fresh_db.service_dsn))
    assert report.rows[-1].expected >= 60
    assert report.rows[-1].found >= 1
    assert report.trapped == ()
    assert len(report.unlisted) <= 1
    assert report.first_pass_share == 1
