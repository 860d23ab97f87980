"""Bearer tokens of the server (JWT), signed by us, that say who somebody is and until when.

Whoever holds one is that person; nothing is kept of it anywhere, so it cannot be taken back before it expires, but by a
new key for everybody.
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
#: Whom a token is for; another form gets another number.
_AUDIENCE: Final = "mnemic pass 1"
#: When it ends is compared with the moment that is given.
_OPTIONS: Final[Options] = {"verify_exp": False}
#: Characters of a token: servers take 64 KiB of headers at most, and one for two people's groups has some hundred.
MAX_TOKEN: Final = 16_384
#: Ten years: whoever needs longer has no use for an end.
MAX_DAYS: Final = 3_650


class TokenClaims(BaseModel):
    """Who somebody is, and what they may name; by the names that JWT has for it in a token, by ours everywhere else."""

    model_config = ConfigDict(
        frozen=True, validate_by_name=True, loc_by_alias=False, hide_input_in_errors=True, defer_build=True
    )

    user: Annotated[HostId, Field(alias="sub")]
    #: The only agents they may talk with; none: all.
    agents: Annotated[tuple[HostId, ...], Field(max_length=MAX_GROUPS)]
    #: The groups they belong to.
    groups: Annotated[tuple[HostId, ...], Field(max_length=MAX_GROUPS)]
    #: Seconds since 1970, UTC: from then on it is worth nothing.
    expires: Annotated[int, Field(alias="exp")]

    def admits(self, user: str, agent: str) -> bool:
        """Whether what this user has with this agent is the holder's."""
        return user == self.user and (not self.agents or agent in self.agents)


def new_token(
    user: str, agents: Sequence[str], groups: Sequence[str], key: str, *, days: int, now: datetime
) -> tuple[str, datetime]:
    """A signed bearer token that holds for so many days, and when it ends.

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
    """The claims that a token carries; None where it was not signed with this key, or has expired."""
    if len(token) > MAX_TOKEN or not token.isascii():
        return None
    try:
        payload = jwt.decode(token, _signing(key), algorithms=[_ALGORITHM], audience=_AUDIENCE, options=_OPTIONS)
        claims = TokenClaims.model_validate(payload)
    except (jwt.InvalidTokenError, ValidationError):
        return None
    return claims if now.timestamp() < claims.expires else None


def _signing(key: str) -> bytes:
    """Of as many bits as the algorithm wants, and for this purpose alone."""
    return hmac.digest(key.encode(), _AUDIENCE.encode(), "sha256")
