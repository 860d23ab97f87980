"""The check for plain language counts dialect and folded code as its limits mean them."""

from pathlib import Path

import pytest

from tests.support.plain_check import LIMITS, Counts, count_checkout, main

ROOT = Path(__file__).parents[1]

MODULE = '''"""Return what somebody said."""

NAMES = [name for name in "ab"]
NESTED = [[letter for letter in name] for name in NAMES]
#: Whose name it is.
FIRST = NAMES[0] if NAMES else "what"
'''


def test_a_module_is_counted_by_its_docstrings_comments_and_expressions() -> None:
    counts = Counts()

    counts.add_module("module.py", MODULE)

    assert (counts.prose_dialect, counts.prose_words) == (4, 8)
    assert (counts.comprehensions, counts.nested, counts.conditionals, counts.lines) == (3, 1, 1, 6)
    assert [(place.line, place.hits) for place in counts.places] == [(1, 3), (5, 1), (4, 2)]


def test_sql_is_counted_by_its_comments_alone() -> None:
    counts = Counts()

    counts.add_sql("query.sql", "-- what it asks\nselect 'what';\n")

    assert (counts.prose_dialect, counts.prose_words) == (2, 3)


def test_a_page_is_counted_without_its_code_blocks() -> None:
    counts = Counts()

    counts.add_page("docs/page.md", "Plain.\n\n```sh\necho what\n```\n\nWhat stands here.\n")

    assert (counts.page_dialect, counts.page_words) == (2, 4)
    assert [place.line for place in counts.places] == [7]


def test_the_whole_checkout_is_counted() -> None:
    counts = count_checkout(ROOT)

    assert set(counts.figures()) == set(LIMITS)
    assert counts.prose_words > 10_000
    assert counts.page_words > 10_000
    assert counts.lines > 10_000


def test_a_figure_above_its_limit_ends_the_check_with_1(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    high = dict.fromkeys(LIMITS, 1000.0)
    monkeypatch.setattr("tests.support.plain_check.LIMITS", high)
    assert main(["--worst", "1"]) == 0

    monkeypatch.setattr("tests.support.plain_check.LIMITS", {**high, "dialect in pages": -1.0})
    assert main([]) == 1

    assert "dialect in pages" in capsys.readouterr().out
