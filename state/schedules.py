"""Cron lines as settings: five fields and, if it is not UTC, a time zone; or `off`."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Annotated, Final
from zoneinfo import ZoneInfo

from pydantic import AfterValidator

OFF: Final = "off"
_CRON_FIELDS: Final = 5


def split_cron(line: str) -> tuple[str, str] | None:
    """Return the five cron fields and the name of the time zone, or None if the schedule is off."""
    if line == OFF:
        return None
    parts = line.split()
    return " ".join(parts[:_CRON_FIELDS]), _zone_name(parts)


def _zone_name(parts: Sequence[str]) -> str:
    """Return the name of the time zone behind the cron fields, or UTC without one."""
    if len(parts) > _CRON_FIELDS:
        return parts[_CRON_FIELDS]
    return "UTC"


def _checked(line: str) -> str:
    parts = line.split()
    if line == OFF:
        return line
    if len(parts) not in (_CRON_FIELDS, _CRON_FIELDS + 1) or not _fires(" ".join(parts[:_CRON_FIELDS])):
        raise ValueError(
            "must be a cron line with an optional time zone, such as `0 4 * * sun Europe/Lisbon`, or `off`"
        )
    try:
        ZoneInfo(_zone_name(parts))
    except (ValueError, OSError, KeyError):
        raise ValueError("must end with a time zone such as Europe/Lisbon, or without one") from None
    return " ".join(parts)


@lru_cache(maxsize=64)  # 7 ms for each line, at each reading of the settings
def _fires(cron: str) -> bool:
    """Return whether the fields are valid and name a day that exists: not 30 February."""
    from croniter import CroniterError, croniter  # 20 ms, for schedules alone

    try:
        croniter(cron).get_next()
    except CroniterError:
        return False
    return True


CronLine = Annotated[str, AfterValidator(_checked)]
