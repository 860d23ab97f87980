"""When a session or a turn is formed, what is taken of it, and how much is looked for in it."""

from collections.abc import Sequence
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnemic.policy.formation.triggers import facts_of_batch, facts_of_turn, first_turn, formation_reason, turn_reason
from mnemic.state.kinds import FormationReason, Role
from mnemic.state.records import Message
from mnemic.state.settings import Settings
from tests.support.worlds import message

SETTINGS = Settings()
MINUTE = timedelta(minutes=1)
ROLES: dict[str, Role] = {"u": "user", "a": "assistant", "t": "tool", "o": "other"}


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


def spoken(roles: str) -> list[Message]:
    """One message for each letter."""
    return [message(f"{place}", role=ROLES[role]) for place, role in enumerate(roles)]


def split(messages: Sequence[Message]) -> list[Sequence[Message]]:
    """Turn after turn, as run after run takes them."""
    found = []
    while messages:
        found.append(first_turn(messages))
        messages = messages[len(found[-1]) :]
    return found


@pytest.mark.parametrize(
    ("roles", "turns"),
    [
        ("", []),
        ("u", ["u"]),
        ("a", ["a"]),
        ("uaua", ["ua", "ua"]),
        ("uuatauau", ["uuata", "ua", "u"]),
        ("tauau", ["taua", "u"]),
        ("ooa", ["ooa"]),
    ],
)
def test_a_turn_ends_where_a_user_speaks_again(roles: str, turns: list[str]) -> None:
    names = {role: letter for letter, role in ROLES.items()}
    found = ["".join(names[message.role] for message in turn) for turn in split(spoken(roles))]
    assert found == turns


@given(st.text("uato", max_size=60))
def test_turns_put_together_are_what_was_said(roles: str) -> None:
    messages = spoken(roles)
    turns = split(messages)

    assert [message for turn in turns for message in turn] == messages
    for turn in turns[:-1]:
        groups = sum(now.role == "user" for before, now in zip([None, *turn], turn, strict=False)
                     if before is None or before.role != "user")  # fmt: skip
        assert groups == 1
    assert all(turn[0].role == "user" for turn in turns[1:])


@pytest.mark.parametrize(
    ("roles", "more", "forced", "reason"),
    [
        ("u", False, False, "turn"),
        ("au", False, False, "turn"),
        ("a", False, False, None),
        ("a", True, False, "turn"),
        ("a", False, True, "forced"),
        ("u", False, True, "forced"),
        ("", False, False, None),
        ("", False, True, None),
    ],
)
def test_a_turn_is_due_once_a_user_has_spoken(
    roles: str, more: bool, forced: bool, reason: FormationReason | None
) -> None:
    assert turn_reason(spoken(roles), more=more, forced=forced) == reason


@pytest.mark.parametrize(
    ("said", "facts"),
    [(["a" * 600], 1), (["a" * 601], 5), (["a" * 300, "b" * 300], 1), (["a" * 300, "b" * 301], 5), ([], 1)],
)
def test_a_long_turn_brings_several_facts(said: list[str], facts: int) -> None:
    messages = [*(message(text) for text in said), message("c" * 5000, role="assistant", user=None)]

    assert facts_of_turn(messages, SETTINGS) == facts
