"""Turns: what is taken of the pending messages, when, and how much is looked for in it."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnemic.policy.formation.turns import facts_of_turn, first_turn, turn_reason
from mnemic.state.kinds import FormationReason, Role
from mnemic.state.records import Message
from mnemic.state.settings import Settings
from tests.support.worlds import message

SETTINGS = Settings()
ROLES: dict[str, Role] = {"u": "user", "a": "assistant", "t": "tool", "o": "other"}


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
    ("texts", "facts"),
    [(["a" * 600], 1), (["a" * 601], 5), (["a" * 300, "b" * 300], 1), (["a" * 300, "b" * 301], 5), ([], 1)],
)
def test_a_long_turn_brings_several_facts(texts: list[str], facts: int) -> None:
    messages = [*(message(text) for text in texts), message("c" * 5000, role="assistant", user=None)]

    assert facts_of_turn(messages, SETTINGS) == facts
