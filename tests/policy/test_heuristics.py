"""A search happens for messages that ask for the past, and rarely for others."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnemic.policy.recall.heuristics import candidate_names, search_reason, unknown_names
from mnemic.policy.text.words import WORD
from mnemic.state.records import Standing
from tests.support.worlds import remembered


@pytest.mark.parametrize(
    "message",
    [
        "Remember when we met Einar?",
        "do you remember the name of the harbour",
        "Do you recall my flight number?",
        "don’t you remember?",
        "What did I say about Fridays?",
        "have I ever told you about Cluj",
        "did we book the boat",
        "What was that restaurant",
        "You told me it closes at ten.",
        "We discussed the budget in March.",
        "the place we talked about",
        "as I said, no meetings",
        "Last time we chose the small boat.",
        "remind me what the pilot costs",
        "In our last conversation it was 310.",
    ],
)
def test_a_recall_phrase_is_enough(message: str) -> None:
    assert search_reason(message) == "phrase"


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        ("where did teodor move", "past_question"),
        ("Who said Tuesdays only?", "past_question"),
        ("Which of the two restaurants was it?", "past_question"),
        ("Thanks. And what was the price", "past_question"),
        ("do you know what the plan was?", "past_question"),
        ("Why didn't Einar answer?", "past_question"),
        ("where do I live?", "own_question"),
        ("What’s my name?", "own_question"),
        ("Do I drink coffee?", "own_question"),
        ("On which days do we deploy?", "own_question"),
        ("Hi! When is our next race?", "own_question"),
        ("do you know my shoe size?", "own_question"),
    ],
)
def test_a_question_about_the_past_or_ones_own_affairs_is_enough(message: str, reason: str) -> None:
    assert search_reason(message) == reason


@pytest.mark.parametrize(
    "message",
    [
        "",
        "What should I cook for my mother?",
        "How do I install it?",
        "what do you think of my poem?",
        "I know where my keys are.",
        "What is the capital of Ghana?",
        "When I was young I had a dog.",
        "I was at the place where he had lunch.",
        "Somewhat late, the hadron washed ashore, whatever.",
        "Remember that I like tea.",
        "Please remember to send the minutes.",
        "What if the server was down?",
        "It explains the phone",
        "Translate this from English to French.",
        "CAN YOU WRITE SQL AND JSON?",
        "Tuesdays it is. Fridays I'm in the studio.",
        "Marit left. Teodor stayed. Nkechi slept.",
    ],
)
def test_advice_the_world_and_ordinary_messages_are_not_searched_for(message: str) -> None:
    assert search_reason(message) is None
    assert search_reason(message, always=True) == "asked"


NAMES = "I think that Sunniva Berg saw Einar with Agnete in New York."


@pytest.mark.parametrize(
    ("known", "reason"), [((), "names"), (("Sunniva is Einar Hovde's deputy.",), "names"), ((NAMES,), None)]
)
def test_two_names_that_the_standing_memory_does_not_know_are_a_reason(
    known: Sequence[str], reason: str | None
) -> None:
    standing = [
        Standing(scope_key="user:ana", reflections=tuple(remembered(text, kind="reflection") for text in known))
    ]
    assert search_reason(NAMES, standing) == reason
    assert search_reason("I think that Einar left.", standing) is None


def test_names_are_candidates_within_sentences_and_adjacent_ones_are_one() -> None:
    message = "Yesterday I met Sunniva Berg in New York, and Jean-Luc at NASA in May. Einar's there, einar!"
    assert candidate_names(message) == ("Sunniva Berg", "New York", "Jean Luc")


def test_names_that_the_standing_memory_knows_are_no_reason() -> None:
    names = candidate_names(NAMES)
    assert unknown_names(names, "einar hovde's deputy is SUNNIVA.") == ("Agnete", "New York")
    assert unknown_names(names, "Sunnivas new boat") == ("Sunniva Berg", "Einar", "Agnete", "New York")


@given(st.text())
def test_names_are_distinct_and_their_own_message_knows_them(message: str) -> None:
    names = candidate_names(message)
    assert len({name.casefold() for name in names}) == len(names)
    assert unknown_names(names, message) == ()


@given(st.text(alphabet=st.sampled_from("aİßÉé'’s\u0301\u2028\n -ŉK"), max_size=40))
def test_every_word_of_the_standing_text_is_known(standing: str) -> None:
    """However its letters are folded and its lines are parted."""
    assert unknown_names(tuple(WORD.findall(standing)), standing) == ()
