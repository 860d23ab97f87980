"""Translate the driver's errors for a caller. Their texts quote rows and values, so no word of them is passed on."""

import re
from functools import cache
from typing import Final

from psycopg import DataError, Error, InterfaceError, OperationalError
from psycopg_pool import PoolClosed, PoolTimeout

from mnemic.state.errors import (
    ClosedError,
    ConcurrentChangeError,
    DatabaseSetupError,
    DatabaseUnavailableError,
    InvalidInputError,
    MnemicError,
    RefusedError,
)

_Kind = tuple[type[MnemicError], str]

_UNAVAILABLE: Final[_Kind] = (DatabaseUnavailableError, DatabaseUnavailableError.__doc__ or "")
_UNSTORABLE: Final[_Kind] = (InvalidInputError, "a value cannot be stored as it is; nothing was written")
_REFUSED: Final[_Kind] = (RefusedError, "the database refuses this change")
_INCOMPLETE: Final[_Kind] = (
    DatabaseSetupError,
    "the database lacks what this version of Mnemic works with: run `mnemic db migrate`, then `mnemic doctor`",
)
_FAILED: Final[_Kind] = (MnemicError, "the database failed and nothing was written: look into its log")
_MISUSED: Final[_Kind] = (
    MnemicError,
    "the database driver refused a statement of Mnemic; nothing was written. Report it with the log",
)
#: By SQLSTATE, or by its first two characters, which name a class of errors.
_BY_STATE: Final[dict[str, _Kind]] = {
    "40": (ConcurrentChangeError, ConcurrentChangeError.__doc__ or ""),
    "23505": (ConcurrentChangeError, "another run stored the same meanwhile; nothing was written. Run it again"),
    "23": (InvalidInputError, "a value breaks a rule of the database; nothing was written"),
    "22": _UNSTORABLE,
    "54": _UNSTORABLE,  # too large for a column or an index
    "42501": _REFUSED,
    "P0001": _REFUSED,
    "25006": (
        DatabaseUnavailableError,
        "the database takes no changes now: it is read-only, as a standby is; try again",
    ),
    **dict.fromkeys(("42P01", "42703", "42883", "3F"), _INCOMPLETE),
    "55P03": (DatabaseUnavailableError, "another transaction held a lock for too long; try again"),
    "57014": (DatabaseUnavailableError, "the database cut a statement that took too long; try again"),
    "25P03": (DatabaseUnavailableError, "the database ended an idle transaction; try again"),
    **dict.fromkeys(("08", "28", "53", "57", "58"), _UNAVAILABLE),
}
#: Without a SQLSTATE it was the driver or the pool that failed; the first that fits.
_BY_CLASS: Final[tuple[tuple[type[Exception] | tuple[type[Exception], ...], _Kind], ...]] = (
    (PoolClosed, (ClosedError, ClosedError.__doc__ or "")),
    (
        PoolTimeout,
        (
            DatabaseUnavailableError,
            "no connection to the database came free in time: raise MNEMIC_POOL_SIZE, or run `mnemic doctor` to see "
            "whether the database answers",
        ),
    ),
    ((OperationalError, InterfaceError), _UNAVAILABLE),
    ((DataError, UnicodeEncodeError), _UNSTORABLE),
)


@cache
def _reasons() -> tuple[str, ...]:
    """Return the beginnings of our own guards' messages, which are safe to show. Other messages may quote rows."""
    from mnemic.storage.schema import bodies  # for refusals alone, 60 ms

    reasons: list[str] = []
    for body in bodies().values():
        reasons += re.findall(r"raise exception '([^'%]+)", body)
    return (*reasons, "permission denied", "new row violates row-level security policy")


def typed_error(error: Error | UnicodeEncodeError) -> MnemicError:
    """Return the project's error for an error of the driver, with its SQLSTATE and without its text."""
    state = error.sqlstate if isinstance(error, Error) else None
    if not state:
        kind, message = _kind_by_class(error)
        return kind(message)
    kind, message = _BY_STATE.get(state) or _BY_STATE.get(state[:2]) or _FAILED
    message = message.rstrip(".")
    if isinstance(error, Error) and kind is RefusedError:
        message += _refusal(error.diag.message_primary or "")
    typed = kind(f"{message} (SQLSTATE {state})")
    typed.sqlstate = state
    return typed


def _kind_by_class(error: Exception) -> _Kind:
    for classes, kind in _BY_CLASS:
        if isinstance(error, classes):
            return kind
    return _MISUSED


def _refusal(message: str) -> str:
    """Return the reason at the beginning of a database message, with a colon before it; empty for any other message."""
    refusal = ""
    for reason in _reasons():
        if message.startswith(reason):
            refusal += f": {reason}"
    return refusal
