"""When something counts as said: a clock may be wrong, and a time far ahead would win over all that comes after it."""

from collections.abc import Iterable
from datetime import datetime, timedelta
from itertools import accumulate

#: Clocks differ and time zones are mixed up; what lies further ahead was never said then.
MOST_AHEAD = timedelta(days=1)


def believed(given: Iterable[tuple[datetime, datetime]]) -> list[datetime]:
    """The times by which the messages of a conversation, in its order, are earlier or later than others.

    One that lies more than a day after its message was observed gives way to that of the message before it, or, where
    there is none, to when it was observed; and it is not later than any that comes after it.

    Args:
        given: when each message was said, as its host gave it, and when it was observed.
    """
    times: list[datetime] = []
    doubted: list[bool] = []
    before: datetime | None = None
    for time, observed in given:
        doubted.append(time - observed > MOST_AHEAD)
        if not doubted[-1]:
            before = time
        times.append(min(before or observed, observed) if doubted[-1] else time)
    least_to_come = list(accumulate(reversed(times), min))[::-1]
    return [least if doubt else time for time, doubt, least in zip(times, doubted, least_to_come, strict=True)]
