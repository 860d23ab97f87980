"""Text from outside is fit to be stored, measured and cut without losing a word, or refused without being quoted."""

import sys
import unicodedata
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnemic.policy.text.shape import (
    MAX_PIECE_CHARS,
    clean_text,
    clip_text,
    count_tokens,
    display_name,
    fit,
    pieces,
    require_text,
    search_text,
    strip_recalled,
)
from mnemic.state.errors import InvalidInputError

#: Every code point, lone surrogates included.
ANY_TEXT = st.text(st.characters())


@pytest.mark.parametrize(
    ("text", "cleaned"),
    [
        ("a\x00b\ud800c\u202ed\u200be\ufefff\u00adg\x1b[31m", "abcdefg[31m"),
        ("می\u200cخواهم\t👩\u200d🚀\nb", "می\u200cخواهم\t👩\u200d🚀\nb"),
        ("  a\r\nb\rc\u2028d\x0ce\x85f \n\n", "a\nb\nc\nd\ne\nf"),
        ("Tromso\u0308", "Troms\u00f6"),
        ("e" + "\u0301" * 500, "\u00e9" + "\u0301" * 29),
    ],
)
def test_what_hides_or_breaks_is_removed_and_spellings_are_one(text: str, cleaned: str) -> None:
    assert clean_text(text) == cleaned


def test_every_format_control_and_surrogate_character_of_unicode_is_removed() -> None:
    unwanted = [
        chr(code)
        for code in range(sys.maxunicode + 1)
        if unicodedata.category(chr(code)) in ("Cc", "Cf", "Cs") and chr(code) not in "\n\t\u200c\u200d"
    ]
    assert clean_text("".join(unwanted)) == ""


@given(ANY_TEXT)
def test_cleaning_is_idempotent_and_can_be_stored(text: str) -> None:
    cleaned = clean_text(text)
    assert clean_text(cleaned) == cleaned == cleaned.strip()
    assert unicodedata.is_normalized("NFC", cleaned)
    assert b"\x00" not in cleaned.encode()


@given(st.text(st.characters(categories=("L", "Nd")), min_size=1))
def test_letters_and_digits_survive(text: str) -> None:
    assert clean_text(text) == unicodedata.normalize("NFC", text)


@pytest.mark.parametrize("text", ["", "  \n", "\x00\u202e", "\u200d \u00a0\u200c"])
def test_what_nobody_sees_is_empty(text: str) -> None:
    with pytest.raises(InvalidInputError, match="the memory's content is empty"):
        require_text(text, what="the memory's content")


def test_a_long_text_is_refused_by_its_bytes_without_being_quoted() -> None:
    assert require_text("é" * 4096, what="content") == "é" * 4096
    with pytest.raises(InvalidInputError, match="content has 8194 bytes, at most 8192") as caught:
        require_text("é" * 4097, what="content")
    assert "é" not in str(caught.value)


def test_clipping_prefers_a_word_end() -> None:
    assert clip_text("Marit cycles to the harbour", 21) == "Marit cycles to the…"
    assert clip_text("Marit cycles to the harbour", 27) == "Marit cycles to the harbour"
    assert clip_text("Rindfleischetikettierung", 8) == "Rindfle…"


@given(st.text(), st.integers(min_value=0, max_value=50))
def test_a_clipped_text_fits_and_begins_as_the_text_does(text: str, limit: int) -> None:
    clipped = clip_text(text, limit)
    assert len(clipped) <= limit
    assert clipped == text or text.startswith(clipped.removesuffix("…"))


def test_recalled_blocks_are_removed() -> None:
    text = 'Hi <MemoryContext agent="a"><UserMemory>Ana likes tea</UserMemory></MemoryContext> what now?'
    assert strip_recalled(text) == "Hi   what now?"
    assert strip_recalled("before\n<memorycontext>\nunclosed, to the end") == "before"
    assert strip_recalled("a <MemoryContext>b <MemoryContext>c</MemoryContext> d</MemoryContext> e") == "a   e"
    assert strip_recalled("a <MemoryContext/> b") == "a   b"
    assert strip_recalled("  a <MemoryContextual> b <Memory>\n") == "  a <MemoryContextual> b <Memory>\n"


@given(
    st.lists(st.sampled_from(["<MemoryContext>", "</MemoryContext>", "<Memory", "Context", "<", "/", ">", "a ", "\n"]))
)
def test_no_block_is_left_and_none_arises_from_the_rest(parts: list[str]) -> None:
    stripped = strip_recalled("".join(parts))
    assert "<MemoryContext>" not in stripped
    assert strip_recalled(stripped) == stripped


def test_date_and_subject_stand_in_front() -> None:
    dated = datetime(2026, 5, 8, 23, 30, tzinfo=UTC)
    assert search_text(dated, "Mara", "Mara moved to Oslo.") == "[8 May 2026] Mara: Mara moved to Oslo."
    assert search_text(dated, "", "The team moved.") == "[8 May 2026] The team moved."


def test_paragraphs_are_cut_before_sentences_and_sentences_before_words() -> None:
    long = "a" * 700
    assert pieces(f"{long}. Two\n\n{long}.") == [f"{long}. Two", f"{long}."]
    assert pieces(f"{long} saw Dr. Lopes. Then {long}") == [f"{long} saw Dr. Lopes.", f"Then {long}"]
    assert pieces(f"{long} beta {long}") == [f"{long} beta", long]
    assert pieces("b" * 2100 + " c") == ["b" * 1000, "b" * 1000, "b" * 100 + " c"]
    assert pieces("  Mara moved.\n\nLiv stayed. ") == ["Mara moved.\n\nLiv stayed."]
    assert pieces(" \n") == []


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
        ("jean-luc", "Jean Luc"),
        ("øystein", "Øystein"),
        ("Mara Lopes", "Mara Lopes"),
        ("MARA", "MARA"),
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
    assert display_name(name) == name


@pytest.mark.parametrize(
    ("text", "tokens"), [("", 0), ("a", 1), ("abcd", 1), ("abcde", 2), ("é" * 8, 2), ("👩" * 5, 2)]
)
def test_tokens_are_a_quarter_of_the_characters_rounded_up(text: str, tokens: int) -> None:
    assert count_tokens(text) == tokens


@given(st.lists(st.integers(0, 50)), st.integers(-5, 200))
def test_the_budget_holds_and_a_long_item_is_passed_over_for_smaller_ones(sizes: list[int], budget: int) -> None:
    ranked = list(enumerate(sizes))
    chosen = fit(ranked, tokens=lambda item: item[1], budget=budget)
    assert sum(size for _, size in chosen) <= max(0, budget)
    assert chosen == sorted(chosen)
    left = budget - sum(size for _, size in chosen)
    assert all(size > left for rank, size in ranked if (rank, size) not in chosen)
