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
    "I'd rather have short answers.": "Mara prefers short answers.",
    "From now on write dates as day month year.": "Mara wants the assistant to write dates as day month year.",
    "Could you always cite your sources?": "Mara wants the assistant to always cite the assistant's sources.",
    "please keep it to two lines, always, my screen is tiny": "Mara wants answers kept to two lines.",
    "Please give me distances always in miles, also for Europe": (
        "Mara wants the assistant to give distances always in miles, also for Europe."
    ),
    "Please write dates without the year, I know it anyway.": (
        "Mara wants the assistant to write dates without the year."
    ),
    "And comments in German, nobody here reads French": "Mara wants comments in German.",
    "Next time just start with the answer, I skim": "Mara wants the assistant to start with the answer.",
    "But you can call me Bo, everybody does.": "Mara wants to be called Bo.",
    "Whenever you list trains, name the platform": (
        "Mara wants the assistant to name the platform when the assistant lists trains."
    ),
    "For the legal stuff you can write longer": "Mara allows the assistant to write longer for legal matters.",
    "For the invoices: could you send them on Mondays?": "Mara wants the assistant to send the invoices on Mondays.",
    "Use metric units": "Mara wants the assistant to use metric units.",
    "Could you send reminders in the morning, from now on?": (
        "Mara wants the assistant to send reminders in the morning."
    ),
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
        "Make it shorter.",
        "And can you write it in Dutch?",
        "Show me the prices.",
        "Next time we meet in Oslo.",
        "You can call me tomorrow.",
        "Keep it simple.",
        "Prices in Norway are crazy.",
    ],
)
def test_a_single_order_is_none(reflections_of: ReflectionsOf, said: str) -> None:
    assert reflections_of(said).user == []


def test_among_people_you_is_not_the_assistant(reflections_of: ReflectionsOf) -> None:
    assert reflections_of("Mara: Please keep your answers short.", "Teo: Sure.").user == []
    assert reflections_of("Mara: Please keep your answers short.", "Teo: Sure.", "Assistant: Hello.").user != []


GUIDES = {
    "I really can't stand olives.": "Suggestions to Mara should respect this: Mara can't stand olives.",
    "I'm allergic to sesame.": "Plans for Mara have to allow for this: Mara is allergic to sesame.",
    "I work three days a week.": "Plans for Mara have to allow for this: Mara works three days a week.",
    "I get seasick on ferries.": "Plans for Mara have to allow for this: Mara gets seasick on ferries.",
}


@pytest.mark.parametrize(("said", "kept"), GUIDES.items(), ids=GUIDES.keys())
def test_a_lasting_constraint_or_strong_preference_guides_plans(
    reflections_of: ReflectionsOf, said: str, kept: str
) -> None:
    assert [draft.content for draft in reflections_of(said).user] == [kept]
    told = kept.partition(": ")[2]
    assert [draft.content for draft in reflections_of(said, new_facts=(told,)).user] == [kept]
    assert reflections_of(said, standing=told).user == []


@pytest.mark.parametrize("said", ["I like olives.", "I broke my wrist last week.", "I'm allergic to meetings."])
def test_what_binds_nobody_guides_no_plans(reflections_of: ReflectionsOf, said: str) -> None:
    assert reflections_of(said).user == []


def test_a_teams_rule_guides_the_plans_of_the_group(reflections_of: ReflectionsOf) -> None:
    found = reflections_of("Mara: Morning!", "Teo: We release on Mondays.", group="Harbor")

    assert [draft.content for draft in found.group] == [
        "Plans for Harbor have to allow for this: Harbor releases on Mondays."
    ]


def test_a_wish_for_us_belongs_to_the_group(reflections_of: ReflectionsOf) -> None:
    found = reflections_of(
        "Assistant: Hello.", "Teo: When you send us a summary, always begin with the dates.", group="Harbor"
    )

    assert [draft.content for draft in found.group] == [
        "Harbor wants the assistant to begin with the dates when the assistant sends Harbor a summary."
    ]
    assert found.user == []


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

    assert found.episode == "Mara, Teo and the assistant discussed the cluster, the proxy and the invoice."


def test_the_episode_names_no_verbs_and_no_empty_words(reflections_of: ReflectionsOf) -> None:
    found = reflections_of(
        "Mara: Before we go on, some of it sounds fine.",
        "Teo: Before lunch I heard some of it from Dr Lind in Bergen.",
        "Mara: The five of us went to Bergen and said nothing.",
        "Teo: The five of us said a lot in Bergen, Lind too.",
        "Mara: Did Lind like the ferry?",
    )

    assert found.episode == "Mara and Teo discussed Lind and Bergen."


def test_the_episode_tells_a_decision(reflections_of: ReflectionsOf) -> None:
    found = reflections_of("Mara: Hm.", "Teo: We decided to drop the Redis cache.", group="Harbor")

    assert found.episode == "Harbor decided to drop the Redis cache."


def test_there_is_no_episode_where_little_was_said(reflections_of: ReflectionsOf) -> None:
    assert reflections_of("Hello!", "Thanks, bye.").episode == ""


def test_the_episode_leaves_out_confidences(reflections_of: ReflectionsOf) -> None:
    found = reflections_of("Between us: divorce papers, alimony.", "Keep this private: divorce papers, alimony.")

    assert found.episode == ""
