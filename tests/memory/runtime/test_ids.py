"""Ids rise in the order they are made, also when the clock does not."""

import time
from itertools import pairwise
from uuid import RFC_4122

import pytest

from mnemic.memory.runtime.new_memories import rising_id


def test_ids_rise_also_when_the_clock_stands_still_or_goes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    now = time.time_ns()
    moments = iter([now, now, now, now - 10**12, now + 10**9])
    monkeypatch.setattr(time, "time_ns", lambda: next(moments))
    ids = [rising_id() for _ in range(5)]
    assert all(earlier < later for earlier, later in pairwise(ids))
    assert {(one.version, one.variant) for one in ids} == {(7, RFC_4122)}
