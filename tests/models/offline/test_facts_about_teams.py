"""What a team says of itself and of its projects belongs to the group."""

import pytest

from tests.models.offline.speech import FactsOf

TEAM = {
    "We deploy on Tuesdays.": ("Harbor deploys on Tuesdays.", "Harbor"),
    "We use Postgres for everything.": ("Harbor uses Postgres.", "Harbor"),
    "Our deadline for the beta is March 20.": ("Harbor's deadline for the beta is on 20 March 2026.", "Harbor"),
    "The release is on Friday.": ("Harbor's release is on Friday 6 March 2026.", "Harbor"),
    "We decided to drop the Redis cache.": ("Harbor decided to drop the Redis cache.", "Harbor"),
    "We moved the launch from Monday to Thursday.": (
        "Harbor moved the launch from Monday to Thursday 5 March 2026.",
        "Harbor",
    ),
    "The deadline for Lighthouse is 3 April.": ("The deadline for Lighthouse is on 3 April 2026.", "Lighthouse"),
    "We don't deploy on Fridays.": ("Harbor doesn't deploy on Fridays.", "Harbor"),
}


@pytest.mark.parametrize(("said", "expected"), TEAM.items(), ids=TEAM.keys())
def test_a_team_statement_has_group_scope(facts_of: FactsOf, said: str, expected: tuple[str, str]) -> None:
    facts = facts_of(said, group="Harbor")

    assert [(fact.content, fact.subject) for fact in facts] == [expected]
    assert facts[0].scope == "group"
    assert facts[0].category == "projects"


def test_a_personal_statement_stays_personal_in_a_group(facts_of: FactsOf) -> None:
    assert [fact.scope for fact in facts_of("I'm allergic to peanuts.", group="Harbor")] == ["user"]


def test_a_confidence_never_has_group_scope(facts_of: FactsOf) -> None:
    facts = facts_of("Off the record, we decided to drop the Redis cache.", group="Harbor")

    assert [(fact.scope, fact.private) for fact in facts] == [("user", True)]


def test_without_a_group_only_talk_of_work_is_about_a_team(facts_of: FactsOf) -> None:
    facts = facts_of("We deploy on Tuesdays.", "We went to the lake.", "We use it every day.")

    assert [(fact.content, fact.scope) for fact in facts] == [("Mara's team deploys on Tuesdays.", "user")]
