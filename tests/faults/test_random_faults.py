"""Faults anywhere in the work of several processes: every job is done exactly once, and what fails says how.

What the checker finds where a guard is missing is shown by the controls of faults at known points, in
`test_frozen_worker` and the two `test_killed_...`: where these here strike, chance decides.
"""

import random

import pytest

from tests.faults.checker import check_exactly_once
from tests.faults.crashing import CrashingServer
from tests.faults.fleet import Fleet, cut_connections, freeze_worker, kill_database, kill_worker
from tests.faults.jobs import Job, job
from tests.faults.traps import TrappedModel
from tests.support.scripted import scripted_settings
from tests.support.server import Clone

pytestmark = pytest.mark.thorough


def some_jobs(count: int) -> list[Job]:
    """Sessions of several users of several agents, ten or so of each user, so that consolidations become due, too."""
    users = max(2, count // 10)
    return [job(number, user=f"user-{number % users}", agent=f"agent-{number % users % 3}") for number in range(count)]


def test_connections_that_the_server_ends_lose_and_double_nothing(clean_db: Clone, model: TrappedModel) -> None:
    jobs = some_jobs(12)
    settings = scripted_settings(clean_db, model, lease_seconds=1)
    Fleet(settings, size=2).run(jobs, faults=[cut_connections(clean_db)] * 5, seed=5)

    with clean_db.as_superuser() as superuser:
        check_exactly_once(superuser, jobs)


@pytest.mark.parametrize(
    ("count", "size", "each", "seed"),
    [
        pytest.param(20, 3, 1, 11),
        *[pytest.param(300, 5, 8, seed, marks=pytest.mark.slow) for seed in (1, 2, 3)],
    ],
)
def test_every_job_is_done_once_whatever_happens(
    crashing: CrashingServer, model: TrappedModel, count: int, size: int, each: int, seed: int
) -> None:
    jobs = some_jobs(count)
    settings = scripted_settings(crashing.clone, model, lease_seconds=1, pool_timeout_seconds=0.5)
    faults = [*[kill_worker] * 3, *[freeze_worker] * 2, kill_database(crashing), cut_connections(crashing.clone)] * each
    Fleet(settings, size=size).run(jobs, faults=random.Random(seed).sample(faults, len(faults)), seed=seed)

    with crashing.clone.as_superuser() as superuser:
        check_exactly_once(superuser, jobs)
