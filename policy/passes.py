"""Passes: bearer tokens of the server, signed by us, that say who somebody is and until when.

Whoever holds one is that person; nothing is kept of it anywhere, so it cannot be taken back before it expires, but by a
new key for everybody.
"""

import hmac
from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error
from datetime import datetime, timedelta
from typing import Annotated, Final

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from mnemic.state.checking import first_problem
from mnemic.state.errors import InvalidInputError
from mnemic.state.identity import MAX_GROUPS, HostId

#: How every token begins: another form gets another number.
PREFIX: Final = "mnemic1"
#: Goes into every signature, so that nothing else that a key of ours signs passes for one.
_PURPOSE: Final = b"mnemic pass 1\n"
#: Characters of a token: servers take 64 KiB of headers at most, and one for two people's groups has some hundred.
MAX_TOKEN: Final = 16_384
#: Ten years: whoever needs longer has no use for an end.
MAX_DAYS: Final = 3_650


class Pass(BaseModel):
    """Who somebody is, and what they may name."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True, defer_build=True)

    user: HostId
    #: The only agents they may talk with; none: all.
    agents: Annotated[tuple[HostId, ...], Field(max_length=MAX_GROUPS)] = ()
    #: The groups they belong to.
    groups: Annotated[tuple[HostId, ...], Field(max_length=MAX_GROUPS)] = ()
    #: Seconds since 1970, UTC: from then on it is worth nothing.
    expires: int


def new_pass(user: str, agents: tuple[str, ...], groups: tuple[str, ...], *, days: int, now: datetime) -> Pass:
    """A pass that holds for so many days.

    Raises:
        InvalidInputError: an id cannot be used, there are too many, or the days are none.
    """
    if not 1 <= days <= MAX_DAYS:
        raise InvalidInputError(f"days: a token holds for 1 to {MAX_DAYS} days")
    expires = int((now + timedelta(days=days)).timestamp())
    try:
        return Pass(user=user, agents=agents, groups=groups, expires=expires)
    except ValidationError as error:
        raise InvalidInputError(first_problem(error)) from None


def token_of(held: Pass, key: str) -> str:
    """The pass as a bearer token.

    Raises:
        InvalidInputError: it names so much that no server would take it.
    """
    payload = urlsafe_b64encode(held.model_dump_json().encode()).rstrip(b"=")
    token = f"{PREFIX}.{payload.decode()}.{_mac(key, payload)}"
    if len(token) > MAX_TOKEN:
        raise InvalidInputError("the token would be too long: name fewer agents and groups")
    return token


def read_token(token: str, key: str, now: datetime) -> Pass | None:
    """The pass that a token stands for; None where it was not signed with this key, or has expired."""
    prefix, _, signed = token.partition(".")
    payload, _, mac = signed.partition(".")
    if prefix != PREFIX or len(token) > MAX_TOKEN or not token.isascii():
        return None
    # before anything of it is read: nobody without the key gets further than here
    if not hmac.compare_digest(mac, _mac(key, payload.encode())):
        return None
    held = _read(payload)
    return held if held and now.timestamp() < held.expires else None


def _read(payload: str) -> Pass | None:
    try:
        return Pass.model_validate_json(urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
    except (Error, ValidationError):
        return None


def _mac(key: str, payload: bytes) -> str:
    return hmac.new(key.encode(), _PURPOSE + payload, "sha256").hexdigest()
