"""What asks and what tells, in any script, by marks and not by words."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnemic.memory.text.questions import spoken_sentences, without_questions

ASKING = [
    "Where do I live?",
    "where did I park?!",
    "“Where do I live?” 🙂",
    "Hm? And what does Dr. Kim say (again?)",
    "Where do I live?\nWhere does Bo live? 🤔",
    "¿Dónde vivo?",
    "أين أعيش؟",
    "我住在哪里？你知道吗？",
    "Πού μένω;",
    "Πού μένω\u037e",
    "???",
]


@pytest.mark.parametrize("text", ASKING)
def test_what_only_asks_tells_nothing(text: str) -> None:
    assert without_questions(text) == ""


@pytest.mark.parametrize(
    ("text", "telling"),
    [
        ("I live in Porto. Where do you live?", "I live in Porto."),
        ("i live in porto. where do you live?", "i live in porto."),
        ("Hi! Where do I live? Never mind.", "Hi! Never mind."),
        ("I live in Porto\nWhere do you live?", "I live in Porto"),
        ("我住在波尔图。你住在哪里？", "我住在波尔图。"),
        ("I live in Porto;", "I live in Porto;"),
        ("She asked 'why?'.", "She asked 'why?'."),
        ("where do i live", "where do i live"),
        ("  two  lines\n\nof it. ", "  two  lines\n\nof it. "),
        ("👍", "👍"),
        ("", ""),
    ],
)
def test_what_is_left_of_a_text_is_what_it_tells(text: str, telling: str) -> None:
    assert without_questions(text) == telling


@given(st.text(st.sampled_from("aB c.?!;\n？؟'\"é¿")))
def test_telling_loses_no_word_but_those_that_ask(text: str) -> None:
    assert "".join("".join(spoken_sentences(text)).split()) == "".join(text.split())
    left = without_questions(text)
    assert without_questions(left) == left
