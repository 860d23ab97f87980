"""Extraction in a single call, by rule: what the rules for facts and for reflections find, each thing once."""

from mnemic.models import offline
from mnemic.policy.text.writing import check_text
from mnemic.prompts.extract_observations import ExtractObservationsInput, ObservationDraft
from mnemic.prompts.extract_reflections import StandingText
from tests.models.offline.speech import lines_of

ALLERGY = "I'm allergic to peanuts."
BERGEN = "I live in Bergen."
SHORT = "Please keep your answers short."


def observed(
    *texts: str, group: str | None = None, standing: str = "", most: int = 25, speaker: str = "Mara"
) -> list[ObservationDraft]:
    context = (StandingText(scope="user", name="Mara", text=standing),) if standing else ()
    given = ExtractObservationsInput(
        lines=lines_of(texts, speaker), standing=context, group=group, guidance="", max_observations=most
    )
    return offline.extract_observations(given).observations


def test_wishes_and_facts_are_observed_with_the_lines_they_rest_on() -> None:
    found = [(draft.content, draft.scope, draft.messages) for draft in observed(SHORT, BERGEN)]

    assert found == [("Mara wants answers kept short.", "user", [1]), ("Mara lives in Bergen.", "user", [2])]


def test_what_a_guide_says_is_not_said_again_as_a_fact() -> None:
    (found,) = observed(ALLERGY)

    assert found.content == "Plans for Mara have to allow for this: Mara is allergic to peanuts."


def test_a_scope_is_kept() -> None:
    found = observed("Teo: We meet every Monday at nine.", "Assistant: Noted.", BERGEN, group="Harbor")

    assert {(draft.scope, "Harbor" in draft.content) for draft in found} == {("group", True), ("user", False)}


def test_what_is_in_mind_already_is_left_out() -> None:
    known = " ".join(draft.content for draft in observed(SHORT, BERGEN, ALLERGY))

    assert observed(SHORT, BERGEN, ALLERGY, standing=known) == []


def test_of_more_than_allowed_the_most_important_are_kept() -> None:
    assert [draft.content for draft in observed("I love jazz music.", BERGEN, ALLERGY, most=1)] == [
        "Plans for Mara have to allow for this: Mara is allergic to peanuts."
    ]
    assert observed(BERGEN, most=0) == []


def test_every_observation_may_be_stored_as_it_is() -> None:
    said = ("I live in Bergen and I work at Moorbook.", SHORT, ALLERGY, "We meet every Monday at nine.", "Hello!")
    for draft in observed(*said, group="Harbor"):
        assert check_text(draft.content, kind="reflection", max_words=50).text == draft.content


def test_small_talk_is_nothing() -> None:
    assert observed("Hello there.", "Assistant: Hello Mara.", "How are you?") == []
