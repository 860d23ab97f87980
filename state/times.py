"""Time zones of people by their names, and the offset from UTC that a stored time keeps."""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from functools import cache, lru_cache
from itertools import accumulate
from typing import Annotated, Final
from zoneinfo import ZoneInfo, available_timezones

from pydantic import AfterValidator, StrictStr

#: Names in English; those of strftime follow the locale of the host application.
MONTHS = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)
#: Offset of the farthest time zones, such as Kiritimati's, in minutes; the tables check the same.
MAX_OFFSET_MINUTES: Final = 14 * 60
#: Longest time that a message may lie ahead of its observation, since clocks differ and time zones are mixed up.
MAX_AHEAD: Final = timedelta(days=1)


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
        raise ValueError("must be the IANA name of a time zone, such as Europe/Lisbon") from None


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


def long_date(time: datetime) -> str:
    """Return a date such as `8 May 2026`."""
    return f"{time.day} {MONTHS[time.month - 1]} {time.year}"


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


def plausible_times(times: Iterable[tuple[datetime, datetime]]) -> list[datetime]:
    """Return the times by which the messages of a conversation are ordered.

    A time is implausible if it lies more than a day after the observation of its message. The time of the message
    before it replaces it, or its observation if there is none before. No replaced time is later than one that follows.

    Args:
        times: for each message, in the order of the conversation, the host's time and the time of its observation.
    """
    plausible: list[datetime] = []
    replaced: list[int] = []
    previous: datetime | None = None
    for place, (time, observed) in enumerate(times):
        if time - observed <= MAX_AHEAD:
            previous = time
            plausible.append(time)
        else:
            replaced.append(place)
            plausible.append(min(previous or observed, observed))
    earliest_following = list(accumulate(reversed(plausible), min))
    earliest_following.reverse()
    for place in replaced:
        plausible[place] = earliest_following[place]
    return plausible
