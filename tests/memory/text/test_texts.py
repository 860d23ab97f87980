"""Text from outside is fit to be stored, measured and cut; its details are found in one form, and are asked for."""

import sys
import unicodedata
from datetime import UTC, date, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnemic.memory.text.details import details, find_dates, find_numbers
from mnemic.memory.text.kept import missing_details
from mnemic.memory.text.retention import retention, wanted_share
from mnemic.memory.text.shape import (
    MAX_PIECE_CHARS,
    clean_text,
    clip_text,
    count_tokens,
    fit,
    pieces,
    require_text,
    search_text,
    strip_recalled,
)
from mnemic.state.errors import InvalidInputError
from mnemic.state.identity import display_name
from mnemic.state.times import MONTHS

# -- shape

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


def test_every_unicode_format_control_and_surrogate_character_is_removed() -> None:
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


@given(st.text(), st.integers(min_value=1, max_value=50))
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
    assert strip_recalled("  a <MemoryContextual> b <Memory>\n") == "a <MemoryContextual> b <Memory>"


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


# -- details


def test_all_details_of_a_sentence() -> None:
    found = details('Marit told Einar Hovde on 5 March 2026 that the 48 plates say "Mind the gap!", not "Stop".')
    assert found.names == ("Marit", "Einar", "Hovde")
    assert found.numbers == ("48",)
    assert found.dates == ("5 March 2026",)
    assert found.quoted == ("mind the gap", "stop")
    assert found.negated


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("Yesterday the team met. Running late is common.", ()),
        ("Then Ana and Liv's mother came to Berlin-based Moorbook.", ("Ana", "Liv", "Berlin", "Moorbook")),
        ("Harbour is the team. The Harbour team meets.", ("Harbour",)),
        ("I think I'm late, and I’ve no plan for Monday or Mondays in May.", ()),
        ("PLEASE STOP using NASA data on an iPhone.", ("NASA", "iPhone")),
        ("Will lives in Oslo. Hope moved.", ("Will", "Oslo", "Hope")),
        ("Will you come? Hope you do.", ()),
        ("Ana met ANA.", ("Ana",)),
    ],
)
def test_a_name_is_a_capital_that_its_place_does_not_explain(text: str, names: tuple[str, ...]) -> None:
    assert details(text).names == names


TURNED = """Ana is not allergic.|Ana doesn’t smoke.|ana dont smoke|Ana no longer flies.|tea without milk|no milk
neither tea nor milk|Ana stopped smoking.|Ana used to smoke.|Ana dislikes milk.|The meeting was cancelled."""
PLAIN = "Ana is allergic.|Ana notes a knot.|house no. 5|Ana wears a hat.|"


def test_a_turned_statement_is_negated_and_a_plain_one_is_not() -> None:
    assert [text for text in TURNED.replace("\n", "|").split("|") if not details(text).negated] == []
    assert [text for text in PLAIN.split("|") if details(text).negated] == []


@given(st.text())
def test_details_are_distinct_and_never_empty(text: str) -> None:
    found = details(text)
    for kind in (found.names, found.numbers, found.dates, found.quoted):
        assert len(set(kind)) == len(kind)
        assert all(kind)
    assert all(name in text for name in found.names)


@pytest.mark.parametrize(
    "written",
    [
        *("2026-03-05", "2026/3/5", "05/03/2026", "5.3.2026", "05/03/26"),
        *("5 March 2026", "5th of March, 2026", "5. Mar 2026", "March 5, 2026", "march 5th 2026", "Mar. 5, 2026"),
    ],
)
def test_a_day_has_one_form(written: str) -> None:
    assert find_dates(f"The pilot starts on {written}, they say.")[0] == ("5 March 2026",)


@pytest.mark.parametrize(
    ("text", "dates"),
    [
        ("due 3/25/2026", ("25 March 2026",)),
        ("on the 5th of March", ("5 March",)),
        ("in march 2026", ("March 2026",)),
        ("early in May, on Mondays and wednesday's", ("May", "Monday", "Wednesday")),
        ("wednesday 15 april", ("Wednesday", "15 April")),
        ("May I march on? You may.", ()),
        ("version 1.5.2, ratio 45/45/2026, at 10:30", ()),
        ("on March 5 and 5 March", ("5 March",)),
    ],
)
def test_dates_are_as_exact_as_written(text: str, dates: tuple[str, ...]) -> None:
    assert find_dates(text)[0] == dates


@given(st.dates(min_value=date(1000, 1, 1)), st.sampled_from(["{d} {m} {y}", "{m} {d}, {y}", "{iso}", "{d}/{n}/{y}"]))
def test_every_day_is_found_in_every_form(day: date, form: str) -> None:
    month = MONTHS[day.month - 1]
    written = form.format(d=day.day, m=month, y=day.year, iso=day.isoformat(), n=day.month)
    dates, rest = find_dates(f"Ana came on {written}.")
    assert dates == (f"{day.day} {month} {day.year}",)
    assert find_numbers(rest) == ()


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("2 cats, two cats, Twelve dogs", ("2", "12")),
        ("no one, the one, the latest one being his, one of them, one day, buy one in the future", ()),
        ("has one cat", ("1",)),
        ("1,000 berths, 1000 berths", ("1000",)),
        ("$5, 5 dollars, 5 USD", ("$5",)),
        ("3.50 euros and €3.5", ("€3.5",)),
        ("7pm, 7 p.m., 7 PM, 7 am", ("7pm", "7am")),
        ("6:00, 06:00, 6 o'clock, 9:30 and 09:30", ("6", "9:30")),
        ("5 %, 5 percent", ("5%",)),
        ("5kg, 5 kg", ("5kg",)),
        ("the 3rd", ("3",)),
        ("-5 degrees, 3-5 people", ("-5", "3", "5")),
        ("room b8 or 4b", ("b8", "4b")),
        ("version 1.5.2, 100 and 1.0", ("1.5.2", "100", "1")),
    ],
)
def test_numbers_have_one_form_with_their_unit(text: str, numbers: tuple[str, ...]) -> None:
    assert find_numbers(text) == numbers


@given(st.integers(0, 10**30))
def test_every_whole_number_is_found_grouped_or_not(number: int) -> None:
    assert find_numbers(f"It has {number} parts.") == find_numbers(f"It has {number:,} parts.") == (str(number),)


SOURCES = ["Ana met Liv on 5 March 2026 in Oslo.", 'Ana has 3 boats, one called "Old Tar".']


def test_what_is_missing_is_named_as_it_was_written() -> None:
    text = "Ana has three boats, one of them old, and met Liv in March."
    assert missing_details(SOURCES, text) == ("Oslo", "5 March 2026", "Tar", "old tar")


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("Ana came on 5 March.", "Ana came on 2026-03-05."),
        ("Ana came in 2026.", "Ana came on 5 March 2026."),
        ("Ana came on Mondays.", "Each monday ana comes."),
        ('The branch is "main".', "Main is the branch."),
        ("Ana has two cats.", "Ana: 2 cats"),
        ("Liv’s boat", "the boat of Liv"),
        ("nothing to keep", ""),
    ],
)
def test_a_detail_is_kept_in_another_form(source: str, text: str) -> None:
    assert missing_details([source], text) == ()
    assert retention([source], text).share == 1.0


@pytest.mark.parametrize(
    ("source", "text", "missing"),
    [
        ("Ana came on 5 March 2026.", "Ana came on 5 March.", "5 March 2026"),
        ("Ana has 5 cats.", "Ana has 15 cats, on 5 March.", "5"),
        ("We met Ana.", "We met Anatol.", "Ana"),
        ('They said "art".', "They started.", "art"),
    ],
)
def test_half_a_detail_is_missing(source: str, text: str, missing: str) -> None:
    assert missing in missing_details([source], text)


def test_the_share_counts_distinct_details() -> None:
    assert retention(["Ana met Liv.", "ANA met Liv and Teodor, Ana says."], "Ana").share == pytest.approx(1 / 3)


@pytest.mark.parametrize(
    ("source", "text", "missing"),
    [
        ("Ana pays Liv 40 euros on 9 May 2026.", "Ana zahlt Liv 40 Euro, und zwar schon am 9. Mai 2026.", ()),
        ("Ana deploys on Mondays.", "Ana stellt immer montags neu bereit.", ()),
        ("Ana deploys on Mondays with Bo.", "Ana deploys in the morning.", ("Monday", "Bo")),
        ("Ana sucht eine größere Wohnung.", "Ana is looking for a larger flat.", ()),
        ("Ana busca con su amiga un piso grande y barato en Bilbao.", "Ana is looking for a flat.", ("Bilbao",)),
    ],
)
def test_across_languages_names_numbers_and_dates_count(source: str, text: str, missing: tuple[str, ...]) -> None:
    assert set(retention([source], text).missing) == {*missing}


def test_what_has_ended_is_not_missed_and_no_more_is_asked_for_than_fits() -> None:
    sources = ["Ana met Liv in Oslo.", "Ana has 5 cats."]
    kept = retention(sources, "Ana sails.", ["Ana met Liv."])
    assert (kept.share, kept.missing) == (0.0, ("Oslo", "5"))
    assert (kept.lacking(0.5), kept.lacking(0.9)) == (("Oslo",), ("Oslo", "5"))
    assert (wanted_share(sources, 100), round(wanted_share(sources, 3), 3)) == (0.8, 0.333)


@given(st.lists(st.text() | st.sampled_from(SOURCES), max_size=4))
def test_a_text_keeps_itself(sources: list[str]) -> None:
    assert all(missing_details([source], source) == () for source in sources)
