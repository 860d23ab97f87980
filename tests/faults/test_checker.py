"""Each thing that `check_exactly_once` looks for is found where it is: a checker that sees nothing proves nothing."""

from collections.abc import Mapping
from typing import LiteralString

import psycopg
import pytest

from tests.faults.checker import AUDIT, CHECKS, LOST_IN_TEXT, what_is_wrong
from tests.faults.jobs import job
from tests.faults.processes import StartWorker

pytestmark = pytest.mark.thorough

JOBS = [job(1), job(2)]

#: Damage by what it must be found as; triggers and foreign keys are off.
DAMAGE: Mapping[str, LiteralString] = {
    "a message is lost or stored twice": "delete from messages where place = (select max(place) from messages)",
    "a message is not formed": "update messages set formed_by = null where session_id = 'job-1'",
    "a message was formed by an operation that history does not know": "delete from history where revision < 3",
    "a session was formed in several operations": (
        "update messages set formed_by = (select op_id from history where revision = 1) where place % 2 = 0"
    ),
    "what a session told is not stored exactly once": (
        "update memories set content = replace(content, 'crate 1', 'crate 2') where kind = 'fact'"
    ),
    AUDIT: "update entries set searchable = not searchable",
    "a memory has no source, or one that another operation formed": "delete from sources",
    "a kept message cannot be found": "delete from entries where kind = 'message'",
    "a reflection was absorbed by what is not the living text of its scope": (
        "update memories set consolidated_into = gen_random_uuid() where state = 'absorbed'"
    ),
    LOST_IN_TEXT: "update memories set content = 'Ana cares about crate 1.' where kind = 'consolidation'",
}


@pytest.fixture
def formed(start_worker: StartWorker, superuser: psycopg.Connection) -> psycopg.Connection:
    """Two sessions, formed and consolidated."""
    worker = start_worker(user_threshold=2)
    for told in JOBS:
        worker.do("observe", told.who, told.messages)
        worker.do("form", told.who)
    return superuser


def test_every_damage_is_found_as_what_it_is(formed: psycopg.Connection) -> None:
    assert set(DAMAGE) == CHECKS
    assert what_is_wrong(formed, JOBS) == {}
    for name, damage in DAMAGE.items():
        with formed.transaction(force_rollback=True):
            formed.execute("set local session_replication_role = replica; set local search_path = mnemic, public")
            formed.execute(damage)
            assert name in what_is_wrong(formed, JOBS)
    assert what_is_wrong(formed, JOBS) == {}
