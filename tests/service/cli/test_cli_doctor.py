"""`mnemic doctor` shows every check of a database with its remedy, and its exit code says whether one failed."""

import json

import pytest

from tests.service.cli.conftest import Command
from tests.support.server import Clone
from tests.support.set_ups import carry_out

HARMS = {
    "row security": "alter table mnemic.memories no force row level security",
    "views": "create view public.everything as select * from mnemic.memories",
    "privileges": "grant truncate on mnemic.history to mnemic_app",
    "functions": "alter function mnemic.erase_step reset search_path",
    "triggers": "alter table mnemic.history disable trigger append_only",
}


def test_all_that_is_broken_is_shown_at_once_and_mended_by_what_is_shown(
    mnemic: Command, fresh_db: Clone, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MNEMIC_DATABASE_URL", fresh_db.service_dsn)
    sound = mnemic("doctor", "--json")
    assert sound.exit_code == 0
    with fresh_db.as_superuser() as superuser:
        for harm in HARMS.values():
            superuser.execute(harm.encode())
    result = mnemic("doctor")
    assert result.exit_code == 1
    assert result.stdout.count("BROKEN") == len(HARMS)
    checks = [finding["name"] for finding in json.loads(sound.stdout)]
    assert all(name in result.stdout for name in checks)
    told = mnemic("doctor", "--json")
    assert told.exit_code == 1
    broken = {finding["name"]: finding["remedy"] for finding in json.loads(told.stdout) if not finding["ok"]}
    assert set(broken) == set(HARMS)
    shown = " ".join(result.stdout.split())
    assert "a superuser runs" in shown
    assert len(carry_out(fresh_db, "\n".join(broken.values()))) == len(HARMS)
    assert mnemic("doctor").exit_code == 0


def test_another_command_refuses_with_the_same_remedy(
    mnemic: Command, fresh_db: Clone, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MNEMIC_DATABASE_URL", fresh_db.service_dsn)
    with fresh_db.as_superuser() as superuser:
        superuser.execute("grant truncate on mnemic.history to mnemic_app")
    refused = mnemic("memories", "--agent", "harbor", "--user", "ana")
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert "`revoke truncate on mnemic.history from mnemic_app`" in " ".join(refused.stderr.split())
