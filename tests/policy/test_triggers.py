"""A session is formed when it is long enough, cold, or forced."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnemic.policy.formation.triggers import facts_of_batch, formation_reason
from mnemic.state.kinds import FormationReason
from mnemic.state.settings import Settings
from tests.support.worlds import message

SETTINGS = Settings()
MINUTE = timedelta(minutes=1)


@pytest.mark.parametrize(
    ("messages", "tokens", "minutes", "forced", "reason"),
    [
        (44, 999.9, 9.9, False, None),
        (45, 0, 0, False, "messages"),
        (4, 1000, 0, False, "tokens"),
        (4, 0, 10, False, "cold"),
        (3, 5000, 500, False, None),
        (1, 0, 0, True, "forced"),
        (0, 0, 500, True, None),
        (0, 0, 500, False, None),
    ],
)
def test_each_threshold_fires_when_it_is_reached(
    messages: int, tokens: float, minutes: float, forced: bool, reason: FormationReason | None
) -> None:
    found = formation_reason(messages=messages, tokens=tokens, idle=minutes * MINUTE, forced=forced, settings=SETTINGS)
    assert found == reason


def test_an_agents_own_thresholds_count() -> None:
    eager = SETTINGS.overridden({"formation_min_messages": 1, "session_cold_minutes": 1})
    assert formation_reason(messages=1, tokens=0, idle=MINUTE, forced=False, settings=eager) == "cold"


@given(st.integers(0, 100), st.floats(0, 3000), st.integers(0, 30), st.integers(0, 50), st.floats(0, 500))
def test_more_of_anything_never_makes_a_due_session_wait(
    messages: int, tokens: float, minutes: int, more_messages: int, more_tokens: float
) -> None:
    def due(extra_messages: int, extra_tokens: float, extra_minutes: int) -> bool:
        reason = formation_reason(
            messages=messages + extra_messages,
            tokens=tokens + extra_tokens,
            idle=(minutes + extra_minutes) * MINUTE,
            forced=False,
            settings=SETTINGS,
        )
        return reason is not None

    assert due(0, 0, 0) <= due(more_messages, more_tokens, more_messages)


@pytest.mark.parametrize(("messages", "facts"), [(0, 0), (1, 1), (4, 2), (10, 5), (11, 6), (50, 25), (500, 25)])
def test_facts_are_capped_per_ten_messages_and_per_run(messages: int, facts: int) -> None:
    assert facts_of_batch([message("Well.")] * messages, SETTINGS) == facts
