"""Rows of the hash chain, as an export of the audit writes them and storage reads them."""

from hashlib import sha256
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from mnemic.state.own_names import OwnNames

Hex = Annotated[str, Field(pattern=r"^([0-9a-f]{2})*$")]


class AuditLine(BaseModel, metaclass=OwnNames):
    """One JSON line of an audit file."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, hide_input_in_errors=True, defer_build=True)


class ChainRow(AuditLine):
    """One row of the chain; a person's own row has the hashed text, and the contents if they still exist."""

    revision: int
    prev: Hex
    hash: Hex
    #: The hashed text as an object, for readers of the file.
    row: dict[str, Any] | None = None
    #: None for a row of another person.
    text: str | None = None
    salt: Hex | None = None
    #: In the database's own form, which the digests cover.
    before: str | None = None
    after: str | None = None


def first_hash(agent_id: str) -> bytes:
    """Return the predecessor hash of the first row of an agent's history."""
    return sha256(agent_id.encode()).digest()
