"""Words and sentences are found where a reader sees them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnemic.policy.text.words import is_common_word, sentences, without_quotes, words


def test_a_word_knows_whether_a_sentence_begins_with_it() -> None:
    text = 'Ana met Dr. Lopes. Then she said: "Go home" (Liv stayed)\nLate again'
    assert [word.text for word in words(text) if word.initial] == ["Ana", "Lopes", "Then", "Go", "Late"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Ana left. Liv stayed! Why? Nobody knows…", ["Ana left.", "Liv stayed!", "Why?", "Nobody knows…"]),
        ("Ana met Dr. Lopes at 5 p.m. in St. Gallen.", ["Ana met Dr. Lopes at 5 p.m. in St. Gallen."]),
        ("J. K. Berg pays approx. 3.50 euros.", ["J. K. Berg pays approx. 3.50 euros."]),
        ('Ana said "No." Liv left.', ['Ana said "No."', "Liv left."]),
        ("Ana lives at no. 5.", ["Ana lives at no. 5."]),
        ("没有。好", ["没有。", "好"]),
        ("no end", ["no end"]),
        ("", []),
    ],
)
def test_sentences_end_where_a_reader_ends_them(text: str, expected: list[str]) -> None:
    assert sentences(text) == expected


def test_quotations_are_blanked_and_apostrophes_are_none() -> None:
    text = "Ana's cat “is mine”, \"yes\", 'well', don't «no» `x`"
    assert without_quotes(text).split() == ["Ana's", "cat", ",", ",", ",", "don't"]
    assert len(without_quotes(text)) == len(text)


@given(st.text())
def test_sentences_hold_everything(text: str) -> None:
    assert "".join("".join(sentences(text)).split()) == "".join(text.split())


@given(st.text())
def test_words_stand_where_they_say(text: str) -> None:
    assert all(text[word.start :].startswith(word.text) for word in words(text))


@pytest.mark.parametrize("word", ["Yesterday", "running", "Stopped", "Parties", "Don't", "QUICKLY", "using"])
def test_common_words_are_known_in_their_inflections(word: str) -> None:
    assert is_common_word(word)


@pytest.mark.parametrize("word", ["Marit", "Teodor", "Skagvik", "Mark", "Rose", "James", "Parker", "Nkechi"])
def test_names_are_not_common_words(word: str) -> None:
    assert not is_common_word(word)
