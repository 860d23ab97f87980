"""Passes: what a token says is believed only as it was signed, with the server's key, and until it ends."""

import warnings
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import jwt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnemic.memory.governance.chain import signed
from mnemic.service.server import auth_tokens
from mnemic.service.server.auth_tokens import MAX_TOKEN_LENGTH, decode_token, new_token
from mnemic.state.errors import InvalidInputError
from mnemic.state.identity import MAX_GROUPS

KEY = "a key of sixteen characters"
NOW = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)
TOKEN, END = new_token("ana", ["guide"], ["harbor", "pier"], KEY, days=7, now=NOW)


def test_a_token_holds_until_its_last_second() -> None:
    held = decode_token(TOKEN, KEY, END - timedelta(seconds=1))
    assert held
    assert (held.user, held.agents, held.groups) == ("ana", ("guide",), ("harbor", "pier"))
    assert NOW + timedelta(days=7) == END
    assert decode_token(TOKEN, KEY, END) is None
    assert decode_token(TOKEN, "another key of many characters", NOW) is None


def _payload(change: Callable[[bytes], bytes]) -> str:
    head, payload, mac = TOKEN.split(".")
    changed = change(urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
    assert changed != urlsafe_b64decode(payload + "=" * (-len(payload) % 4))
    return f"{head}.{urlsafe_b64encode(changed).decode().rstrip('=')}.{mac}"


def _signed(algorithm: str = "HS256", **changes: Any) -> str:
    """By the right key, but otherwise than a token of ours."""
    claims = jwt.decode(TOKEN, options={"verify_signature": False})
    changed = {name: value for name, value in {**claims, **changes}.items() if value is not None}
    with warnings.catch_warnings(action="ignore"):  # the key is short for other algorithms
        return jwt.encode(changed, auth_tokens._signing(KEY) if algorithm != "none" else "", algorithm=algorithm)


FORGED = {
    "nothing": "",
    "no mac": TOKEN.rpartition(".")[0],
    "another mac": TOKEN[:-2] + ("AA" if TOKEN[-2:] != "AA" else "BA"),
    "another user": _payload(lambda text: text.replace(b'"ana"', b'"bea"')),
    "a later end": _payload(lambda text: text.replace(b'"exp":', b'"exp":9')),
    "no agents": _payload(lambda text: text.replace(b'["guide"]', b"[]")),
    "for somebody else": _signed(aud="another service"),
    "without an end": _signed(exp=None),
    "without groups": _signed(groups=None),
    "an agent of another type": _signed(agents=[7]),
    "another algorithm": _signed("HS512"),
    "no algorithm": _signed("none"),
    "the key itself": jwt.encode(jwt.decode(TOKEN, options={"verify_signature": False}), KEY * 2, algorithm="HS256"),
    "the mac of something else": signed(KEY, "guide", 1, b"0" * 32, NOW).model_dump_json(),
    "beyond ASCII": TOKEN + "é",
    "too long": f"{TOKEN.partition('.')[0]}.{'A' * MAX_TOKEN_LENGTH}.0",
}


@pytest.mark.parametrize("kind", FORGED)
def test_a_forged_token_is_nobodys(kind: str) -> None:
    assert decode_token(FORGED[kind], KEY, NOW) is None


@pytest.mark.parametrize("kind", ["another user", "a later end", "no agents", "another mac"])
def test_a_reader_that_does_not_check_the_mac_would_be_seen(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The control of the test above."""
    monkeypatch.setattr("hmac.compare_digest", lambda *_: True)
    assert decode_token(FORGED[kind], KEY, NOW) is not None


@pytest.mark.thorough
@given(st.text(max_size=300))
def test_whatever_is_sent_is_no_token_and_no_error(text: str) -> None:
    assert decode_token(text, KEY, NOW) is None
    assert decode_token(f"{TOKEN.rpartition('.')[0]}.{text}", KEY, NOW) is None


@pytest.mark.parametrize(
    ("named", "wrong"),
    [
        *(("days", days) for days in (0, -1, 3_651)),
        *(("user", user) for user in ("", "ana\n")),
        ("agents", (" guide",)),
        ("groups", tuple(f"g{n}" for n in range(MAX_GROUPS + 1))),
    ],
)
def test_a_token_has_an_end_and_names_usable_ids_alone(named: str, wrong: Any) -> None:
    given: dict[str, Any] = {"user": "ana", "agents": (), "groups": (), "days": 1, named: wrong}
    with pytest.raises(InvalidInputError, match=named) as refused:
        new_token(**given, key=KEY, now=NOW)
    assert refused.value.__cause__ is None


def test_a_token_that_no_server_would_take_is_not_made() -> None:
    many = tuple(f"{n:0128}" for n in range(MAX_GROUPS))
    with pytest.raises(InvalidInputError, match="too long"):
        new_token("ana", many, many, KEY, days=1, now=NOW)
