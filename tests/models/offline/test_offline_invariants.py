"""Whatever is said: the offline model never raises, invents or breaks the form."""

from datetime import UTC, datetime

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mnemic.models import offline
from mnemic.models.offline.text import words
from mnemic.policy.text.writing import check_text
from mnemic.prompts.conversation import Line
from mnemic.prompts.decide import DecideInput, KnownFact, NewFact
from mnemic.prompts.extract_facts import ExtractFactsInput
from mnemic.prompts.extract_reflections import ExtractReflectionsInput
from mnemic.prompts.write_consolidation import DatedText, WriteConsolidationInput

NOW = datetime(2026, 3, 4, tzinfo=UTC)
PERSONS = {"i", "me", "my", "mine", "myself", "you", "your", "yours", "we", "us", "our", "ours"}

SUBJECTS = [
    "I",
    "I'm",
    "I've",
    "My sister Ana",
    "We",
    "Our deadline",
    "My dog",
    "Teo",
    "The release",
    "And I",
    "You",
    "It",
]
MIDDLES = [
    "live in",
    "is",
    "am allergic to",
    "been working at",
    "love",
    "can't eat",
    "moved to",
    "have",
    "use",
    "wants to",
    "ran",
]
ENDS = [
    "Bergen",
    "my new flat",
    "it",
    "peanuts and I hate them",
    "tomorrow",
    "a dog, which you know",
    "on Friday?",
    "3.5 km!",
    "that",
]
SENTENCES = st.builds("{} {} {}.".format, *map(st.sampled_from, (SUBJECTS, MIDDLES, ENDS)))
TALK = st.lists(st.one_of(SENTENCES, st.text(max_size=200)), max_size=8)


def spoken(texts: list[str], speaker: str = "Mara") -> tuple[Line, ...]:
    return tuple(
        Line(number=10 + index, speaker=speaker, role="user", said_at=NOW, content=text)
        for index, text in enumerate(texts)
    )


@given(TALK, st.sampled_from([None, "Harbor"]))
def test_facts_have_the_form_and_come_from_their_messages(texts: list[str], group: str | None) -> None:
    lines = spoken(texts)
    facts = offline.extract_facts(ExtractFactsInput(lines=lines, group=group, guidance="", max_facts=5)).facts

    assert len(facts) <= 5
    for fact in facts:
        assert check_text(fact.content, kind="fact").text == fact.content
        assert not set(words(fact.content)) & PERSONS
        assert set(fact.messages) <= {line.number for line in lines}
        assert 1 <= fact.importance <= 5
        assert fact.scope == "user" or group is not None


@given(TALK, st.sampled_from([None, "Harbor"]))
def test_reflections_have_the_form(texts: list[str], group: str | None) -> None:
    lines = spoken(texts)
    found = offline.extract_reflections(
        ExtractReflectionsInput(lines=lines, standing=(), new_facts=(), group=group, guidance="")
    )

    for draft in [*found.user, *found.group]:
        assert check_text(draft.content, kind="reflection").text == draft.content
        assert set(draft.messages) <= {line.number for line in lines}
    assert found.episode == "" or check_text(found.episode, kind="episode").text == found.episode


@given(st.lists(SENTENCES | st.text(max_size=60), min_size=1, max_size=4))
def test_decisions_name_only_what_they_were_shown(contents: list[str]) -> None:
    known = tuple(
        KnownFact(number=number, content=content, dated=NOW, similarity=0.8)
        for number, content in enumerate(contents, start=7)
    )
    fact = NewFact(number=1, content=contents[0], dated=NOW, known=known)
    decision = offline.decide(DecideInput(facts=(fact,))).decisions[0]

    assert set(decision.known) <= {shown.number for shown in known}
    assert (decision.event == "ADD") == (not decision.known)
    assert decision.text == ("" if decision.event == "NONE" else contents[0])


@given(st.lists(SENTENCES | st.text(max_size=60), max_size=8), st.integers(min_value=1, max_value=60))
def test_a_consolidation_keeps_the_limit_and_invents_nothing(contents: list[str], limit: int) -> None:
    given_ = WriteConsolidationInput(
        scope="user",
        owner="Mara",
        current=" ".join(contents[:2]),
        reflections=tuple(DatedText(dated=NOW, content=content) for content in contents[2:]),
        word_limit=limit,
        guidance="",
    )
    text = offline.write_consolidation(given_).text

    assert len(text.split()) <= limit
    assert set(text.split()) <= set(" ".join(contents).split())


@given(st.text(min_size=1, max_size=40))
@example("\\1")  # no name is a replacement pattern
@example("My")
def test_any_speaker_name_is_safe(name: str) -> None:
    facts = offline.extract_facts(
        ExtractFactsInput(lines=spoken(["I live in Bergen."], name), group=name, guidance="", max_facts=5)
    ).facts

    assert all(check_text(fact.content, kind="fact").text == fact.content for fact in facts)


HUGE = {
    "one word": "a" * 100_000,
    "spaces": " " * 100_000,
    "words": "I am a " * 15_000,
    "commas": "I love " + "a, " * 33_000,
    "dots": "I live in Oslo. " * 6_000,
    "openers": "so well " * 12_500,
    "quotes": '"' * 100_000,
    "brackets": "(" * 50_000 + ")" * 50_000,
    "apostrophes": "I'm'" * 25_000,
    "dates": "next Friday " * 8_000,
    "lines": "I\n" * 50_000,
    "dashes": "- " * 50_000,
    "the longest sentence that is read": ("I love " + "and so the ") * 18,
}


@pytest.mark.parametrize("text", HUGE.values(), ids=HUGE.keys())
def test_a_hundred_thousand_characters_are_read(text: str) -> None:
    lines = spoken([text])

    assert len(offline.extract_facts(ExtractFactsInput(lines=lines, group="H", guidance="", max_facts=5)).facts) <= 5
    given_ = ExtractReflectionsInput(lines=lines, standing=(), new_facts=(), group="H", guidance="")
    assert len(offline.extract_reflections(given_).episode) <= 280
