"""Bearer tokens of the server (JWT), signed by us, that say who somebody is and until when.

Whoever holds one is that person; nothing is kept of it anywhere, so it cannot be taken back before it expires, but by a
new key for everybody.
"""

import hmac
from datetime import datetime, timedelta
from typing import Annotated, Final

import jwt
from jwt.types import Options
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from mnemic.state.checking import validate
from mnemic.state.errors import InvalidInputError
from mnemic.state.identity import MAX_GROUPS, HostId

_ALGORITHM: Final = "HS256"
#: Whom a token is for; another form gets another number.
_AUDIENCE: Final = "mnemic pass 1"
#: What has to be in it. When it ends is compared with the moment that is given.
_OPTIONS: Final[Options] = {"require": ["sub", "aud", "exp"], "verify_exp": False}
#: Characters of a token: servers take 64 KiB of headers at most, and one for two people's groups has some hundred.
MAX_TOKEN: Final = 16_384
#: Ten years: whoever needs longer has no use for an end.
MAX_DAYS: Final = 3_650


class TokenClaims(BaseModel):
    """Who somebody is, and what they may name."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True, defer_build=True)

    user: HostId
    #: The only agents they may talk with; none: all.
    agents: Annotated[tuple[HostId, ...], Field(max_length=MAX_GROUPS)] = ()
    #: The groups they belong to.
    groups: Annotated[tuple[HostId, ...], Field(max_length=MAX_GROUPS)] = ()
    #: Seconds since 1970, UTC: from then on it is worth nothing.
    expires: int

    def admits(self, user: str, agent: str) -> bool:
        """Whether what this user has with this agent is the holder's."""
        return user == self.user and (not self.agents or agent in self.agents)


def new_claims(user: str, agents: tuple[str, ...], groups: tuple[str, ...], *, days: int, now: datetime) -> TokenClaims:
    """Claims that hold for so many days.

    Raises:
        InvalidInputError: an id cannot be used, there are too many, or the days are none.
    """
    if not 1 <= days <= MAX_DAYS:
        raise InvalidInputError(f"days: a token holds for 1 to {MAX_DAYS} days")
    expires = int((now + timedelta(days=days)).timestamp())
    return validate(TokenClaims, {"user": user, "agents": agents, "groups": groups, "expires": expires})


def encode_token(claims: TokenClaims, key: str) -> str:
    """The claims as a signed bearer token.

    Raises:
        InvalidInputError: it names so much that no server would take it.
    """
    named = {"agents": list(claims.agents), "groups": list(claims.groups)}
    payload = {"sub": claims.user, **named, "exp": claims.expires, "aud": _AUDIENCE}
    token = jwt.encode(payload, _signing(key), algorithm=_ALGORITHM)
    if len(token) > MAX_TOKEN:
        raise InvalidInputError("the token would be too long: name fewer agents and groups")
    return token


def decode_token(token: str, key: str, now: datetime) -> TokenClaims | None:
    """The claims that a token carries; None where it was not signed with this key, or has expired."""
    if len(token) > MAX_TOKEN or not token.isascii():
        return None
    try:
        payload = jwt.decode(token, _signing(key), algorithms=[_ALGORITHM], audience=_AUDIENCE, options=_OPTIONS)
        user, expires = payload["sub"], payload["exp"]
        claims = TokenClaims(user=user, agents=payload["agents"], groups=payload["groups"], expires=expires)
    except (jwt.InvalidTokenError, LookupError, ValidationError):
        return None
    return claims if now.timestamp() < claims.expires else None


def _signing(key: str) -> bytes:
    """Of as many bits as the algorithm wants, and for this purpose alone."""
    return hmac.digest(key.encode(), _AUDIENCE.encode(), "sha256")
