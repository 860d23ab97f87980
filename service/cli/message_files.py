"""Reader of conversation files: JSON lines, or one array of OpenAI-style messages; a bad line is reported."""

import hashlib
import json
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from pydantic import AliasChoices, Field, StrictStr, model_validator

from mnemic.memory.messages.incoming import IncomingMessage
from mnemic.memory.runtime.message_parts import Part
from mnemic.state.checking import field_name, nearest
from mnemic.state.errors import InvalidInputError
from mnemic.state.identity import HostId

#: Suffix of files with one array; other files have one message a line.
ARRAY_SUFFIX = ".json"
#: The 32,000 characters of a stored message take at most 384,000 bytes in JSON's escapes.
MAX_LINE_BYTES = 1 << 20
#: An array is parsed as a whole, which takes several times its size.
MAX_ARRAY_BYTES = 64 << 20


#: Fields of OpenAI's messages without text of the conversation.
_OF_OPENAI = frozenset(
    {"tool_calls", "tool_call_id", "function_call", "refusal", "annotations", "audio", "reasoning", "reasoning_content"}
)


class FileMessage(IncomingMessage):
    """One message of a file."""

    session: HostId
    author: HostId | None = Field(default=None, validation_alias=AliasChoices("author", "name"))
    #: None for a tool call without text.
    content: StrictStr | list[StrictStr | Part] | None

    @model_validator(mode="before")
    @classmethod
    def _has_known_fields(cls, fields: dict[Any, Any]) -> dict[Any, Any]:
        for name in fields:
            if name not in cls.model_fields and name not in _OF_OPENAI:
                raise ValueError(
                    f"{field_name(str(name))}: not a field of a message{nearest(str(name), cls.model_fields)}"
                )
        return fields

    def fields(self) -> dict[str, Any]:
        """Return the fields of the message for `Mnemic.observe`."""
        return self.model_dump(exclude={"session"}, exclude_none=True)


@dataclass(frozen=True, kw_only=True)
class Malformed:
    """A line, or an item of an array, that is no message; numbers begin at 1."""

    file: str
    line: int
    reason: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.reason}"


def read_messages(paths: Iterable[Path], speaker: str | None = None) -> Iterator[FileMessage | Malformed]:
    """Yield the messages and the malformed lines of files, in order; files of lines are streamed.

    A message without an id gets one from its text and the number of equal messages before it in the session. So a file
    that is read again, corrected or with new lines at its end, adds only new messages.

    Args:
        paths: paths of the files.
        speaker: author of user messages without one.

    Raises:
        InvalidInputError: if a file cannot be read, or a file with the suffix of arrays is no array.
    """
    # Counts of texts, in a temporary SQLite file with 2 MB in memory; a dict takes 100 MB for a million texts. The file
    # is deleted with the connection, so it needs no journal.
    with closing(sqlite3.connect("", isolation_level=None)) as seen:
        seen.execute("pragma journal_mode = off")
        seen.execute("create table seen (digest blob primary key, times integer not null) without rowid")
        for path in paths:
            try:
                with path.open("rb") as file:
                    items = _array(file, path) if path.suffix == ARRAY_SUFFIX else _lines(file)
                    for number, item in enumerate(items, start=1):
                        if item != b"":
                            yield _read_item(item, path, number, speaker, seen)
            except OSError as error:
                raise InvalidInputError(f"{path} cannot be read: {error.strerror}") from error


def _read_item(
    item: object, path: Path, number: int, speaker: str | None, seen: sqlite3.Connection
) -> FileMessage | Malformed:
    try:
        if isinstance(item, bytes) and len(item) > MAX_LINE_BYTES:
            raise InvalidInputError(f"longer than {MAX_LINE_BYTES:,} bytes")
        fields = _parse(item) if isinstance(item, bytes) else item
        if not isinstance(fields, dict):
            raise InvalidInputError("not a message: it must be a JSON object with role and content")
        if path.suffix == ARRAY_SUFFIX:
            fields = {**fields, "session": path.stem}
        parsed = FileMessage.of(fields)
    except InvalidInputError as error:
        return Malformed(file=str(path), line=number, reason=str(error))
    if parsed.id is None:
        text = "\x1f".join(filter(None, (parsed.text, parsed.attached)))
        fingerprint = parsed.fingerprint(parsed.user or parsed.author or speaker, text)
        digest = hashlib.sha256(f"{parsed.session}\x1f{fingerprint}".encode()).digest()
        seen.execute("insert into seen values (?, 1) on conflict do update set times = times + 1", (digest,))
        (times,) = seen.execute("select times from seen where digest = ?", (digest,)).fetchone()
        parsed.id = f"{fingerprint}-{times}"
    return parsed


def _array(file: BinaryIO, path: Path) -> list[object]:
    data = file.read(MAX_ARRAY_BYTES + 1)
    if len(data) > MAX_ARRAY_BYTES:
        raise InvalidInputError(
            f"{path} is larger than {MAX_ARRAY_BYTES >> 20} MiB: write one message a line, each with its session, into"
            f" a file with another suffix than {ARRAY_SUFFIX}; such files may have any size"
        )
    try:
        items = _parse(data)
        if not isinstance(items, list):
            raise InvalidInputError("not an array")
    except InvalidInputError as error:
        raise InvalidInputError(f"{path}: {error}; a {ARRAY_SUFFIX} file is one array of messages") from None
    return items


def _lines(file: BinaryIO) -> Iterator[bytes]:
    """Yield each line without white space around it; a line that is too long is cut one byte above the limit."""
    while line := file.readline(MAX_LINE_BYTES + 1):
        if len(line) <= MAX_LINE_BYTES:
            yield line.strip()
            continue
        yield line
        while len(line) > MAX_LINE_BYTES and not line.endswith(b"\n"):
            line = file.readline(MAX_LINE_BYTES + 1)


def _parse(data: bytes) -> object:
    """Return the value of a JSON text.

    Raises:
        InvalidInputError: if the text is no JSON.
    """
    try:
        # some editors write a byte order mark; NaN and Infinity are no JSON, and `int` refuses them
        return json.loads(data.decode("utf-8-sig"), object_pairs_hook=_once, parse_constant=int)
    except UnicodeDecodeError:
        raise InvalidInputError("not UTF-8") from None
    except InvalidInputError:
        raise
    except (ValueError, RecursionError):
        raise InvalidInputError("not JSON") from None


def _once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """Return an object; refuse one that has a key twice."""
    fields = dict(pairs)
    if len(fields) < len(pairs):
        raise InvalidInputError("a key occurs twice")
    return fields
