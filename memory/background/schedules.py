"""Times of cron lines with a time zone."""

import hashlib
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from mnemic.state.schedules import split_cron


def next_fire(line: str, after: datetime) -> datetime | None:
    """Return the first time at which a schedule fires after a given one, in UTC, or None if it is off.

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
    # with local times: croniter fires an aware time that comes twice each time
    local_times = croniter(cron, after.astimezone(zone).replace(tzinfo=None))
    while True:
        fire = _first_occurrence(local_times.get_next(datetime), zone)
        if fire > after:
            return fire


def _first_occurrence(local_time: datetime, zone: ZoneInfo) -> datetime:
    """Return the first occurrence of a local time in UTC; the time of the change if the zone skips it."""
    fire = local_time.replace(tzinfo=zone).astimezone(UTC)
    if fire.astimezone(zone).replace(tzinfo=None) == local_time:
        return fire
    before = local_time.replace(tzinfo=zone, fold=1).astimezone(UTC)
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
