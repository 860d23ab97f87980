"""Names typed in lower case, and whom `he` and `she` mean."""

import pytest

from tests.models.offline.speech import FactsOf

NAMED = {
    "a pronoun means the relative just spoken of": (
        ("Call my aunt on Monday. She is 71 and lives alone in Porto.",),
        ["Mara's aunt is 71 and lives alone in Porto."],
    ),
    "a pronoun in the next sentence of a chat": (
        ("My uncle Pio came by.", "He lives in Turin now."),
        ["Pio lives in Turin."],
    ),
    "somebody called by name": (
        ("My friend is called Oda, she's a nurse.",),
        ["Mara's friend is called Oda.", "Oda is a nurse."],
    ),
    "a name said after the pronoun": (("Her name is Runa and she lives in Malmö.",), ["Runa lives in Malmö."]),
    "a name beside the relation": (
        ("Jonas, my brother, visits us. He lives in Rome.",),
        ["Mara's brother is called Jonas.", "Jonas lives in Rome."],
    ),
    "a name of the assistant's restored": (
        ("tilde says hi", "Assistant: Is Tilde your sister?", "tilde lives in malmö"),
        ["Tilde lives in malmö."],
    ),
    "a child known by a birthday": (("pelle turns six on the 3rd of may",), ["Pelle turns six on 3 May 2026."]),
    "a relative of somebody named": (
        ("Florin, my husband, cooks. His sister Ada lives in Bonn.",),
        ["Mara's husband is called Florin.", "Florin's sister Ada lives in Bonn."],
    ),
}


@pytest.mark.parametrize(("said", "stored"), NAMED.values(), ids=NAMED.keys())
def test_the_person_meant_is_named(facts_of: FactsOf, said: tuple[str, ...], stored: list[str]) -> None:
    assert [fact.content for fact in facts_of(*said)] == stored


LEFT_OUT = {
    "two people fit": ("My sister met my aunt. She lives in Rome.",),
    "a stranger fits as well": ("The nurse called my mum. She lives in Rome.",),
    "nobody was spoken of": ("She lives in Rome.",),
    "somebody unknown came between": (
        "My aunt called.",
        "Greta and Lena work a lot. Greta likes Lena, Lena likes Greta. She lives in Rome.",
    ),
    "the other sex": ("My uncle called. She lives in Rome.",),
    "a listener is no third person": ("Teo: Hi Mara!", "Mara: Hi Teo! He lives in Rome."),
    "a thing is nobody": ("I play a lot of Mastermind. She lives in Rome.",),
    "a common word is no name": ("everybody turns six some day", "nobody lives in rome"),
}


@pytest.mark.parametrize("said", LEFT_OUT.values(), ids=LEFT_OUT.keys())
def test_nobody_is_guessed(facts_of: FactsOf, said: tuple[str, ...]) -> None:
    assert not [fact.content for fact in facts_of(*said) if "Rome" in fact.content or "six" in fact.content]


def test_capitals_come_back_only_where_none_are_typed(facts_of: FactsOf) -> None:
    facts = facts_of("I live in Reading.", "I love reading crime novels.", "i love reading crime novels")

    assert [fact.content for fact in facts] == ["Mara lives in Reading.", "Mara loves reading crime novels."]


@pytest.mark.parametrize(
    ("said", "stored"),
    [
        ("My brother Jonas says trains are slow.", ["Mara's brother is called Jonas."]),
        ("The cake was from Ada, my cousin.", ["Mara's cousin is called Ada."]),
        ("My sister Ana lives in Porto.", ["Mara's sister Ana lives in Porto."]),
        ("My friends Ada and Jonas say so.", []),
        ("Suppose my brother Jonas says so.", []),
        ("Would my brother Jonas say so?", []),
        ("I told my brother Monday is fine.", []),
    ],
)
def test_who_is_named_in_passing(facts_of: FactsOf, said: str, stored: list[str]) -> None:
    assert [fact.content for fact in facts_of(said, "Ana, Ada and Jonas came, then Jonas left Ada.")] == stored


OURS = {
    "We moved our wedding to 5 June.": ("Mara moved Mara's wedding to 5 June 2026.", "user"),
    "Our dog Bruno is 7.": ("Mara's dog Bruno is 7.", "user"),
    "We moved our deadline to Friday.": ("Harbor moved Harbor's deadline to Friday 6 March 2026.", "group"),
}


@pytest.mark.parametrize(("said", "stored"), OURS.items(), ids=OURS.keys())
def test_what_one_person_says_alone_of_us_is_the_teams_only_where_it_is_work(
    facts_of: FactsOf, said: str, stored: tuple[str, str]
) -> None:
    assert [(fact.content, fact.scope) for fact in facts_of(said, group="Harbor")] == [stored]
