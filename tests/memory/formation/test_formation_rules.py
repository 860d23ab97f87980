"""When a session or a turn is formed, how much of it, which times count, and which close facts are the same."""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnemic.memory.formation.intake import (
    facts_of_batch,
    facts_of_turn,
    first_turn,
    formation_reason,
    turn_reason,
    weighted_tokens,
)
from mnemic.memory.text.bands import Band, Bands, band_of_pair, same_fact
from mnemic.state.errors import ConfigurationError
from mnemic.state.formation import Inbox
from mnemic.state.kinds import FormationReason, Role
from mnemic.state.records import Message
from mnemic.state.settings import Settings
from mnemic.state.times import MAX_AHEAD, plausible_times
from tests.support.worlds import message

# -- what is formed, and when

SETTINGS = Settings()
MINUTE = timedelta(minutes=1)
ROLES: dict[str, Role] = {"u": "user", "a": "assistant", "t": "tool", "o": "other"}


@pytest.mark.parametrize(
    ("messages", "formed", "tokens", "minutes", "forced", "reason"),
    [
        (44, 0, 999.9, 9.9, False, None),
        (45, 0, 0, 0, False, "messages"),
        (4, 0, 1000, 0, False, "tokens"),
        (3, 9, 5000, 9.9, False, None),
        (4, 0, 0, 10, False, "cold"),
        (3, 0, 5000, 500, False, None),
        (1, 3, 0, 10, False, "cold"),
        (1, 0, 0, 0, True, "forced"),
        (0, 9, 0, 500, True, None),
        (0, 9, 0, 500, False, None),
    ],
)
def test_each_threshold_fires_when_it_is_reached(
    messages: int, formed: int, tokens: float, minutes: float, forced: bool, reason: FormationReason | None
) -> None:
    inbox = Inbox(
        messages=(), pending=messages, quarantined=0, session_messages=messages + formed, idle=minutes * MINUTE
    )
    assert formation_reason(inbox, SETTINGS, messages=messages, tokens=tokens, is_forced=forced) == reason


@pytest.mark.parametrize(("role", "weighted"), [("user", 10.0), ("tool", 5.0), ("assistant", 2.0), ("other", 5.0)])
def test_a_users_words_weigh_most(role: Role, weighted: float) -> None:
    assert weighted_tokens(role, "x" * 40) == pytest.approx(weighted)


@pytest.mark.parametrize(("messages", "facts"), [(0, 0), (1, 2), (10, 12), (11, 14), (40, 48), (500, 48)])
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
    assert turn_reason(spoken(roles), has_more=more, is_forced=forced) == reason


@pytest.mark.parametrize(
    ("texts", "facts"),
    [(["a" * 600], 1), (["a" * 601], 5), (["a" * 300, "b" * 300], 1), (["a" * 300, "b" * 301], 5), ([], 1)],
)
def test_a_long_turn_brings_several_facts(texts: list[str], facts: int) -> None:
    messages = [*(message(text) for text in texts), message("c" * 5000, role="assistant", user=None)]

    assert facts_of_turn(messages, SETTINGS) == facts


# -- times

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
        if time <= observed + MAX_AHEAD:
            assert counted == time
        else:
            assert counted <= observed
            assert all(counted <= later for later in times[place:])


@given(CONVERSATIONS)
def test_time_far_ahead_overrides_no_later_time_and_any_other_stays(sayings: list[Said]) -> None:
    require_rule(sayings, plausible_times(sayings))


@given(CONVERSATIONS, st.integers(1, 72))
def test_it_comes_after_what_was_said_before_it(sayings: list[Said], hours: int) -> None:
    """Where the times before it were in order: the last of them, if nothing older follows."""
    earlier = sorted(time for time, observed in sayings if time <= observed + MAX_AHEAD)
    observed = max([NOON, *earlier]) + timedelta(hours=hours)
    times = plausible_times([*((time, observed) for time in earlier), (FAR, observed)])
    assert times[-1] == max(earlier, default=observed)


@pytest.mark.parametrize(
    "variant",
    [
        lambda sayings: [time for time, _ in sayings],
        lambda sayings: [min(time, observed + MAX_AHEAD) for time, observed in sayings],
        lambda sayings: [time if time <= observed + MAX_AHEAD else observed for time, observed in sayings],
    ],
    ids=["as said", "a day ahead at most", "when it was observed"],
)
def test_simpler_rules_are_caught(variant: Callable[[Sequence[Said]], list[datetime]]) -> None:
    sayings = [(NOON - timedelta(days=90), NOON), (FAR, NOON), (NOON - timedelta(days=89), NOON)]
    require_rule(sayings, plausible_times(sayings))
    with pytest.raises(AssertionError):
        require_rule(sayings, variant(sayings))


# -- which facts are the same

BANDS = Bands()


@pytest.mark.parametrize(
    ("similarity", "band"),
    [
        (1.0, "auto"),
        (0.95, "auto"),
        (0.9499, "check"),
        (0.70, "check"),
        (0.6999, "fallback"),
        (0.55, "fallback"),
        (0.5499, "new"),
        (-0.2, "new"),
    ],
)
def test_a_band_begins_at_its_threshold(similarity: float, band: Band) -> None:
    assert band_of_pair("Ana has 2 cats.", "Ana has two cats.", similarity, BANDS) == band


@pytest.mark.parametrize(
    ("auto", "check", "fallback"),
    [(0.7, 0.9, 0.5), (0.9, 0.5, 0.6), (1.1, 0.7, 0.5), (0.9, 0.7, -0.1), (float("nan"), 0.7, 0.5)],
)
def test_bands_that_do_not_rise_are_refused(auto: float, check: float, fallback: float) -> None:
    with pytest.raises(ConfigurationError, match="bands must rise"):
        Bands(auto=auto, check=check, fallback=fallback)


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("Ana is allergic to nuts.", "Ana is not allergic to nuts."),
        ("Ana has 2 cats.", "Ana has 3 cats."),
        ("Ana meets the team at 7am.", "Ana meets the team at 7pm."),
        ("The pilot starts on 15 April.", "The pilot starts on 15 May."),
        ("Ana prefers tea to coffee.", "Ana prefers coffee to tea."),
        ('The branch is called "main".', 'The branch is called "dev".'),
        ("Ana smokes.", "Ana used to smoke."),
        ("Ana has a cat.", "Ana has a cat since 2021."),
        ("Ana's left knee hurts.", "Ana's right knee hurts."),
        ("Ana has few friends.", "Ana has a few friends."),
        ("Ana writes C.", "Ana writes C++."),
        ("Ana takes .5 mg.", "Ana takes 5 mg."),
        ("Ana loves Turkey.", "Ana loves turkey."),
    ],
)
def test_one_other_word_tells_facts_apart(a: str, b: str) -> None:
    assert not same_fact(a, b)
    assert not same_fact(b, a)
    assert band_of_pair(a, b, 0.99, BANDS) == "check"


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("Ana has two cats.", "Ana has 2 cats"),
        ("Ana isn't coming.", "Ana is not coming."),
        ("Ana likes tea, coffee and milk.", "Ana likes tea, coffee, and milk"),
    ],
)
def test_the_same_words_written_otherwise_agree(a: str, b: str) -> None:
    assert same_fact(a, b)


@given(st.text(), st.text())
def test_agreement_is_mutual_and_every_fact_agrees_with_itself(a: str, b: str) -> None:
    assert same_fact(a, a)
    assert same_fact(a, b) == same_fact(b, a)
