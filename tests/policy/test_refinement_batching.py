"""A long ledger is cut into batches that hold everything once, similar memories together."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnemic.policy.refinement import batches
from mnemic.state.refinement import LedgerEntry
from tests.support.ledgers import entry, ledger, tokens_of

WORDS = ("kayak", "fjord", "violin", "bow", "deadline", "release", "garden", "tulip", "the", "of", "Ølen", "日本")
TEXTS = st.lists(st.sampled_from(WORDS), max_size=30).map(" ".join)
ENTRIES = st.lists(st.tuples(TEXTS, st.sampled_from(["ana", "bo", None])), max_size=40).map(
    lambda rows: tuple(entry(place, text, subject_user_id=who) for place, (text, who) in enumerate(rows, start=1))
)


def problems(entries: tuple[LedgerEntry, ...], found: list[tuple[LedgerEntry, ...]], tokens: int) -> list[str]:
    """What a caller would trip over."""
    flaws = []
    if Counter(entry.handle for batch in found for entry in batch) != Counter(entry.handle for entry in entries):
        flaws.append("not every entry once")
    if any(tokens_of(batch) > tokens and len(batch) > 1 for batch in found):
        flaws.append("too long")
    if not all(found):
        flaws.append("empty")
    if any(list(batch) != sorted(batch, key=lambda entry: entry.handle) for batch in found):
        flaws.append("out of order")
    return flaws


@given(ENTRIES, st.integers(min_value=0, max_value=200))
def test_every_entry_stands_in_one_batch_and_no_batch_is_too_long(
    entries: tuple[LedgerEntry, ...], tokens: int
) -> None:
    found = batches(entries, tokens=tokens)
    assert problems(entries, found, tokens) == []
    assert batches(entries, tokens=tokens) == found


def test_the_check_itself_sees_what_is_wrong() -> None:
    entries = ledger("one kayak on the fjord", "two", "three")
    first, second, third = entries
    assert problems(entries, [(first,), (second,)], 1) == ["not every entry once"]
    assert problems(entries, [entries], 3) == ["too long"]
    assert problems(entries, [(), (first, third, second)], 99) == ["empty", "out of order"]


def test_what_fits_is_one_batch() -> None:
    entries = ledger("a", "b", "c")
    assert batches(entries, tokens=3) == [entries]
    assert batches((), tokens=3) == []


def test_what_is_longer_than_a_batch_stands_alone() -> None:
    entries = ledger("short", "long " * 100, "short too")
    assert [[entry.handle for entry in batch] for batch in batches(entries, tokens=20)] == [[1, 3], [2]]


def test_similar_ones_stand_together() -> None:
    entries = ledger(
        "Mara paddles a red kayak on the fjord.",
        "Mara plays the violin in a quartet.",
        "Mara bought a second kayak.",
        "Mara had the violin repaired by Bo.",
        "Mara crossed the fjord with the kayak.",
        "Mara tunes the violin before each quartet.",
    )
    found = batches(entries, tokens=tokens_of(entries) // 2 + 2)
    assert [[entry.handle for entry in batch] for batch in found] == [[1, 3, 5], [2, 4, 6]]


def test_the_same_person_comes_before_the_same_words() -> None:
    entries = (
        entry(1, "The kayak is red.", subject_user_id="ana"),
        entry(2, "The kayak is red!", subject_user_id="bo"),
        entry(3, "A violin teacher.", subject_user_id="ana"),
        entry(4, "A violin teacher?", subject_user_id="bo"),
    )
    assert [[entry.handle for entry in batch] for batch in batches(entries, tokens=10)] == [[1, 3], [2, 4]]


@pytest.mark.parametrize("tokens", [300, 12_000])
def test_a_ledger_of_2000_is_cut(tokens: int) -> None:
    entries = ledger(*(f"Mara {WORDS[place % 8]} number {place} with {WORDS[place % 7]}" for place in range(2000)))
    assert problems(entries, batches(entries, tokens=tokens), tokens) == []
