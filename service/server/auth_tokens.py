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
#: The audience of a token; another form gets another number.
_AUDIENCE: Final = "mnemic pass 1"
#: The end is compared with the moment in the argument, not with the clock.
_OPTIONS: Final[Options] = {"verify_exp": False}
#: Characters of a token: servers take 64 KiB of headers at most, and one for two people's groups has some hundred.
MAX_TOKEN: Final = 16_384
#: Ten years; a longer limit would be none.
MAX_DAYS: Final = 3_650


class TokenClaims(BaseModel):
    """User, groups and agents of a token's holder; with JWT's names in a token, and ours elsewhere."""

    model_config = ConfigDict(
        frozen=True, validate_by_name=True, loc_by_alias=False, hide_input_in_errors=True, defer_build=True
    )

    user: Annotated[HostId, Field(alias="sub")]
    #: The only agents they may use; empty for all.
    agents: Annotated[tuple[HostId, ...], Field(max_length=MAX_GROUPS)]
    #: The groups they belong to.
    groups: Annotated[tuple[HostId, ...], Field(max_length=MAX_GROUPS)]
    #: Seconds since 1970, UTC: from then on it is worth nothing.
    expires: Annotated[int, Field(alias="exp")]

    def admits(self, user: str, agent: str) -> bool:
        """Return whether the holder is this user and may use this agent."""
        return user == self.user and (not self.agents or agent in self.agents)


def new_token(
    user: str, agents: Sequence[str], groups: Sequence[str], key: str, *, days: int, now: datetime
) -> tuple[str, datetime]:
    """Return a signed bearer token for so many days, and its end.

    Raises:
        InvalidInputError: an id cannot be used, there are too many, the days are none, or it names so much that no
            server would take it.
    """
    if not 1 <= days <= MAX_DAYS:
        raise InvalidInputError(f"days: a token holds for 1 to {MAX_DAYS} days")
    ends = (now + timedelta(days=days)).replace(microsecond=0)
    named = {"user": user, "agents": tuple(agents), "groups": tuple(groups), "expires": int(ends.timestamp())}
    payload = {**validate(TokenClaims, named).model_dump(by_alias=True), "aud": _AUDIENCE}
    token = jwt.encode(payload, _signing(key), algorithm=_ALGORITHM)
    if len(token) > MAX_TOKEN:
        raise InvalidInputError("the token would be too long: name fewer agents and groups")
    return token, ends


def decode_token(token: str, key: str, now: datetime) -> TokenClaims | None:
    """Return the claims of a token; None if it was not signed with this key, or has expired."""
    if len(token) > MAX_TOKEN or not token.isascii():
        return None
    try:
        payload = jwt.decode(token, _signing(key), algorithms=[_ALGORITHM], audience=_AUDIENCE, options=_OPTIONS)
        claims = TokenClaims.model_validate(payload)
    except (jwt.InvalidTokenError, ValidationError):
        return None
    return claims if now.timestamp() < claims.expires else None


def _signing(key: str) -> bytes:
    """Derive a signing key of the algorithm's size, for tokens only."""
    return hmac.digest(key.encode(), _AUDIENCE.encode(), "sha256")
