"""What becomes a memory is complete, short, neutral and in the third person; no text hangs a rule."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnemic.memory.recall.heuristics import search_reason
from mnemic.memory.recall.turn_words import MAX_WORDS, look_up
from mnemic.memory.refinement.losses import lost_memories
from mnemic.memory.runtime.requests import load_requests
from mnemic.memory.text.bands import same_fact
from mnemic.memory.text.details import content_tokens
from mnemic.memory.text.retention import retention
from mnemic.memory.text.shape import clean_text, clip_text, pieces, strip_recalled
from mnemic.memory.text.sharing import has_contact_data, imitates_prompt, is_pasted
from mnemic.memory.text.words import QUOTED, is_common_word, sentences, words
from mnemic.memory.text.writing import Problem, Verdict, check_text, is_degenerate
from mnemic.state.identity import display_name
from mnemic.state.kinds import Kind

# -- memories, words and sentences

SENTENCE_KINDS: tuple[Kind, ...] = ("fact", "reflection", "episode", "insight")
OTHER_KINDS: tuple[Kind, ...] = ("consolidation", "core", "procedure", "journal")


def spelled(count: int) -> str:
    """So many different words."""
    return " ".join(f"Word{chr(97 + n // 26)}{chr(97 + n % 26)}" for n in range(count))


@pytest.mark.parametrize(
    "text",
    [
        "Marit prefers prices in euros.",
        'Teodor said "I will never deploy on a Friday!" in the retro.',
        "Teodor's grandfather fought in World War I and World War II.",
        "Marit read a life of Elizabeth I.",
        "Elizabeth I was the subject of Nkechi's talk.",
        "Phase I of the pilot ends in May.",
        "Marit moved to the US in 2021.",
        "Nkechi loves the film Call Me by Your Name.",
        "Teodor repairs the I/O board, i.e. the old one.",
        "Marit's uncle works in a gold mine.",
        "The check uses != in the filter.",
        "Dr. Lopes treats Marit at 5 p.m. on Mondays.",
        "Ihr and Weil are words that Iulian, Mehmet and Youssef study.",
    ],
)
@pytest.mark.parametrize("kind", SENTENCE_KINDS)
def test_a_good_sentence_passes_at_first(text: str, kind: Kind) -> None:
    assert check_text(text, kind=kind) == Verdict(text, None, False)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "empty"),
        (" \n\u200b", "empty"),
        ("I prefer tea.", "first_person"),
        ("Marit said I prefer tea.", "first_person"),
        ("In Oslo I was happy.", "first_person"),
        ("On Monday I was late.", "first_person"),
        ("Marit and I'm late.", "first_person"),
        ("Tea is what I’ve ordered.", "first_person"),
        ("My dog is old.", "first_person"),
        ("Marit wants your help.", "first_person"),
        ("The boat is mine.", "first_person"),
        ("Mine is the blue boat.", "first_person"),
        ("He likes tea.", "pronoun_start"),
        ("they're moving.", "pronoun_start"),
        ("Her mother is in Oslo.", "pronoun_start"),
        ("Great news! Marit won.", "not_neutral"),
        ("Marit won?!", "not_neutral"),
        ("tea " * 20, "degenerate"),
        (f"{spelled(36)}.", "too_long"),
    ],
)
def test_a_bad_sentence_is_refused_with_its_reason(text: str, problem: Problem) -> None:
    assert check_text(text, kind="reflection") == Verdict(None, problem, False)


@pytest.mark.parametrize(
    ("text", "kind", "trimmed"),
    [
        ("  Marit moved.\n", "fact", "Marit moved."),
        ("Marit\nmoved\u200b.", "fact", "Marit moved."),
        ("Marit won!!", "fact", "Marit won."),
        ("Marit moved. Liv stayed. Ana left.", "episode", "Marit moved. Liv stayed."),
        (f"Marit met Dr. Lopes. {spelled(30)}.", "fact", "Marit met Dr. Lopes."),
        (f"Marit moved. {'a' * 20 + 'b' * 20} {'c' * 20 + 'd' * 20} " + "E. " + "efgh " * 60, "insight", None),
        (f"Marit moved! {spelled(35)}", "reflection", "Marit moved."),
    ],
)
def test_what_is_safe_to_trim_is_trimmed(text: str, kind: Kind, trimmed: str | None) -> None:
    if trimmed is None:
        assert check_text(text, kind=kind).text is None
    else:
        assert check_text(text, kind=kind) == Verdict(trimmed, None, True)


@pytest.mark.parametrize(("kind", "words"), [("fact", 30), ("reflection", 35)])
def test_word_limits_hold_exactly(kind: Kind, words: int) -> None:
    assert check_text(spelled(words), kind=kind).text == spelled(words)
    assert check_text(spelled(words + 1), kind=kind).problem == "too_long"


@pytest.mark.parametrize("kind", ["fact", "episode", "insight"])
def test_character_limits_hold_exactly(kind: Kind) -> None:
    text = "Marit likes " + "".join(chr(97 + n % 26) for n in range(268))
    assert len(text) == 280
    assert check_text(text, kind=kind).text == text
    assert check_text(text + "x", kind=kind).problem == "too_long"


def test_a_given_word_limit_replaces_the_kinds_own() -> None:
    assert check_text(spelled(50), kind="reflection", max_words=50).text == spelled(50)
    assert check_text("Marit likes tea.", kind="fact", max_words=2).problem == "too_long"


@pytest.mark.parametrize("kind", OTHER_KINDS)
def test_whole_texts_keep_their_voice_and_lines_but_not_their_length(kind: Kind) -> None:
    text = "# Rules\nI never lie! You can count on it.\n\n- He is Einar."
    assert check_text(text, kind=kind, max_words=20) == Verdict(text, None, False)
    assert check_text(text, kind=kind, max_words=5) == Verdict(None, "too_long", False)
    assert check_text(" \n", kind=kind) == Verdict(None, "empty", False)
    assert check_text("and so on " * 30, kind=kind) == Verdict(None, "degenerate", False)
    assert check_text(f"{text}\n", kind=kind) == Verdict(text, None, True)


WRITTEN = st.lists(
    st.sampled_from(
        ["Marit", "likes", "tea", "I", "World War", "us", '"', "!", ".", ". Dr.", "\n", " he", "\u202e", "…"]
    ),
    max_size=60,
).map(" ".join)


@given(WRITTEN | st.text(), st.sampled_from(SENTENCE_KINDS + OTHER_KINDS))
def test_what_is_accepted_is_accepted_again_unchanged(text: str, kind: Kind) -> None:
    verdict = check_text(text, kind=kind)
    assert (verdict.text is None) == (verdict.problem is not None)
    if verdict.text is not None:
        assert verdict.trimmed == (verdict.text != text)
        assert check_text(verdict.text, kind=kind) == Verdict(verdict.text, None, False)
        assert kind != "fact" or (0 < len(verdict.text) <= 280 and len(verdict.text.split()) <= 30)


@pytest.mark.parametrize(
    "text",
    [
        "tea " * 50,
        "Marit likes tea. " * 3,
        "Marit likes tea.\nAna is here.\nMarit likes tea.\nLiv is there.\nmarit likes tea",
        "the user the user the user the user",
        "a" * 40,
        " ".join(["red", "blue", "green", "grey"][n % 4 - n % 3] for n in range(60)),
    ],
)
def test_a_loop_is_degenerate(text: str) -> None:
    assert is_degenerate(text)


def test_ordinary_text_is_not() -> None:
    texts = [
        "",
        "Marit is very, very, very tired.",
        "No. No. No. Marit said no.",
        "| a | b |\n|-----------------------------------|---|\n| 0 0 0 0 0 0 0 0 |",
        "Run 1 took 5 minutes. Run 2 took 5 minutes. Run 3 took 5 minutes.",
        "他喜欢喝茶。她喜欢喝咖啡。",
    ]
    assert [text for text in texts if is_degenerate(text)] == []


@given(st.text(st.sampled_from("abcdefgh"), min_size=2, max_size=6), st.integers(6, 60))
def test_one_word_over_and_over_always_is(word: str, times: int) -> None:
    assert is_degenerate(f"{word} " * times)


# -- words


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


def test_quotations_are_found_and_apostrophes_are_none() -> None:
    text = "Ana's cat “is mine”, \"yes\", 'well', don't «no» `x`"
    assert QUOTED.sub(" ", text).split() == ["Ana's", "cat", ",", ",", ",", "don't"]


@given(st.text())
def test_sentences_hold_everything(text: str) -> None:
    assert "".join("".join(sentences(text)).split()) == "".join(text.split())


@given(st.text())
def test_words_stand_where_they_say(text: str) -> None:
    assert all(text[word.start :].startswith(word.text) for word in words(text))


def test_common_words_are_known_in_their_inflections() -> None:
    said = ["Yesterday", "running", "Stopped", "Parties", "Don't", "QUICKLY"]
    names = ["Marit", "Teodor", "Skagvik", "Mark", "Rose", "James", "Parker", "Nkechi"]
    assert [word for word in said + names if is_common_word(word)] == said


# -- texts that are made to hang a rule

#: Texts of 20,000 characters that a careless pattern would take hours for.
HOSTILE = {
    **{sign: sign * 20_000 for sign in ("a", "A", "1", " ", "\n", "“", "-", "<")},
    **{sign: sign * 19_999 for sign in ('"', "`")},
    **{part: part * (20_000 // len(part)) for part in ("a'", "a@", "1,000,", "1 ", "1/1/", "1.1.1.1", "> ", "I ")},
    **{part: part * (20_000 // len(part)) for part in ("<MemoryContext ", "<MemoryContext>", "</MemoryContext")},
    **{part: part * (20_000 // len(part)) for part in ("what ", "World War I ", "12 a b c ", "no one ")},
    "dots": "." * 20_000 + "a",
    "exclamations": "!" * 20_000 + "a",
    "closing apostrophes": "‘" + "’a" * 10_000,
}
RULES: dict[str, Callable[[str], bool]] = {
    "cleaning": lambda text: clean_text(text) == clean_text(clean_text(text)),
    "recalled blocks": lambda text: "<MemoryContext" not in strip_recalled(text),
    "clipping": lambda text: len(clip_text(text, 100)) <= 100 and len(display_name(text)) <= len(text),
    "comparison": lambda text: same_fact(text, text) and retention([text], text).share == 1.0,
    "writing": lambda text: check_text(text, kind="fact").text is None and is_degenerate(text) in (True, False),
    "sharing": lambda text: is_pasted(text) and has_contact_data(text) in (True, False),
    "orders": lambda text: imitates_prompt(text) in (True, False) and len(content_tokens(text)) >= 0,
    "losses": lambda text: len(lost_memories([text, "Ana"], text)) == 2,
    "search": lambda text: search_reason(text, text, requests=load_requests()) != "asked",
    "words to count": lambda text: len(getattr(look_up(text), "content", ())) <= MAX_WORDS,
    "pieces": lambda text: max(map(len, pieces(text)), default=0) <= 1000,
    "sentences": lambda text: "".join("".join(sentences(text)).split()) == "".join(text.split()),
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=map(repr, HOSTILE))
def test_every_rule_comes_back(text: str) -> None:
    assert [name for name, holds in RULES.items() if not holds(text)] == []
