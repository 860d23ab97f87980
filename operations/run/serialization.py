"""Records to plain JSON and back: what a channel carries and what a node works with."""

from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

from pydantic import ConfigDict, TypeAdapter

from mnemic.state.changes import Delta
from mnemic.state.records import Found, Memory, Message, NewMemory, Standing
from mnemic.state.refinement import LedgerEntry, Turn

Record = TypeVar("Record", Message, Memory, NewMemory, Standing, Found, Delta, LedgerEntry, Turn)

#: Each is built when first used: a millisecond, which importing the graphs need not take.
_ADAPTERS: dict[type, TypeAdapter[Any]] = {
    record: TypeAdapter(list[record], config=ConfigDict(defer_build=True))  # type: ignore[valid-type]  # known types
    for record in Record.__constraints__
}


def to_plain(record: type[Record], items: Iterable[Record]) -> list[dict[str, Any]]:
    """Records as JSON-plain rows."""
    rows: list[dict[str, Any]] = _ADAPTERS[record].dump_python(list(items), mode="json")
    return rows


def from_plain(record: type[Record], rows: Sequence[dict[str, Any]]) -> list[Record]:
    """Rows as records again."""
    items: list[Record] = _ADAPTERS[record].validate_python(rows)
    return items
