"""Cron lines with a time zone: when a schedule fires next."""

import hashlib
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from mnemic.state.schedules import split_cron


def next_fire(line: str, after: datetime) -> datetime | None:
    """Return the first time after a moment at which a schedule fires, in UTC; None if it is off.

    A local time that a change to daylight saving skips fires at the change; one that comes twice fires the first time.

    Args:
        line: a validated cron line, such as `0 4 * * sun Europe/Lisbon`.
        after: an aware datetime.
    """
    from croniter import croniter  # 20 ms, for schedules alone

    parts = split_cron(line)
    if parts is None:
        return None
    cron, zone = parts[0], ZoneInfo(parts[1])
    # on the clock's face alone: croniter fires a time that comes twice each time
    faces = croniter(cron, after.astimezone(zone).replace(tzinfo=None))
    while (fire := _first_moment(faces.get_next(datetime), zone)) <= after:
        pass  # it came for the first time before
    return fire


def _first_moment(face: datetime, zone: ZoneInfo) -> datetime:
    """Return when a clock of the zone shows a time first, in UTC; the moment of the change if it skips that time."""
    fire = face.replace(tzinfo=zone).astimezone(UTC)
    if fire.astimezone(zone).replace(tzinfo=None) == face:
        return fire
    before = face.replace(tzinfo=zone, fold=1).astimezone(UTC)
    offset = before.astimezone(zone).utcoffset()
    while fire - before > timedelta(seconds=1):
        middle = before + (fire - before) / 2
        if middle.astimezone(zone).utcoffset() == offset:
            before = middle
        else:
            fire = middle
    return fire.replace(microsecond=0)


def stagger(tenant_id: str, minutes: int) -> timedelta:
    """Return the delay of a tenant's runs, the same each time, below so many minutes."""
    if not minutes:
        return timedelta()
    digest = hashlib.sha256(tenant_id.encode()).digest()
    return timedelta(minutes=int.from_bytes(digest[:4]) % minutes)
