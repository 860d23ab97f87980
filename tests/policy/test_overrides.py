"""What a host may set for a scope key."""

import pytest

from mnemic.policy.overrides import MAX_NUMBER, checked_overrides
from mnemic.state.errors import InvalidInputError
from mnemic.state.records import ScopeSettings


def test_texts_are_cleaned_and_what_is_not_set_stays_unset() -> None:
    given = ScopeSettings(scope_key="user:ana", name=" Ana\x00 ", consolidation_guidance="Be brief.\r\n", threshold=3)

    checked = checked_overrides(given)

    assert (checked.name, checked.consolidation_guidance, checked.threshold) == ("Ana", "Be brief.", 3)
    assert (checked.extraction_guidance, checked.word_limit) == (None, None)


@pytest.mark.parametrize(
    "wrong",
    [
        ScopeSettings(scope_key="user:ana", threshold=0),
        ScopeSettings(scope_key="user:ana", word_limit=MAX_NUMBER + 1),
        ScopeSettings(scope_key="user:ana", name=" \x00"),
        ScopeSettings(scope_key="user:ana", extraction_guidance="x" * 9000),
    ],
    ids=["no threshold", "huge limit", "empty name", "long guidance"],
)
def test_what_cannot_be_used_is_refused(wrong: ScopeSettings) -> None:
    with pytest.raises(InvalidInputError):
        checked_overrides(wrong)
