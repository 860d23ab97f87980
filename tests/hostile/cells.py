"""What one bad value did at one entrance: refused with a typed error that does not quote it, or stored clean."""

import json
import traceback
import unicodedata
from collections.abc import Awaitable, Callable
from functools import cache
from typing import Any

import psycopg
from psycopg import sql

from mnemic.state.errors import CategoryRefusedError, ConfigurationError, InvalidInputError, MissingIdentityError
from tests.hostile.bad_values import CANARY

REFUSALS = (InvalidInputError, MissingIdentityError, ConfigurationError, CategoryRefusedError)
#: The longest text that may be stored: a message.
MAX_CHARS = 32_000
MAX_MESSAGE_OF_AN_ERROR = 1000


@cache
def tables(superuser: psycopg.Connection) -> tuple[str, ...]:
    """Those of the connection's database, which no bad value makes more."""
    rows = superuser.execute("select tablename from pg_tables where schemaname = 'mnemic' order by 1").fetchall()
    return tuple(row[0] for row in rows)


def counts(superuser: psycopg.Connection) -> dict[str, int]:
    """Rows of every table, in one statement."""
    each = [
        sql.SQL("select {}, count(*) from {}").format(sql.Literal(name), sql.Identifier("mnemic", name))
        for name in tables(superuser)
    ]
    return dict(superuser.execute(sql.SQL(" union all ").join(each)).fetchall())


def stored_texts(superuser: psycopg.Connection) -> list[str]:
    """Every string in every row, keys of JSON objects included."""
    found: list[str] = []
    for name in tables(superuser):
        rows = superuser.execute(sql.SQL("select to_jsonb(t)::text from {} t").format(sql.Identifier("mnemic", name)))
        for (row,) in rows.fetchall():
            _gather(json.loads(row), found)
    return found


def _gather(value: Any, found: list[str]) -> None:
    if isinstance(value, str):
        found.append(value)
    elif isinstance(value, list):
        for item in value:
            _gather(item, found)
    elif isinstance(value, dict):
        _gather([*value, *value.values()], found)


def unclean(text: str) -> str | None:
    """What should not have been stored of a text."""
    if len(text) > MAX_CHARS:
        return f"{len(text)} characters"
    allowed = "\n\t\u200c\u200d"
    bad = {char for char in text if unicodedata.category(char) in ("Cc", "Cf", "Cs") and char not in allowed}
    return f"characters {sorted(map(ascii, bad))}" if bad else None


def quoted(error: BaseException) -> bool:
    """Whether the error, as anybody would print or log it, repeats what was given."""
    shown = "".join(traceback.format_exception(error))
    return any(CANARY in text for text in (str(error), repr(error), shown))


async def wrong_with(superuser: psycopg.Connection, act: Callable[[], Awaitable[object]]) -> str | None:
    """What is wrong with the way a bad value was met; None: nothing."""
    before = counts(superuser)
    try:
        await act()
    except REFUSALS as error:
        if quoted(error):
            return "the error repeats what was given"
        if len(str(error)) > MAX_MESSAGE_OF_AN_ERROR:
            return f"a message of {len(str(error))} characters"
        if counts(superuser) != before:
            return "refused, and written all the same"
    except Exception as error:  # noqa: BLE001 - whatever it is, it is the finding
        return f"raised {type(error).__name__}: {str(error)[:100]!a}"
    return None
