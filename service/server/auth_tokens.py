"""Bearer tokens of the server (JWT), signed by us: the identity of their holder and the end of their validity.

The holder of a token acts as its user. No token is stored, so it cannot be revoked before it expires, except by a new
key for all tokens.
"""

import hmac
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Annotated, Final

import jwt
from jwt.types import Options
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from mnemic.state.checking import validate
from mnemic.state.errors import InvalidInputError
from mnemic.state.identity import MAX_GROUPS, HostId

_ALGORITHM: Final = "HS256"
#: Audience of a token; another form of tokens gets another number.
_AUDIENCE: Final = "mnemic pass 1"
#: `decode_token` compares the end with its argument, not with the clock.
_OPTIONS: Final[Options] = {"verify_exp": False}
#: Maximum number of characters of a token; servers accept at most 64 KiB of headers.
MAX_TOKEN_LENGTH: Final = 16_384
#: Ten years.
MAX_DAYS: Final = 3_650


class TokenClaims(BaseModel):
    """User, groups and agents of a token's holder; with JWT's names in a token, and ours elsewhere."""

    model_config = ConfigDict(
        frozen=True, validate_by_name=True, loc_by_alias=False, hide_input_in_errors=True, defer_build=True
    )

    user: Annotated[HostId, Field(alias="sub")]
    #: Agents that the holder may use; empty for all.
    agents: Annotated[tuple[HostId, ...], Field(max_length=MAX_GROUPS)]
    #: Groups of the holder.
    groups: Annotated[tuple[HostId, ...], Field(max_length=MAX_GROUPS)]
    #: End of validity in seconds since 1970, UTC.
    expires: Annotated[int, Field(alias="exp")]

    def admits(self, user: str, agent: str) -> bool:
        """Return whether the holder is this user and may use this agent."""
        return user == self.user and (not self.agents or agent in self.agents)


def new_token(
    user: str, agents: Sequence[str], groups: Sequence[str], key: str, *, days: int, now: datetime
) -> tuple[str, datetime]:
    """Return a signed bearer token for so many days, and its end.

    Raises:
        InvalidInputError: if an id cannot be used, there are too many, the number of days is out of range, or the token
            would be too long for a server.
    """
    if not 1 <= days <= MAX_DAYS:
        raise InvalidInputError(f"days: a token is valid for 1 to {MAX_DAYS} days")
    ends = (now + timedelta(days=days)).replace(microsecond=0)
    fields = {"user": user, "agents": tuple(agents), "groups": tuple(groups), "expires": int(ends.timestamp())}
    payload = {**validate(TokenClaims, fields).model_dump(by_alias=True), "aud": _AUDIENCE}
    token = jwt.encode(payload, _signing(key), algorithm=_ALGORITHM)
    if len(token) > MAX_TOKEN_LENGTH:
        raise InvalidInputError("the token would be too long: name fewer agents and groups")
    return token, ends


def decode_token(token: str, key: str, now: datetime) -> TokenClaims | None:
    """Return the claims of a token; None if it was not signed with this key, or has expired."""
    if len(token) > MAX_TOKEN_LENGTH or not token.isascii():
        return None
    try:
        payload = jwt.decode(token, _signing(key), algorithms=[_ALGORITHM], audience=_AUDIENCE, options=_OPTIONS)
        claims = TokenClaims.model_validate(payload)
    except (jwt.InvalidTokenError, ValidationError):
        return None
    if now.timestamp() >= claims.expires:
        return None
    return claims


def _signing(key: str) -> bytes:
    """Derive a signing key of the algorithm's size, for tokens only."""
    return hmac.digest(key.encode(), _AUDIENCE.encode(), "sha256")
