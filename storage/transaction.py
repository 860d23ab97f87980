"""One open transaction: its statements, their values in the cheapest form, and its operations.

A `.sql` file has a statement after its name in the form `-- name --` and a comment. Vectors are sent in binary form,
never as text of Python floats; they are stored and compared as half floats.
"""

import asyncio
import re
from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cache, lru_cache
from hashlib import md5
from importlib import resources
from types import MappingProxyType
from typing import Any, Final, LiteralString, TypeVar, cast
from uuid import UUID, uuid4

from pgvector import HalfVector, Vector
from psycopg import AsyncConnection, AsyncCursor, AsyncRawCursor
from psycopg.rows import AsyncRowFactory, RowMaker, class_row, tuple_row
from psycopg.types.json import Jsonb

from mnemic.state.errors import ConcurrentChangeError
from mnemic.state.identity import Identity
from mnemic.state.records import Memory
from mnemic.state.times import at_offset
from mnemic.storage.sql_text import fill

Row = TypeVar("Row")

_NAME = re.compile(r"^-- (\w+) --$", re.MULTILINE)
_ESCAPED, _BACKSLASHED = re.compile(r'["\\]'), r"\\\g<0>"
_PART = re.compile(r"/\*(\w+)\*/(.*?)/\*end\*/", re.DOTALL)
_MEMORY = re.compile(r"((?:\w+\.)?)\{memory\}")
_VALUE = re.compile(r"%\((\w+)\)[sb]")
#: Column of the offset, in minutes, and the columns of times that are read at it.
_OFFSET: Final = "utc_offset"
_LOCAL: Final = frozenset({"said_at", "valid_from", "valid_until", "dated", "since"})
#: Columns that hold a session's id, or scope keys.
_SESSIONS: Final = frozenset({"session_id", "source_session_id", "scope_key", "scope_keys"})
_SESSION: Final = "session:"
#: Values of statements that hold scope keys.
_KEY_VALUES: Final = frozenset({"key", "keys", "own", "scope_key", "scope_keys", "counted_key"})
#: Rows that become records without a break; for memories they take the event loop 8 ms.
_ROWS_AT_ONCE: Final = 1000
_CALL: LiteralString = "select f.* from {}({}) as f"
#: Each part reads the one before, so the longer timeout is set before the lock on the head, and reset after it.
_CALL_WITH_HEAD: LiteralString = (
    "with patient as materialized (select set_config('lock_timeout', %(head)s, true)), found as materialized (select"
    " f.* from patient cross join lateral {}({}) as f)"
    " select set_config('lock_timeout', %(lock)s, true), found.* from found"
)


def load_statements(noun: str) -> Mapping[str, LiteralString]:
    """Return all statements of `storage/sql/<noun>.sql` by name; they are literals, since they ship with the package.

    `{memory}` in them, or `m.{memory}`, is replaced by the columns of a memory's record and the offset of its times.
    """
    text = resources.files("mnemic.storage.sql").joinpath(f"{noun}.sql").read_text(encoding="utf-8")
    text = fill(_MEMORY.sub(lambda match: _memory_columns(match[1]), text))
    _, *parts = _NAME.split(text)
    statements: dict[str, LiteralString] = {}
    for name, body in zip(parts[::2], parts[1::2], strict=True):
        statements[name] = cast(LiteralString, body.strip())
    return MappingProxyType(statements)


def _memory_columns(table: str) -> str:
    """Return the columns of a memory's record; only its author sees the session of a shared memory."""
    columns = [f"{table}{field.name}" for field in fields(Memory)]
    is_own = f"%(all_sessions)s or is_personal({table}scope_key) or {table}actor_id = %(reader_id)s"
    session = f"{table}source_session_id"
    columns[columns.index(session)] = f"case when {is_own} then {session} end as source_session_id"
    return ", ".join([*columns, f"{table}{_OFFSET}"])


@cache
def with_parts(statement: LiteralString, *names: str) -> LiteralString:
    """Return the statement without its parts `/*name*/ ... /*end*/` of other names: unused parts cost time too."""

    def replacement(part: re.Match[str]) -> str:
        if part[1] in names:
            return part[2]
        return ""

    return _PART.sub(replacement, statement)


@cache
def numbered(statement: LiteralString) -> tuple[bytes, tuple[str, ...]]:
    """Return the statement with `$1`, `$2` ... in the place of its named values, and their names in that order.

    psycopg does the same, but does not cache statements of more than 4,096 characters: 0.35 ms of every search.
    """
    names = tuple(dict.fromkeys(_VALUE.findall(statement)))
    places: dict[str, str] = {}
    for place, name in enumerate(names, start=1):
        places[name] = f"${place}"
    text = _VALUE.sub(lambda value: places[value[1]], statement).replace("%%", "%")
    return text.encode(), names


@lru_cache(maxsize=1024)
def array_text(elements: tuple[str, ...]) -> str:
    """Return texts as a Postgres array literal; a list costs psycopg ten times as much each time."""
    quoted: list[str] = []
    for element in elements:
        escaped = _ESCAPED.sub(_BACKSLASHED, element)
        quoted.append(f'"{escaped}"')
    return "{" + ",".join(quoted) + "}"


class SingleVector(Vector):
    """A vector of single floats from any sequence; pgvector accepts only a list or a numpy array."""

    def __init__(self, vector: Sequence[float]) -> None:
        self._value = array("f", vector)


class HalfVectors(list[HalfVector | SingleVector | None]):
    """An array of vectors for `halfvec[]`; None for a pending embedding."""


def half_vectors(vectors: Iterable[Sequence[float] | None]) -> HalfVectors:
    """Return the vectors for a statement; the server rounds them to half floats ten times as fast as Python."""
    converted = HalfVectors()
    for vector in vectors:
        if vector is None:
            converted.append(None)
        else:
            converted.append(SingleVector(vector))
    return converted


def first_column(rows: Iterable[tuple[Any, ...]]) -> list[Any]:
    """Return the first value of each row."""
    return [row[0] for row in rows]


@dataclass(frozen=True)
class ScopedTransaction:
    """One open transaction that sees only the scope keys of one identity."""

    connection: AsyncConnection
    identity: Identity
    #: All scope keys that the transaction may use; statements name them too.
    scope_keys: tuple[str, ...]
    #: Id under which the identity's session is stored; None without a session.
    stored_session_id: str | None
    #: Time limits of the waits for another transaction's row, and for the agent's head.
    lock: str
    head: str

    async def execute(self, statement: LiteralString, values: Mapping[str, Any]) -> AsyncCursor[tuple[Any, ...]]:
        """Run one statement; its values always include `agent_id` and `scope_keys`."""
        return await self._run(tuple_row, statement, values)

    async def rows(
        self, record: type[Row], statement: LiteralString, values: Mapping[str, Any], *, for_host: bool = False
    ) -> list[Row]:
        """Return the rows of one statement as records, or as dicts; its column names are the fields.

        If the rows have the column `utc_offset`, their times are read at that offset.

        Args:
            record: the type of each row.
            statement: with its values by name.
            values: of the statement.
            for_host: return all sessions by the host's ids, not only that of the identity. Such an id may belong to two
                sessions, so no row is found by it.
        """
        read_session = self.host_session if for_host else self._own_session
        return await _fetch_all(await self._run(_local_rows(record, read_session), statement, values))

    async def tuples(self, statement: LiteralString, values: Mapping[str, Any]) -> list[tuple[Any, ...]]:
        """Return the rows of one statement unchanged, for many rows of many columns: dicts cost four times as much."""
        return await _fetch_all(await self.execute(statement, values))

    async def _run(
        self, row_factory: AsyncRowFactory[Row], statement: LiteralString, values: Mapping[str, Any]
    ) -> AsyncCursor[Row]:
        text, names = numbered(statement)
        by_name = self._with_own_values(values)
        ordered: list[Any] = []
        for name in names:
            value = by_name[name]
            if isinstance(value, tuple):
                value = list(value)  # the driver would send a tuple as a row
            ordered.append(value)
        return await AsyncRawCursor(self.connection, row_factory=row_factory).execute(text, ordered, binary=True)

    def _with_own_values(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return the values of a statement with those of the transaction; session ids become the stored ones."""
        identity = self.identity
        by_name: dict[str, Any] = {
            "agent_id": identity.agent_id,
            "scope_keys": self.scope_keys,
            "reader_id": identity.user_id,
            "all_sessions": False,
            **values,
        }
        if self.stored_session_id == identity.session_id:
            return by_name
        for name, value in by_name.items():
            by_name[name] = self._as_stored(name, value)
        return by_name

    def stored_key(self, key: str) -> str:
        """Return the scope key under which one of the identity's scope keys is stored."""
        if self.stored_session_id is not None and key == f"{_SESSION}{self.identity.session_id}":
            return f"{_SESSION}{self.stored_session_id}"
        return key

    def stored_keys(self, keys: Iterable[str]) -> list[str]:
        """Return the scope keys under which the identity's scope keys are stored."""
        return [self.stored_key(key) for key in keys]

    def _as_stored(self, name: str, value: Any) -> object:
        """Return a session's id or scope keys as they are stored; any other value is returned unchanged."""
        if name == "session_id" and value == self.identity.session_id:
            return self.stored_session_id
        if name not in _KEY_VALUES or value is None:
            return value
        if isinstance(value, str):
            return self.stored_key(value)
        return self.stored_keys(value)

    def _own_session(self, stored: str) -> str:
        """Return the host's id, or scope key, of the identity's session; any other one as it is stored."""
        prefix = _SESSION if stored.startswith(_SESSION) else ""
        if self.stored_session_id is not None and stored == f"{prefix}{self.stored_session_id}":
            return f"{prefix}{self.identity.session_id}"
        return stored

    def host_session(self, stored: str) -> str:
        """Return the host's id, or scope key, of a session that is stored for the identity's user."""
        own = self._own_session(stored)
        if own != stored or self.identity.user_id is None or stored == self.identity.session_id:
            return own
        suffix = "~" + md5(self.identity.user_id.encode(), usedforsecurity=False).hexdigest()[:12]
        return stored.removesuffix(suffix)

    async def find_session(self, session_id: str | None) -> str | None:
        """Return the id under which a session of the caller is stored for the identity's user."""
        if session_id is None or self.identity.user_id is None or session_id == self.identity.session_id:
            return session_id
        ((stored,),) = await self.call("stored_session", self.identity.agent_id, session_id, self.identity.user_id)
        return str(stored)

    async def call(
        self, function: LiteralString, *values: object, form: LiteralString = _CALL
    ) -> list[tuple[Any, ...]]:
        """Return the rows of one of the database's functions.

        Args:
            function: name of the function.
            values: in the order of its parameters.
            form: statement with places for the function and its values.
        """
        by_name: dict[str, Any] = {}
        places: list[str] = []
        for place, value in enumerate(values):
            by_name[f"value{place}"] = value
            places.append(f"%(value{place})s")
        statement = form.format(function, ", ".join(places))
        return await self.tuples(statement, {"head": self.head, "lock": self.lock, **by_name})

    async def call_with_head(self, function: LiteralString, *values: object) -> list[tuple[Any, ...]]:
        """Return the rows of a function that begins an operation or locks the agent's head itself.

        The wait for the head is longer than for any other row: a frozen process may hold it until the server ends that
        process's transaction.
        """
        rows = await self.call(function, *values, form=_CALL_WITH_HEAD)
        return [row[1:] for row in rows]

    async def begin_operation(
        self, reason: str, *, run_id: str | None = None, meta: Mapping[str, Any] | None = None
    ) -> UUID:
        """Begin an operation: lock the agent's head and store in it the values that the audit triggers record.

        Args:
            reason: a code such as `formation`; never text from a conversation.
            run_id: the graph run, if any.
            meta: figures about the operation, without contents.
        """
        op_id = uuid4()
        await self.call_with_head(
            "begin_operation",
            op_id,
            self.identity.actor,
            reason,
            self.stored_session_id,
            run_id,
            Jsonb(dict(meta or {})),
        )
        return op_id


def serialization_failure() -> ConcurrentChangeError:
    """Return the error after which `Database.write` repeats its transaction."""
    error = ConcurrentChangeError("another user began a session of this id meanwhile; nothing was written")
    error.sqlstate = "40001"
    return error


def _local_rows(record: type[Row], host_session: Callable[[str], str]) -> AsyncRowFactory[Row]:
    """Return a factory of records with local times and the host's session ids."""

    def make(cursor: AsyncCursor[Any]) -> RowMaker[Row]:
        names = [column.name for column in cursor.description or ()]
        sessions = _SESSIONS.intersection(names)
        if _OFFSET not in names and not sessions:
            return class_row(record)(cursor)

        def local_row(values: Sequence[Any]) -> Row:
            row = dict(zip(names, values, strict=True))
            for name in sessions:
                row[name] = _of_host(row[name], host_session)
            offset = row.pop(_OFFSET, 0)
            if offset:
                for name in _LOCAL & row.keys():
                    row[name] = row[name] and at_offset(row[name], offset)
            return record(**row)

        return local_row

    return make


def _of_host(value: Any, host_session: Callable[[str], str]) -> Any:
    """Return a session's id, its scope key or a list of scope keys in the form of the host."""
    if isinstance(value, list):
        return [_of_host(item, host_session) for item in value]
    if isinstance(value, str) and "~" in value:
        return host_session(value)
    return value


async def _fetch_all(cursor: AsyncCursor[Row]) -> list[Row]:
    """Read all rows; after each part of many rows, let the event loop run its other tasks."""
    rows = await cursor.fetchmany(_ROWS_AT_ONCE)
    while len(rows) < cursor.rowcount:
        await asyncio.sleep(0)
        rows += await cursor.fetchmany(_ROWS_AT_ONCE)
    if len(rows) > _ROWS_AT_ONCE:  # the caller processes them in a later callback
        await asyncio.sleep(0)
    return rows
