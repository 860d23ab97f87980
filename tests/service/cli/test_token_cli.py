"""`mnemic token` as an operator meets it."""

import json
from datetime import UTC, datetime, timedelta

import pytest

from mnemic.policy.auth_tokens import read_token
from tests.service.cli.conftest import Command

KEY = "a key of sixteen characters"


@pytest.fixture
def key(monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("MNEMIC_SERVER_KEY", KEY)
    return KEY


def test_a_token_alone_is_on_standard_output(mnemic: Command, key: str) -> None:
    result = mnemic("token", "--user", "ana", "--agent", "guide", "--group", "harbor", "--group", "pier")
    assert result.exit_code == 0
    held = read_token(result.stdout.removesuffix("\n"), key, datetime.now(UTC))
    assert held is not None
    assert (held.user, held.agents, held.groups) == ("ana", ("guide",), ("harbor", "pier"))
    assert "it holds until" in result.stderr


def test_a_token_holds_for_the_days_that_are_asked_for(mnemic: Command, key: str) -> None:
    result = json.loads(mnemic("token", "--user", "ana", "--days", "3", "--json").stdout)
    now = datetime.now(UTC)
    assert read_token(result["token"], key, now + timedelta(days=2)) is not None
    assert read_token(result["token"], key, now + timedelta(days=4)) is None


def test_without_a_key_no_token_is_made(mnemic: Command) -> None:
    result = mnemic("token", "--user", "ana")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "MNEMIC_SERVER_KEY" in result.stderr


def test_a_key_that_is_too_short_is_named_as_the_operator_wrote_it(
    mnemic: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MNEMIC_SERVER_KEY", "short")
    result = mnemic("token", "--user", "ana")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "MNEMIC_SERVER_KEY: is a secret of at least 16 characters" in result.stderr


@pytest.mark.parametrize("words", [("--user", ""), ("--user", "ana", "--days", "0"), ("--user", "a" * 200)])
def test_what_cannot_be_used_makes_no_token(mnemic: Command, key: str, words: tuple[str, ...]) -> None:
    result = mnemic("token", *words)
    assert (result.exit_code, result.stdout) == (2, "")
