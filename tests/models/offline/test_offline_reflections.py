"""Standing wishes, strong preferences, agreements, and what was talked about."""

import pytest

from tests.models.offline.speech import ReflectionsOf

WISHES = {
    "Please keep your answers short.": "Mara wants answers kept short.",
    "Always answer me in French, please.": "Mara wants the assistant to always answer Mara in French.",
    "Please never use emojis!": "Mara wants the assistant to never use emojis.",
    "Don't use bullet points.": "Mara wants no bullet points from the assistant.",
    "From now on, call me Bo.": "Mara wants to be called Bo.",
    "I'd prefer answers without jargon.": "Mara prefers answers without jargon.",
    "From now on write dates as day month year.": "Mara wants the assistant to write dates as day month year.",
    "Could you always cite your sources?": "Mara wants the assistant to always cite the assistant's sources.",
}


@pytest.mark.parametrize(("said", "kept"), WISHES.items(), ids=WISHES.keys())
def test_a_standing_wish_is_a_reflection_of_the_user(reflections_of: ReflectionsOf, said: str, kept: str) -> None:
    found = reflections_of("Hello there.", said)

    assert [(draft.content, draft.messages) for draft in found.user] == [(kept, [2])]
    assert found.group == found.agent == found.session == []


@pytest.mark.parametrize(
    "said",
    [
        "Send me the file.",
        "Please don't send it.",
        "Call me back later.",
        "Never mind.",
        "Keep it up!",
        "Could you answer my mail?",
        "Never give up on your dreams.",
        "Ok, write the report now.",
    ],
)
def test_a_single_order_is_none(reflections_of: ReflectionsOf, said: str) -> None:
    assert reflections_of(said).user == []


def test_among_people_you_is_not_the_assistant(reflections_of: ReflectionsOf) -> None:
    assert reflections_of("Mara: Please keep your answers short.", "Teo: Sure.").user == []
    assert reflections_of("Mara: Please keep your answers short.", "Teo: Sure.", "Assistant: Hello.").user != []


def test_a_strong_preference_is_kept_unless_it_is_a_new_fact(reflections_of: ReflectionsOf) -> None:
    said = "I really can't stand olives."

    assert [draft.content for draft in reflections_of(said).user] == ["Mara can't stand olives."]
    assert reflections_of(said, new_facts=("Mara can't stand olives.",)).user == []


def test_what_stands_in_context_is_not_said_again(reflections_of: ReflectionsOf) -> None:
    said = "Please keep your answers short."

    assert reflections_of(said, standing="Mara is a nurse. Mara wants answers kept short and polite.").user == []
    assert len(reflections_of(said, said).user) == 1


@pytest.mark.parametrize(
    ("said", "kept"),
    [
        ("We agreed to review every change within a day.", "Harbor agreed to review every change within a day."),
        ("From now on we review every change within a day.", "Harbor reviews every change within a day."),
        ("Our rule is to never deploy on Fridays.", "Harbor has the rule to never deploy on Fridays."),
        ("We never deploy on Fridays.", "Harbor never deploys on Fridays."),
    ],
)
def test_an_agreement_belongs_to_the_group(reflections_of: ReflectionsOf, said: str, kept: str) -> None:
    found = reflections_of("Mara: Morning!", f"Teo: {said}", group="Harbor")

    assert [(draft.content, draft.messages) for draft in found.group] == [(kept, [2])]
    assert reflections_of(said).group == []


def test_a_confidential_agreement_is_not_shared(reflections_of: ReflectionsOf) -> None:
    assert reflections_of("Between us: we never deploy on Fridays.", group="Harbor").group == []


def test_the_episode_names_speakers_and_what_came_back(reflections_of: ReflectionsOf) -> None:
    found = reflections_of(
        "Mara: The staging cluster is slow again.",
        "Teo: The staging cluster needs a second proxy.",
        "Mara: A proxy costs little. The invoice is high already.",
        "Teo: Send the invoice over.",
        "Assistant: I can compare proxies.",
    )

    assert found.episode == "Mara, Teo and the assistant discussed staging cluster, proxy and invoice."


def test_the_episode_tells_a_decision(reflections_of: ReflectionsOf) -> None:
    found = reflections_of("Mara: Hm.", "Teo: We decided to drop the Redis cache.", group="Harbor")

    assert found.episode == "Harbor decided to drop the Redis cache."


def test_there_is_no_episode_where_little_was_said(reflections_of: ReflectionsOf) -> None:
    assert reflections_of("Hello!", "Thanks, bye.").episode == ""


def test_the_episode_leaves_out_confidences(reflections_of: ReflectionsOf) -> None:
    found = reflections_of("Between us: divorce papers, alimony.", "Keep this private: divorce papers, alimony.")

    assert found.episode == ""
