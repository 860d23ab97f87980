"""What a question names, and what a score is made of."""

import pytest

from mnemic.policy.recall.ranking import PLAIN, WEIGHTS, named_words, own_names, speaks_of_self


def test_words_that_may_name_somebody_are_uncommon_or_capitalised() -> None:
    assert set(named_words("What does Mark think of Ines's Frankfurt flat?")) >= {"mark", "ines", "frankfurt"}
    assert "what" not in named_words("What is it?")
    assert "will" in named_words("Does Will sing?")
    assert "will" not in named_words("will it rain")


@pytest.mark.parametrize(
    ("question", "own"),
    [
        ("What is my sister's name?", True),
        ("Where do I live", True),
        ("I'm asking", True),
        ("Tell ME", True),
        ("Is it mythical, in iron?", False),
        ("Where does she live?", False),
    ],
)
def test_a_question_in_the_first_person_is_about_the_asker(question: str, own: bool) -> None:
    assert speaks_of_self(question) is own


def test_a_user_is_called_by_the_words_of_their_name() -> None:
    assert own_names("ana.silva") == ["ana", "silva"]
    assert own_names(None) == []


def test_the_two_branches_share_the_score() -> None:
    assert WEIGHTS.text + WEIGHTS.meaning == PLAIN.text + PLAIN.meaning == 1


def test_no_addition_outweighs_what_words_and_meaning_say() -> None:
    """All of them at their most: named, importance 5, neighbour, session, related."""
    most = WEIGHTS.named + 3 * WEIGHTS.importance + WEIGHTS.neighbour + WEIGHTS.session + WEIGHTS.related
    assert most < WEIGHTS.meaning
