"""`mnemic maintenance`: runs are shown, done and undone; `mnemic update`: a memory is pinned, tagged and weighed."""

import json
from dataclasses import replace

import psycopg
import pytest

from mnemic.state.records import NewMemory
from tests.background.test_maintenance import pass_days
from tests.service.cli.conftest import Command, prepare
from tests.support.server import Clone
from tests.support.worlds import identity, memory, remember

AGENT = ("--agent", "harbor")
PERSON = (*AGENT, "--user", "ana")
MAINTENANCE = ("maintenance", *AGENT)


@pytest.fixture
def stored(clean_db: Clone) -> NewMemory:
    """A memory of Ana's that is searched."""
    new = replace(memory("Ana sails to Faro."), category="activity")
    prepare(clean_db, lambda db: remember(db, identity(), new))
    return new


def test_a_run_is_shown_first_done_listed_and_undone(
    mnemic: Command, stored: NewMemory, superuser: psycopg.Connection
) -> None:
    pass_days(superuser, 61)
    assert json.loads(mnemic(*MAINTENANCE, "--json").stdout) == []
    assert mnemic(*MAINTENANCE, "--now", "--dry-run").exit_code == 2
    shown = json.loads(mnemic(*MAINTENANCE, "--dry-run", "--json").stdout)
    assert (shown["is_dry_run"], shown["counts"]["unused"]) == (True, 1)

    done = mnemic(*MAINTENANCE, "--now")
    newest, _ = json.loads(mnemic(*MAINTENANCE, "--json").stdout)
    listed = mnemic(*MAINTENANCE)

    assert (done.exit_code, newest["is_dry_run"], newest["actor"]) == (0, False, "administrator")
    assert f"--run {newest['id']}" in done.stderr
    assert "unused 1" in done.stdout
    assert listed.stdout.count("unused 1") == 2
    assert stored.content not in done.stdout + listed.stdout
    assert json.loads(mnemic("memories", *PERSON, "--json").stdout) == []

    assert mnemic("undo", *AGENT, "--run", newest["id"], "--yes").exit_code == 0
    (back,) = json.loads(mnemic("memories", *PERSON, "--json").stdout)
    assert back["id"] == str(stored.id)


def test_a_memory_is_pinned_tagged_and_weighed(mnemic: Command, stored: NewMemory) -> None:
    values = ("--pin", "--tag", "sea", "--tag", "plan", "--importance", 4, "--until", "2026-07-01T00:00:00Z")
    changed = json.loads(mnemic("update", stored.id, *PERSON, *values, "--json").stdout)
    assert (changed["pinned"], changed["tags"], changed["importance"]) == (True, ["sea", "plan"], 4)
    assert changed["valid_until"].startswith("2026-07-01")

    again = mnemic("update", stored.id, *PERSON, "--no-pin", "--no-tags")

    assert (again.exit_code, "pinned: False" in again.stdout, "sea" in again.stdout) == (0, True, False)
    assert mnemic("update", stored.id, *PERSON).exit_code == 2
