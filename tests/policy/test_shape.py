"""What is indexed carries date and subject, long text is cut without losing a word, and speakers have names."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnemic.policy.text.shape import MAX_PIECE_CHARS, display_name, pieces, search_text

MAY = datetime(2026, 5, 8, 23, 30, tzinfo=UTC)


def test_date_and_subject_stand_in_front() -> None:
    assert search_text(MAY, "Mara", "Mara moved to Oslo.") == "[8 May 2026] Mara: Mara moved to Oslo."
    assert search_text(MAY, "", "The team moved.") == "[8 May 2026] The team moved."


def test_a_short_text_is_one_piece_and_nothing_is_none() -> None:
    assert pieces("  Mara moved.\n\nLiv stayed. ") == ["Mara moved.\n\nLiv stayed."]
    assert pieces(" \n") == []


def test_paragraphs_are_cut_before_sentences_and_sentences_before_words() -> None:
    long = "a" * 700
    assert pieces(f"{long}. Two\n\n{long}.") == [f"{long}. Two", f"{long}."]
    assert pieces(f"{long} saw Dr. Lopes. Then {long}") == [f"{long} saw Dr. Lopes.", f"Then {long}"]
    assert pieces(f"{long} beta {long}") == [f"{long} beta", long]
    assert pieces("b" * 2100 + " c") == ["b" * 1000, "b" * 1000, "b" * 100 + " c"]


@given(st.lists(st.text(st.sampled_from("aB1 .!?\n\té\u00a0"), min_size=1, max_size=80), max_size=90))
def test_pieces_are_short_never_empty_and_hold_every_word(parts: list[str]) -> None:
    text = "".join(parts)
    found = pieces(text)
    assert all(piece and piece == piece.strip() and len(piece) <= MAX_PIECE_CHARS for piece in found)
    assert "".join("".join(found).split()) == "".join(text.split())
    if all(len(word) <= MAX_PIECE_CHARS for word in text.split()):
        assert " ".join(found).split() == text.split()


@pytest.mark.parametrize(
    ("author", "name"),
    [
        ("mara", "Mara"),
        ("mara.lopes", "Mara Lopes"),
        ("mara_lopes", "Mara Lopes"),
        ("jean-luc", "Jean Luc"),
        ("øystein", "Øystein"),
        ("Mara", "Mara"),
        ("Mara Lopes", "Mara Lopes"),
        ("MARA", "MARA"),
        ("ana2", "ana2"),
        ("marit1987", "marit1987"),
        ("mara@example.com", "mara@example.com"),
        ("3f2a9c1e-1111-4222-8333-444455556666", "User 3f2a9c1e"),
        ("507f1f77bcf86cd799439011", "User 507f1f77"),
        ("4711081512", "User 47110815"),
        ("..", ".."),
        ("", ""),
    ],
)
def test_an_id_becomes_a_name_only_where_it_is_one(author: str, name: str) -> None:
    assert display_name(author) == name


@given(st.text())
def test_a_name_is_shown_as_itself(author: str) -> None:
    assert display_name(display_name(author)) == display_name(author)
