"""Reads conversation files: JSON lines, or one array of OpenAI-style messages; a bad line is named and left out."""

import hashlib
import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, AliasChoices, BaseModel, ConfigDict, Field, ValidationError

from mnemic.nodes.incoming import KNOWN_ROLES
from mnemic.state.errors import InvalidInputError
from mnemic.state.identity import HostId

#: A file of this ending holds one array, any other one message a line.
ARRAY_SUFFIX = ".json"


def _known_role(role: str) -> str:
    if role.lower() not in KNOWN_ROLES:
        raise ValueError("is none of user, assistant, tool, system and developer")
    return role


class _Fields(BaseModel):
    """One message as files have it; what else stands in it is left alone."""

    model_config = ConfigDict(extra="ignore")

    session: HostId
    role: Annotated[str, AfterValidator(_known_role)]
    author: HostId | None = Field(default=None, validation_alias=AliasChoices("author", "name"))
    user: HostId | None = None
    #: None: a tool call without words.
    content: str | list[str | dict[str, Any]] | None
    time: datetime | None = None
    id: Annotated[str, Field(min_length=1)] | int | None = None


@dataclass(frozen=True, kw_only=True)
class Line:
    """A message that can be observed."""

    session: str
    message: dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Malformed:
    """A line, or an item of an array, that is no message; counted from 1."""

    file: str
    line: int
    reason: str


@dataclass
class Reader:
    """Reads files one after the other, and tells messages that are alike apart.

    A message without an id gets one from what it says and how often the session has said it before. So a file that is
    read again, after a bad line was mended or others were added at its end, brings only what is new.
    """

    _seen: Counter[bytes] = field(default_factory=Counter)

    def read(self, path: Path) -> Iterator[Line | Malformed]:
        """The messages and the malformed lines of a file, in order.

        Raises:
            InvalidInputError: the file cannot be read, or is no array where its name says so.
        """
        try:
            for number, item in enumerate(_items(path), start=1):
                if item is not None:
                    yield self._line(item, path, number)
        except OSError as error:
            raise InvalidInputError(f"{path} cannot be read: {error.strerror}") from error

    def _line(self, item: object, path: Path, number: int) -> Line | Malformed:
        if isinstance(item, _Broken):
            return Malformed(file=str(path), line=number, reason=item.reason)
        if path.suffix == ARRAY_SUFFIX and isinstance(item, dict):
            item = {**item, "session": path.stem}
        try:
            fields = _Fields.model_validate(item)
        except ValidationError as error:
            return Malformed(file=str(path), line=number, reason=_reason(error))
        message = fields.model_dump(exclude={"session"}, exclude_none=True)
        message["id"] = str(fields.id) if fields.id is not None else self._name(fields.session, message)
        return Line(session=fields.session, message=message)

    def _name(self, session: str, message: dict[str, Any]) -> str:
        digest = hashlib.sha256(json.dumps([session, message], sort_keys=True, default=str).encode()).digest()
        self._seen[digest] += 1
        return f"{digest.hex()}-{self._seen[digest]}"


@dataclass(frozen=True)
class _Broken:
    """What is not even JSON."""

    reason: str


def _items(path: Path) -> Iterator[object]:
    """What each line or item holds; None for an empty line."""
    if path.suffix == ARRAY_SUFFIX:
        found = _parse(path.read_bytes())
        if not isinstance(found, list):
            reason = found.reason if isinstance(found, _Broken) else "it holds no array"
            raise InvalidInputError(f"{path}: {reason}; a {ARRAY_SUFFIX} file is one array of messages")
        yield from found
        return
    with path.open("rb") as file:
        for line in file:
            yield _parse(line) if line.strip() else None


def _parse(data: bytes) -> object:
    try:
        parsed: object = json.loads(data.decode("utf-8-sig"))  # some editors put a byte order mark first
    except UnicodeDecodeError:
        return _Broken("not UTF-8")
    except (ValueError, RecursionError):
        return _Broken("not JSON")
    return parsed if parsed is not None else _Broken("not a message")


def _reason(error: ValidationError) -> str:
    """The first problem by the name of its field; never the value, which is somebody's words."""
    problem = error.errors(include_input=False, include_url=False)[0]
    if not problem["loc"]:
        return "not a message: a JSON object with role and content is"
    return f"{problem['loc'][0]}: {problem['msg'].removeprefix('Value error, ')}"
