"""Cron lines with a time zone: when a schedule fires next."""

import hashlib
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from mnemic.state.schedules import split_cron


def next_fire(line: str, after: datetime) -> datetime | None:
    """Return the first time after a moment at which a schedule fires, in UTC; None if it is off.

    A local time that a change to daylight saving skips fires at the change; one that comes twice fires once.

    Args:
        line: a validated cron line, such as `0 4 * * sun Europe/Lisbon`.
        after: an aware datetime.
    """
    from croniter import croniter  # 20 ms, for schedules alone

    parts = split_cron(line)
    if parts is None:
        return None
    cron, zone = parts
    local = after.astimezone(ZoneInfo(zone))
    fire: datetime = croniter(cron, local).get_next(datetime)
    return fire.astimezone(UTC)


def stagger(tenant_id: str, minutes: int) -> timedelta:
    """Return the delay of a tenant's runs, the same each time, below so many minutes."""
    if not minutes:
        return timedelta()
    digest = hashlib.sha256(tenant_id.encode()).digest()
    return timedelta(minutes=int.from_bytes(digest[:4]) % minutes)
