"""Reads conversation files: JSON lines, or one array of OpenAI-style messages; a bad line is named and left out."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, BinaryIO

from pydantic import AfterValidator, AliasChoices, Field, StrictStr

from mnemic.operations.messages.incoming_message import Part, Said
from mnemic.operations.messages.normalize import KNOWN_ROLES
from mnemic.service.cli.repeats import Repeats
from mnemic.state.errors import InvalidInputError
from mnemic.state.identity import HostId

#: A file of this ending holds one array, any other one message a line.
ARRAY_SUFFIX = ".json"
#: Of a message 32,000 characters are kept; in JSON's own escapes they take 384,000 bytes at most.
MAX_LINE_BYTES = 1 << 20
#: An array is read whole, into several times its size.
MAX_ARRAY_BYTES = 64 << 20


def _known_role(role: str) -> str:
    if role not in KNOWN_ROLES:
        raise ValueError("is none of user, assistant, tool, system and developer")
    return role


class _Said(Said):
    """One message as files have it."""

    session: HostId
    role: Annotated[HostId, AfterValidator(str.lower), AfterValidator(_known_role)]
    author: HostId | None = Field(default=None, validation_alias=AliasChoices("author", "name"))
    #: None: a tool call without words.
    content: StrictStr | list[StrictStr | Part] | None


@dataclass(frozen=True, kw_only=True)
class Line:
    """A message that can be observed."""

    session: str
    message: dict[str, Any]

    @property
    def size(self) -> int:
        """Characters of the content."""
        return len(self.message.get("content") or "")


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

    _repeats: Repeats = field(default_factory=Repeats)
    #: Who speaks where a user's message names nobody.
    speaker: str | None = None

    def close(self) -> None:
        """Forgets what was read; use `contextlib.closing`."""
        self._repeats.close()

    def read(self, path: Path) -> Iterator[Line | Malformed]:
        """The messages and the malformed lines of a file, in order; it is never held as a whole.

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
        if not isinstance(item, dict):
            reason = "not a message: a JSON object with role and content is"
            return Malformed(file=str(path), line=number, reason=reason)
        if path.suffix == ARRAY_SUFFIX:
            item = {**item, "session": path.stem}
        try:
            said = _Said.of(item)
        except InvalidInputError as error:
            return Malformed(file=str(path), line=number, reason=str(error))
        message = said.model_dump(include={"role", "author", "user", "time"}, exclude_none=True)
        return Line(
            session=said.session,
            message={**message, "content": said.text, "id": said.id or self._name(said)},
        )

    def _name(self, said: _Said) -> str:
        fingerprint = said.fingerprint(said.user or said.author or self.speaker, said.text)
        times = self._repeats.count(f"{said.session}\x1f{fingerprint}")
        return f"{fingerprint}-{times}"


@dataclass(frozen=True)
class _Broken:
    """What is not even JSON."""

    reason: str


def _items(path: Path) -> Iterator[object]:
    """What each line or item holds; None for an empty line."""
    with path.open("rb") as file:
        if path.suffix == ARRAY_SUFFIX:
            yield from _array(file, path)
        else:
            yield from map(_parse, _lines(file))


def _array(file: BinaryIO, path: Path) -> list[object]:
    data = file.read(MAX_ARRAY_BYTES + 1)
    if len(data) > MAX_ARRAY_BYTES:
        raise InvalidInputError(
            f"{path} is larger than {MAX_ARRAY_BYTES >> 20} MiB: write one message a line, each with its session, into"
            f" a file that does not end in {ARRAY_SUFFIX}; such files may have any size"
        )
    found = _parse(data)
    if not isinstance(found, list):
        reason = found.reason if isinstance(found, _Broken) else "it holds no array"
        raise InvalidInputError(f"{path}: {reason}; a {ARRAY_SUFFIX} file is one array of messages")
    return [_Broken("not a message") if item is None else item for item in found]


def _lines(file: BinaryIO) -> Iterator[bytes | None]:
    """Each line; None for one that is too long to be a message, of which only a piece is held at a time."""
    while line := file.readline(MAX_LINE_BYTES + 1):
        if len(line) <= MAX_LINE_BYTES:
            yield line
            continue
        while line and not line.endswith(b"\n"):
            line = file.readline(MAX_LINE_BYTES)
        yield None


def _parse(data: bytes | None) -> object:
    """What the JSON says; None for an empty line."""
    if data is None:
        return _Broken(f"longer than {MAX_LINE_BYTES:,} bytes")
    if not data.strip():
        return None
    try:
        text = data.decode("utf-8-sig")  # some editors put a byte order mark first
        parsed: object = json.loads(text, object_pairs_hook=_once, parse_constant=_no_constant)
    except UnicodeDecodeError:
        return _Broken("not UTF-8")
    except _RepeatedKeyError:
        return _Broken("the same key stands in it twice")
    except (ValueError, RecursionError):
        return _Broken("not JSON")
    return parsed if parsed is not None else _Broken("not a message")


class _RepeatedKeyError(ValueError):
    """Which of the values was meant, nobody knows."""


def _once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise _RepeatedKeyError
    return found


def _no_constant(name: str) -> object:
    raise ValueError(f"{name} is not JSON")
