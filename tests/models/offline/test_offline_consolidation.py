"""The living text is made of whole sentences: newer wins, the limit holds, nothing is invented."""

from datetime import UTC, datetime

import pytest

from mnemic.models import offline
from mnemic.prompts.write_consolidation import DatedText, Revision, WriteConsolidationInput

NOW = datetime(2026, 3, 4, tzinfo=UTC)


def written(current: str, *reflections: str, word_limit: int = 400, revision: Revision | None = None) -> str:
    return offline.write_consolidation(
        WriteConsolidationInput(
            scope="user",
            owner="Mara",
            current=current,
            reflections=tuple(DatedText(dated=NOW, content=content) for content in reflections),
            word_limit=word_limit,
            guidance="",
            revision=revision,
        )
    ).text


def test_new_sentences_join_the_old_ones() -> None:
    assert written("Mara is a nurse.", "Mara wants answers kept short.") == (
        "Mara is a nurse. Mara wants answers kept short."
    )
    assert written("", "Mara is a nurse.") == "Mara is a nurse."
    assert written("Mara is a nurse.") == "Mara is a nurse."


def test_repetitions_go_and_the_more_detailed_stays() -> None:
    assert written("Mara has a dog.", "Mara has a dog named Rex.", "Mara has a dog.") == "Mara has a dog named Rex."


def test_a_guide_for_plans_is_told_as_the_statement_in_it() -> None:
    text = written(
        "Mara works five days a week.",
        "Plans for Mara have to allow for this: Mara works four days a week.",
        "Suggestions to Mara should respect this: Mara can't stand olives.",
    )

    assert text == "Mara works four days a week. Mara can't stand olives."


def test_the_newer_of_two_that_disagree_stays() -> None:
    text = written("Mara lives in Oslo. Mara loves tea.", "Mara lives in Bergen.")

    assert text == "Mara loves tea. Mara lives in Bergen."


def test_sentences_on_the_same_subject_stand_together() -> None:
    text = written("Mara is a nurse. Teo is a cook.", "Mara loves tea.")

    assert text == "Mara is a nurse. Mara loves tea. Teo is a cook."


@pytest.mark.parametrize("limit", [1, 4, 5, 9, 12, 30])
def test_the_limit_holds_and_what_is_vital_goes_last(limit: int) -> None:
    text = written(
        "Mara likes calm rooms. Mara is allergic to peanuts.",
        "Mara likes slow trains. Mara ran 42 km.",
        word_limit=limit,
    )

    assert len(text.split()) <= limit
    assert ("allergic" in text) == (limit >= 5)


def test_a_revision_keeps_the_limit_too() -> None:
    revision = Revision(draft="Mara is a nurse and much more.", problem="It has 7 words; at most 4 are allowed.")

    assert (
        written("Mara is a nurse.", "Teo is a cook and baker.", word_limit=4, revision=revision) == "Mara is a nurse."
    )


def test_abbreviations_and_lines_do_not_break_sentences() -> None:
    assert written("Mara sees Dr. Lind on Mondays.\nMara takes 2.5 mg daily.") == (
        "Mara sees Dr. Lind on Mondays. Mara takes 2.5 mg daily."
    )
