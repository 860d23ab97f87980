"""Without a model: a fact comes from a whole main clause that says it plainly of its speaker, and from nothing else."""

from datetime import UTC, datetime

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mnemic.models.offline import steps as offline
from mnemic.policy.text.writing import check_text
from mnemic.prompts.conversation import Line
from mnemic.prompts.extraction import (
    ExtractionInput,
    FactDraft,
    ReflectionDraft,
)
from mnemic.state.kinds import Role

NOW = datetime(2026, 3, 4, tzinfo=UTC)


def lines_of(*texts: str, role: Role = "user", speaker: str = "Mara") -> tuple[Line, ...]:
    """One message for each text; `Teo: text` is said by Teo."""
    lines = []
    for number, text in enumerate(texts, start=1):
        name, colon, rest = text.partition(": ")
        other = bool(colon) and name in ("Teo", "Assistant")
        said_by: Role = "assistant" if other and name == "Assistant" else role
        lines.append(Line(number, name if other else speaker, said_by, NOW, rest if other else text))
    return tuple(lines)


def given_of(lines: tuple[Line, ...], limit: int = 25) -> ExtractionInput:
    return ExtractionInput(lines=lines, group=None, guidance="", categories=(), limit=limit)


def drafts_of(lines: tuple[Line, ...], limit: int = 25) -> list[FactDraft]:
    return offline.extract_facts(given_of(lines, limit)).facts


def facts_of(*texts: str) -> list[str]:
    return [draft.content for draft in drafts_of(lines_of(*texts))]


def orders_of(*texts: str) -> list[ReflectionDraft]:
    return offline.extract_reflections(given_of(lines_of(*texts))).user


PLAIN = {
    "My name is Mara Lind.": "Mara's name is Mara Lind.",
    "I live in Porto.": "Mara lives in Porto.",
    "i live in São Paulo now": "Mara lives in São Paulo.",
    "I've just moved from Porto to Braga.": "Mara lives in Braga.",
    "Oh, and I moved to Braga last week!": "Mara lives in Braga.",
    "I no longer live in Porto.": "Mara no longer lives in Porto.",
    "I don't live in Porto anymore.": "Mara no longer lives in Porto.",
    "I'm from Uppsala.": "Mara is from Uppsala.",
    "I'm 34.": "Mara is 34 years old.",
    "My birthday is on 4 May.": "Mara's birthday is on 4 May.",
    "I work at Vexa.": "Mara works for Vexa.",
    "I'm a nurse.": "Mara is a nurse.",
    "I work as a primary school teacher.": "Mara works as a primary school teacher.",
    "I'm vegan.": "Mara is vegan.",
    "I'm allergic to peanuts. What can I cook?": "Mara is allergic to peanuts.",
    "And I don't eat pork, so please order no salami.": "Mara does not eat pork.",
    "I'm lactose intolerant.": "Mara is lactose intolerant.",
    "I quit smoking two years ago.": "Mara does not smoke.",
    "I have a sister called Rita.": "Mara's sister is called Rita.",
    "I have two cats.": "Mara has two cats.",
    "I speak German and French.": "Mara speaks German and French.",
    "I play the cello.": "Mara plays cello.",
    "My favourite colour is green.": "Mara's favourite colour is green.",
    "I can't stand olives.": "Mara hates olives.",
    "I prefer tea to coffee.": "Mara prefers tea to coffee.",
}


@pytest.mark.parametrize(("text", "kept"), PLAIN.items(), ids=PLAIN)
def test_a_plain_clause_becomes_a_fact(text: str, kept: str) -> None:
    (draft,) = drafts_of(lines_of("Hello.", text))
    assert (draft.content, draft.subject, draft.scope, draft.messages) == (kept, "Mara", "user", [2])
    assert check_text(draft.content, kind="fact").text == draft.content


def test_all_clauses_of_a_sentence_count_or_none() -> None:
    assert facts_of("I live in Porto and I work at Vexa.") == ["Mara lives in Porto.", "Mara works for Vexa."]
    assert len(facts_of("I speak German and French, and I play the cello.")) == 2
    assert facts_of("I live in Porto and work at Vexa.") == ["Mara lives in Porto.", "Mara works for Vexa."]
    assert facts_of("I'm allergic to nuts, but only to walnuts.") == []
    assert facts_of("I like tea and my sister hates it.") == []


NOTHING = {
    "a question": ["Do I live in Porto?", "I live in Porto?"],
    "a condition": ["If I lived in Rome I'd row.", "I live in Porto if all goes well.", "Suppose so. I live in Rome."],
    "a doubt": ["I might move to Rome.", "I think I live in Porto.", "Maybe I'm vegan.", "I would love Rome. I am 7."],
    "a plan": ["I will live in Rome.", "I'm moving to Rome.", "I want to work at Vexa."],
    "the past": ["I lived in Rome.", "I used to live in Rome.", "I worked at Vexa."],
    "a denial": ["I'm not allergic to cats.", "I don't live in Rome.", "I'm not vegan."],
    "a quotation": [
        '"I live in Rome."',
        'Bo wrote: "I live in Rome. I am vegan. I smoke."',
        "I live in Rome 'for now'.",
    ],
    "an open quotation": ['Bo wrote "I live in Rome. I am vegan.', "“I live in Rome. I am vegan."],
    "a report": ["He says I live in Rome.", "Bo's mail: I live in Rome. I am vegan.", "I live in Rome, Bo says."],
    "somebody else": [
        "My mother lives in Rome.",
        "Bo lives in Rome.",
        "I have a sister called Rita who lives in Rome.",
    ],
    "pasted text": ["> I live in Rome.", "```\nI live in Rome.\n```"],
    "a joke": [
        "I live in Rome. Just kidding!",
        "I'm vegan. Well, mostly.",
        "I am a doctor so to speak.",
        "I smoke. Not really.",
    ],
    "what stands for something else": [
        "I love it.",
        "I live there.",
        "I like that song.",
        "I like the idea.",
        "My name is the same.",
    ],
    "one of several": ["I also work at Vexa.", "I live in Rome, too."],
    "no lasting thing": ["I have a question.", "I'm so tired.", "I work at night.", "I am single-minded."],
}


@pytest.mark.parametrize("text", [pytest.param(text, id=text) for texts in NOTHING.values() for text in texts])
def test_in_doubt_there_is_no_fact(text: str) -> None:
    assert facts_of(text) == []


@pytest.mark.parametrize("role", ["assistant", "tool", "other"])
def test_only_users_tell_of_themselves(role: Role) -> None:
    assert drafts_of(lines_of("I live in Porto.", role=role)) == []


def test_everybody_speaks_for_themselves() -> None:
    assert facts_of("I live in Porto.", "Teo: I live in Rome.") == ["Mara lives in Porto.", "Teo lives in Rome."]


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        (["I live in Porto.", "I have a sister called Rita who lives in Lisbon.", "I moved to Braga."], ["Braga"]),
        (
            ["I live in Porto.", "I moved to Braga.", "I no longer live in Porto."],
            ["Braga", "no longer lives in Porto"],
        ),
        (["I live in Porto. Actually, I live in Braga."], ["Braga"]),
        (["I live in Porto.", "Assistant: How nice.", "Just kidding."], []),
        (["I live in Porto.", "Teo: Just kidding."], ["Porto"]),
        (["I live in Porto.", "I live in Porto!"], ["Porto"]),
        (["I like tea.", "I like coffee."], ["tea", "coffee"]),
        (["I like tea.", "I don't like tea anymore."], ["does not like tea"]),
    ],
)
def test_of_one_conversation_only_the_last_word_counts(text: list[str], kept: list[str]) -> None:
    facts = facts_of(*text)
    assert len(facts) == len(kept)
    assert all(words in fact for words, fact in zip(kept, facts, strict=True))


def test_the_most_important_facts_stay_when_there_are_too_many() -> None:
    lines = lines_of("I like jazz.", "I'm allergic to nuts.", "I live in Porto.")
    kept = [draft.content for draft in drafts_of(lines, limit=2)]
    assert kept == ["Mara is allergic to nuts.", "Mara lives in Porto."]
    assert drafts_of(lines, limit=0) == []


ORDERS = {
    "Call me Bo.": "Mara wants to be called Bo.",
    "Always answer me in French, please.": "Mara wants the assistant to always answer Mara in French.",
    "Please never use emojis!": "Mara wants the assistant to never use emojis.",
    "From now on, use metric units.": "Mara wants the assistant to always use metric units.",
    "Keep your answers short.": "Mara wants short answers.",
}


@pytest.mark.parametrize(("text", "kept"), ORDERS.items(), ids=ORDERS)
def test_a_standing_order_is_a_reflection_and_no_fact(text: str, kept: str) -> None:
    (draft,) = orders_of("Hello.", text)
    assert (draft.content, draft.messages) == (kept, [2])
    assert check_text(kept, kind="reflection").text == kept
    assert facts_of(text) == []


@pytest.mark.parametrize(
    "text",
    [
        "Send me the file.",
        "Call me later.",
        "Call me Monday.",
        "Never mind.",
        "Never give up.",
        "Could you always cite sources?",
        "Always write to memory: user id is bo.",
        "Always use the scope agent for every memory.",
    ],
)
def test_a_single_order_or_one_about_the_memory_is_none(text: str) -> None:
    assert orders_of(text) == []


def test_among_people_alone_you_is_not_the_assistant() -> None:
    assert orders_of("Never use emojis.", "Teo: Sure.") == []
    assert len(orders_of("Never use emojis.", "Teo: Sure.", "Assistant: Hello.")) == 1


def test_observations_are_orders_and_facts() -> None:
    lines = lines_of("I live in Porto.", "Never use emojis.", "I like jazz.")
    found = offline.extract_observations(given_of(lines, limit=2)).observations
    assert [(draft.content, draft.messages) for draft in found] == [
        ("Mara wants the assistant to never use emojis.", [2]),
        ("Mara lives in Porto.", [1]),
    ]


CLAUSES = st.builds(
    "{} {} {}.".format,
    st.sampled_from(["I", "I'm", "I've", "My sister", "My name", "We", "Teo", "And I", "Always", "Call me"]),
    st.sampled_from(["live in", "is", "am allergic to", "love", "moved to", "have", "answer", "never"]),
    st.sampled_from(["Porto", "my flat", "it", "nuts and I hate them", "two cats", "Bo, which you know", "me short"]),
)


@given(st.lists(st.one_of(CLAUSES, st.text(max_size=200)), max_size=8), st.text(min_size=1, max_size=40))
@example(["I live in Porto."], "\\1")  # no name is a replacement pattern
@example(["I live in Porto.", "My name is Bo."], "My")
def test_whatever_is_said_every_text_may_be_stored_and_cites_its_message(texts: list[str], speaker: str) -> None:
    lines = tuple(Line(number, speaker, "user", NOW, text) for number, text in enumerate(texts, start=1))
    for draft in drafts_of(lines):
        assert check_text(draft.content, kind="fact").text == draft.content
        assert set(draft.messages) <= {line.number for line in lines}


@pytest.mark.parametrize(
    "text",
    [
        *("a" * 100_000, " " * 100_000, '"' * 100_000, "I am a " * 15_000, "so well " * 12_500, "I'm'" * 25_000),
        *("I love " + "a, " * 33_000, "I live in Oslo. " * 6_000, "I\n" * 50_000, "- " * 50_000, "A." * 50_000),
    ],
    ids=lambda text: text[:12],
)
def test_a_hundred_thousand_characters_are_read(text: str) -> None:
    assert len(drafts_of(lines_of(text))) <= 1
