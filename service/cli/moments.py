"""Moments as they are written on the command line."""

from contextlib import suppress
from datetime import datetime
from typing import Final

from mnemic.state.errors import InvalidInputError

#: A seq is an integer of 64 bits; a longer number is no time either, and refused as such.
MOST_DIGITS: Final = 19


def to_time(written: str, option: str) -> datetime:
    """A time with its zone.

    Raises:
        InvalidInputError: it is none, or names no zone; the message says what to write.
    """
    with suppress(ValueError):
        moment = datetime.fromisoformat(written)
        if moment.tzinfo is not None:
            return moment
    raise InvalidInputError(f"{option}: write a time with its zone, such as 2026-03-02T09:14:00Z")


def to_moment(written: str, option: str) -> int | datetime:
    """A seq of the history, or a time with its zone.

    Raises:
        InvalidInputError: it is neither; the message says what to write.
    """
    if written.isascii() and written.isdigit() and len(written) < MOST_DIGITS:
        return int(written)
    return to_time(written, option)
