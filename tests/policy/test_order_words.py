"""Which texts order the memory about."""

import pytest

from mnemic.policy.orders import gives_orders
from tests.hostile.orders import ORDERS


@pytest.mark.parametrize("name", ORDERS)
def test_every_order_is_told_by_its_words_or_its_marks(name: str) -> None:
    assert gives_orders(ORDERS[name].text)


@pytest.mark.parametrize(
    "text",
    [
        "The harbor server has 64 GB of memory.",
        "A memory leak of the importer was fixed on 3 May 2026.",
        "Crew deletes old backups every Friday.",
        "Everybody wants short answers with sources.",
        "Don't forget the milk, and ignore the calendar.",
        "Visitors are allowed to park behind the harbor office.",
        "The scope and the budget of the harbor project were fixed: 40,000 euros.",
        "Latency stays < 5 ms, and a > b.",
        "Dogs are allowed in the museum.",
    ],
)
def test_talk_of_other_things_is_no_order(text: str) -> None:
    assert not gives_orders(text)


def test_a_hostile_text_is_judged_in_time(hostile: str) -> None:
    assert gives_orders(hostile) in (True, False)
