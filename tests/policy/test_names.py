"""Speakers are called by a readable name."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnemic.policy.text.names import display_name


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


@given(st.uuids())
def test_a_uuid_is_shown_by_its_first_eight_characters(author: object) -> None:
    assert display_name(str(author)) == f"User {str(author)[:8]}"


@given(st.text())
def test_a_name_is_shown_as_itself(author: str) -> None:
    assert display_name(display_name(author)) == display_name(author)
