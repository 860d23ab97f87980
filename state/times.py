"""Time zones of people by their names, and the offset from UTC that a stored time keeps."""

from datetime import UTC, datetime, timedelta, timezone, tzinfo
from functools import cache, lru_cache
from typing import Annotated, Final
from zoneinfo import ZoneInfo, available_timezones

from pydantic import AfterValidator, StrictStr

#: Offset of the farthest time zones, such as Kiritimati's, in minutes; the tables check the same.
MAX_OFFSET_MINUTES: Final = 14 * 60


@cache
def to_zone(name: str) -> tzinfo:
    """Return the time zone with this IANA name.

    Raises:
        ValueError: there is no such time zone, or this system has no data on time zones.
    """
    if name == "UTC":  # needs no data
        return UTC
    try:
        return ZoneInfo(name)
    except (ValueError, KeyError, OSError):  # a path, an unknown name, a folder
        raise ValueError("is no time zone known here; give an IANA name, such as Europe/Lisbon") from None


def load_zones() -> None:
    """Read the data of every time zone, for processes whose event loop must not read files, such as a server's."""
    for name in available_timezones():
        to_zone(name)


def _require_zone(name: str) -> str:
    to_zone(name)
    return name


#: IANA name of a time zone, such as `Europe/Lisbon`.
ZoneName = Annotated[StrictStr, AfterValidator(_require_zone)]


@lru_cache(maxsize=256)
def _fixed(minutes: int) -> tzinfo:
    return timezone(timedelta(minutes=minutes)) if minutes else UTC


def offset_minutes(moment: datetime) -> int:
    """Return the offset of an aware time from UTC, in whole minutes."""
    offset = moment.utcoffset() or timedelta()
    return round(offset.total_seconds() / 60)


def at_offset(moment: datetime, minutes: int) -> datetime:
    """Return the same moment as a time at this offset from UTC."""
    return moment.astimezone(_fixed(minutes))


def local_time(moment: datetime, zone: tzinfo) -> datetime:
    """Return a time with a fixed offset: its own if it has one, else that of the zone.

    Of a local time that occurs twice, the first is meant, unless its `fold` is 1. One that a clock skips is read with
    the offset before the change.
    """
    if moment.utcoffset() is None:
        moment = moment.replace(tzinfo=zone)
    return at_offset(moment, offset_minutes(moment))
