"""Which times are believed, for every order of said and observed."""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnemic.policy.formation.triggers import MOST_AHEAD, believed

NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)
FAR = NOON.replace(year=2150)
Said = tuple[datetime, datetime]
#: Messages in their order: their times in hours from noon, believable and not, observed within a few days.
CONVERSATIONS = st.lists(
    st.tuples(st.integers(-2000, 2000) | st.integers(-30, 30), st.integers(0, 72)).map(
        lambda hours: (NOON + timedelta(hours=hours[0]), NOON + timedelta(hours=hours[1]))
    ),
    max_size=12,
)


def require_rule(sayings: Sequence[Said], times: Sequence[datetime]) -> None:
    for place, ((time, observed), counted) in enumerate(zip(sayings, times, strict=True)):
        if time <= observed + MOST_AHEAD:
            assert counted == time
        else:
            assert counted <= observed
            assert all(counted <= later for later in times[place:])


@given(CONVERSATIONS)
def test_a_time_far_ahead_wins_over_nothing_that_comes_later_and_any_other_stays(sayings: list[Said]) -> None:
    require_rule(sayings, believed(sayings))


@given(CONVERSATIONS, st.integers(1, 72))
def test_it_comes_after_what_was_said_before_it(sayings: list[Said], hours: int) -> None:
    """Where the times before it were in order: the last of them, if nothing older follows."""
    earlier = sorted(time for time, observed in sayings if time <= observed + MOST_AHEAD)
    observed = max([NOON, *earlier]) + timedelta(hours=hours)
    times = believed([*((time, observed) for time in earlier), (FAR, observed)])
    assert times[-1] == max(earlier, default=observed)


@pytest.mark.parametrize(
    "variant",
    [
        lambda sayings: [time for time, _ in sayings],
        lambda sayings: [min(time, observed + MOST_AHEAD) for time, observed in sayings],
        lambda sayings: [time if time <= observed + MOST_AHEAD else observed for time, observed in sayings],
    ],
    ids=["as said", "a day ahead at most", "when it was observed"],
)
def test_simpler_rules_are_caught(variant: Callable[[Sequence[Said]], list[datetime]]) -> None:
    sayings = [(NOON - timedelta(days=90), NOON), (FAR, NOON), (NOON - timedelta(days=89), NOON)]
    require_rule(sayings, believed(sayings))
    with pytest.raises(AssertionError):
        require_rule(sayings, variant(sayings))
