"""What is indexed carries date and subject, and long text is cut without losing a word."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnemic.policy.text.search_text import pieces, search_text
from mnemic.state.errors import InvalidInputError

MAY = datetime(2026, 5, 8, 23, 30, tzinfo=UTC)


def test_date_and_subject_stand_in_front() -> None:
    assert search_text(MAY, "Mara", "Mara moved to Oslo.") == "[8 May 2026] Mara: Mara moved to Oslo."
    assert search_text(MAY, "", "The team moved.") == "[8 May 2026] The team moved."


def test_a_short_text_is_one_piece() -> None:
    assert pieces("  Mara moved.\n\nLiv stayed. ") == ["Mara moved.\n\nLiv stayed."]


def test_paragraphs_are_cut_before_sentences_and_sentences_before_words() -> None:
    assert pieces("One two. Three\n\nfour five.", 20) == ["One two. Three", "four five."]
    assert pieces("Mara saw Dr. Lopes. Then Liv came.", 25) == ["Mara saw Dr. Lopes.", "Then Liv came."]
    assert pieces("alpha beta gamma", 11) == ["alpha beta", "gamma"]
    assert pieces("abcdefgh ij", 4) == ["abcd", "efgh", "ij"]


@pytest.mark.parametrize("text", ["", "   ", "\n\n"])
def test_nothing_has_no_pieces(text: str) -> None:
    assert pieces(text) == []


def test_a_piece_has_at_least_one_character() -> None:
    with pytest.raises(InvalidInputError):
        pieces("a", 0)


@given(st.text(st.sampled_from("aB1 .!?\n\té\u00a0"), max_size=400), st.integers(1, 60))
def test_pieces_are_short_never_empty_and_hold_everything(text: str, limit: int) -> None:
    found = pieces(text, limit)
    assert all(piece and piece == piece.strip() and len(piece) <= limit for piece in found)
    assert "".join("".join(found).split()) == "".join(text.split())


@given(st.lists(st.text(st.sampled_from("abc."), min_size=1, max_size=12), max_size=60), st.integers(12, 40))
def test_no_word_is_cut_that_fits_a_piece(words: list[str], limit: int) -> None:
    assert " ".join(pieces(" ".join(words), limit)).split() == words
