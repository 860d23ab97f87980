"""Text from outside is fit to be stored, or refused without being quoted."""

import sys
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnemic.policy.text.shape import clean_text, clip_text, require_text, strip_recalled
from mnemic.state.errors import InvalidInputError

#: Every code point, lone surrogates included.
ANY_TEXT = st.text(st.characters())


def test_everything_that_hides_or_breaks_is_removed() -> None:
    assert clean_text("a\x00b\ud800c\u202ed\u200be\ufefff\u00adg\x1b[31m") == "abcdefg[31m"


def test_joiners_tabs_and_newlines_stay() -> None:
    assert clean_text("می\u200cخواهم\t👩\u200d🚀\nb") == "می\u200cخواهم\t👩\u200d🚀\nb"


def test_line_ends_become_newlines_and_outer_blanks_go() -> None:
    assert clean_text("  a\r\nb\rc\u2028d\x0ce\x85f \n\n") == "a\nb\nc\nd\ne\nf"


def test_composed_and_decomposed_spellings_are_one() -> None:
    assert clean_text("Tromso\u0308") == clean_text("Troms\u00f6")


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


@pytest.mark.parametrize("text", ["", "  \n", "\x00\u202e", "\u200d\u200c", "\u200d \u00a0\u200c"])
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


def test_a_text_without_blocks_stays_as_it_is() -> None:
    assert strip_recalled("  a <MemoryContextual> b <Memory>\n") == "  a <MemoryContextual> b <Memory>\n"


@given(
    st.lists(st.sampled_from(["<MemoryContext>", "</MemoryContext>", "<Memory", "Context", "<", "/", ">", "a ", "\n"]))
)
def test_no_block_is_left_and_none_arises_from_the_rest(parts: list[str]) -> None:
    stripped = strip_recalled("".join(parts))
    assert "<MemoryContext>" not in stripped
    assert strip_recalled(stripped) == stripped


@given(ANY_TEXT, ANY_TEXT)
def test_nothing_recalled_is_ever_left(inner: str, after: str) -> None:
    inner = inner.replace("<", "")
    assert strip_recalled(f"<MemoryContext>{inner}</MemoryContext>{after}") == strip_recalled(f" {after}").strip()
