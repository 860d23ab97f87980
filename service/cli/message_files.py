"""Reads conversation files: JSON lines, or one array of OpenAI-style messages; a bad line is named and left out."""

import hashlib
import json
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from pydantic import AliasChoices, Field, StrictStr, model_validator

from mnemic.memory.messages.incoming import KNOWN_ROLES, IncomingMessage
from mnemic.memory.runtime.message_parts import Part
from mnemic.state.checking import field_name, nearest
from mnemic.state.errors import InvalidInputError
from mnemic.state.identity import HostId

#: A file of this ending holds one array, any other one message a line.
ARRAY_SUFFIX = ".json"
#: Of a message 32,000 characters are kept; in JSON's own escapes they take 384,000 bytes at most.
MAX_LINE_BYTES = 1 << 20
#: An array is read whole, into several times its size.
MAX_ARRAY_BYTES = 64 << 20


#: Fields of OpenAI's messages that hold no words of the conversation.
_OF_OPENAI = frozenset(
    {"tool_calls", "tool_call_id", "function_call", "refusal", "annotations", "audio", "reasoning", "reasoning_content"}
)


class FileMessage(IncomingMessage):
    """One message as files have it."""

    session: HostId
    author: HostId | None = Field(default=None, validation_alias=AliasChoices("author", "name"))
    #: None: a tool call without words.
    content: StrictStr | list[StrictStr | Part] | None

    @model_validator(mode="before")
    @classmethod
    def _has_known_fields(cls, fields: dict[Any, Any]) -> dict[Any, Any]:
        for name in fields:
            if name not in cls.model_fields and name not in _OF_OPENAI:
                raise ValueError(
                    f"{field_name(str(name))}: no field of a message{nearest(str(name), cls.model_fields)}"
                )
        return fields

    def fields(self) -> dict[str, Any]:
        """The message as it is observed."""
        return self.model_dump(exclude={"session"}, exclude_none=True)


@dataclass(frozen=True, kw_only=True)
class Malformed:
    """A line, or an item of an array, that is no message; counted from 1."""

    file: str
    line: int
    reason: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.reason}"


def read_messages(paths: Iterable[Path], speaker: str | None = None) -> Iterator[FileMessage | Malformed]:
    """The messages and the malformed lines of files, in order; no file of lines is held as a whole.

    A message without an id gets one from what it says and how often the session has said it before. So a file that is
    read again, after a bad line was mended or others were added at its end, brings only what is new.

    Args:
        paths: of the files.
        speaker: who speaks where a user's message names nobody.

    Raises:
        InvalidInputError: a file cannot be read, or is no array where its name says so.
    """
    # How often each text was seen, in a temporary file of SQLite's own with 2 MB of it in memory; a dict takes 100 MB
    # for a million texts. The file dies with the connection: nothing is ever rolled back.
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
        found = _parse(item) if isinstance(item, bytes) else item
        if not isinstance(found, dict):
            raise InvalidInputError("not a message: a JSON object with role and content is")
        parsed = FileMessage.of({**found, "session": path.stem} if path.suffix == ARRAY_SUFFIX else found)
        if parsed.role not in KNOWN_ROLES:
            raise InvalidInputError("role: is none of user, assistant, tool, system and developer")
    except InvalidInputError as error:
        return Malformed(file=str(path), line=number, reason=str(error))
    if parsed.id is None:
        said = "\x1f".join(text for text in (parsed.text, parsed.attached) if text)
        fingerprint = parsed.fingerprint(parsed.user or parsed.author or speaker, said)
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
            f" a file that does not end in {ARRAY_SUFFIX}; such files may have any size"
        )
    try:
        found = _parse(data)
        if not isinstance(found, list):
            raise InvalidInputError("it holds no array")
    except InvalidInputError as error:
        raise InvalidInputError(f"{path}: {error}; a {ARRAY_SUFFIX} file is one array of messages") from None
    return found


def _lines(file: BinaryIO) -> Iterator[bytes]:
    """Each line without white space around it; of one that is too long only so much that this is seen."""
    while line := file.readline(MAX_LINE_BYTES + 1):
        yield line if len(line) > MAX_LINE_BYTES else line.strip()
        while len(line) > MAX_LINE_BYTES and not line.endswith(b"\n"):
            line = file.readline(MAX_LINE_BYTES + 1)


def _parse(data: bytes) -> object:
    """What the JSON says.

    Raises:
        InvalidInputError: why it is none.
    """
    try:
        # some editors put a byte order mark first; NaN and Infinity are no JSON, and to `int` no numbers either
        return json.loads(data.decode("utf-8-sig"), object_pairs_hook=_once, parse_constant=int)
    except UnicodeDecodeError:
        raise InvalidInputError("not UTF-8") from None
    except InvalidInputError:
        raise
    except (ValueError, RecursionError):
        raise InvalidInputError("not JSON") from None


def _once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """An object; of a key that stands in it twice nobody knows which value was meant."""
    found = dict(pairs)
    if len(found) < len(pairs):
        raise InvalidInputError("the same key stands in it twice")
    return found
