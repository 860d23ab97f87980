"""`mnemic doctor`, `db` and `token` as an operator meets them: sound, broken, empty, dumped and restored databases."""

import json
import os
import shutil
import stat
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from mnemic import __version__
from mnemic.service.server.auth_tokens import decode_token
from mnemic.storage.embedded.binaries import find_binaries
from tests.service.cli.conftest import Command, prepare
from tests.support.mutating import carry_out
from tests.support.server import Clone, Server, run_directory
from tests.support.worlds import identity, memory, remember

WHO = ("--agent", "harbor", "--user", "ana")
KEY = "a key of sixteen characters"


def run_python(*words: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    command, env = [sys.executable, *words], {**os.environ, **environment}
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=60, check=False)


def test_what_is_broken_is_shown_and_mended_by_what_is_shown(
    mnemic: Command, fresh_db: Clone, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MNEMIC_DATABASE_URL", fresh_db.service_dsn)
    sound = mnemic("doctor", "--json")
    assert sound.exit_code == 0
    with fresh_db.as_superuser() as superuser:
        superuser.execute("grant truncate on mnemic.history to mnemic_app")
    refused = mnemic("memories", *WHO)  # as every other command
    assert (refused.exit_code, refused.stdout) == (2, "")
    result = mnemic("doctor")
    assert (result.exit_code, result.stdout.count("BROKEN")) == (1, 1)
    # vectors are looked at once the rest is sound
    assert all(finding["name"] in f"{result.stdout} vectors" for finding in json.loads(sound.stdout))
    (broken,) = (finding for finding in json.loads(mnemic("doctor", "--json").stdout) if not finding["ok"])
    for shown in (result.stdout, refused.stderr):
        assert "`revoke truncate on mnemic.history from mnemic_app`" in " ".join(shown.split())
    assert len(carry_out(fresh_db, broken["remedy"])) == 1
    assert mnemic("doctor").exit_code == 0


def test_migrate_sets_up_an_empty_database_and_says_what_ran(
    mnemic: Command, empty_db: Clone, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MNEMIC_DATABASE_URL", empty_db.service_dsn)
    monkeypatch.setenv("MNEMIC_MIGRATION_URL", empty_db.superuser_dsn)
    assert "ran 0001_" in mnemic("db", "migrate").stdout
    assert json.loads(mnemic("db", "migrate", "--json").stdout) == {"ran": []}
    assert mnemic("doctor").exit_code == 0


@pytest.mark.parametrize("words", [("migrate",), ("dump", "all.dump")])
def test_a_server_of_ones_own_needs_the_dsn_that_may_set_it_up(mnemic: Command, words: tuple[str, ...]) -> None:
    result = mnemic("db", *words)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "MNEMIC_MIGRATION_URL" in result.stderr


@pytest.mark.thorough
def test_a_dump_restores_into_a_database_that_works(
    mnemic: Command, fresh_db: Clone, empty_db: Clone, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepare(fresh_db, lambda db: remember(db, identity(), memory("Ana keeps bees.")))
    file = tmp_path / "all.dump"
    monkeypatch.setenv("PATH", f"{find_binaries()}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("MNEMIC_DATABASE_URL", fresh_db.service_dsn)
    monkeypatch.setenv("MNEMIC_MIGRATION_URL", fresh_db.superuser_dsn)
    result = mnemic("db", "dump", file, "--json")
    assert json.loads(result.stdout) == {"file": str(file), "bytes": file.stat().st_size}
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert [path.name for path in tmp_path.iterdir()] == ["all.dump"]

    restored = [shutil.which("pg_restore") or "", f"--dbname={empty_db.superuser_dsn}", "--exit-on-error", str(file)]
    subprocess.run(restored, check=True)
    monkeypatch.setenv("MNEMIC_DATABASE_URL", empty_db.service_dsn)
    monkeypatch.setenv("MNEMIC_MIGRATION_URL", empty_db.superuser_dsn)
    assert mnemic("db", "migrate").exit_code == 0
    assert mnemic("doctor").exit_code == 0
    assert "Ana keeps bees." in mnemic("query", "bees", *WHO).stdout


def test_a_dump_that_fails_is_one_line_and_leaves_the_older_file_as_it_was(
    mnemic: Command, clean_db: Clone, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "all.dump").write_text("the older dump", encoding="utf-8")
    for target, dsn, path, message in (
        ("missing/all.dump", clean_db.superuser_dsn, str(find_binaries()), "cannot be written"),
        ("all.dump", clean_db.superuser_dsn, "/nowhere", "pg_dump is not on PATH"),
        # row-level security hides everything from this role, so that its dump would be empty
        ("all.dump", clean_db.service_dsn, str(find_binaries()), "pg_dump ended with exit code 1"),
    ):
        monkeypatch.setenv("PATH", path)
        monkeypatch.setenv("MNEMIC_MIGRATION_URL", dsn)
        result = mnemic("db", "dump", tmp_path / target)
        assert (result.exit_code, result.stdout, message in result.stderr) == (2, "", True), message
        assert [file.read_text(encoding="utf-8") for file in tmp_path.iterdir()] == ["the older dump"]


@pytest.mark.thorough
def test_the_embedded_server_needs_no_setting_but_its_directory(server: Server, tmp_path: Path) -> None:
    """In processes of their own, on the run's server, which they join as any second process does."""
    directory, file = str(run_directory()), tmp_path / "all.dump"
    migrated = run_python("-m", "mnemic", "db", "migrate", "--json", MNEMIC_DATA_DIR=directory)
    assert "ran" in json.loads(migrated.stdout)
    dumped = run_python("-m", "mnemic", "db", "dump", str(file), "--json", MNEMIC_DATA_DIR=directory)
    assert json.loads(dumped.stdout)["bytes"] == file.stat().st_size > 0
    assert file.read_bytes().startswith(b"PGDMP")


def test_a_token_alone_is_on_standard_output_and_holds_for_its_days(
    mnemic: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    lacking = mnemic("token", "--user", "ana")
    assert (lacking.exit_code, lacking.stdout, "MNEMIC_SERVER_KEY" in lacking.stderr) == (2, "", True)
    monkeypatch.setenv("MNEMIC_SERVER_KEY", KEY)
    now = datetime.now(UTC)
    result = mnemic("token", "--user", "ana", "--agent", "guide", "--group", "harbor", "--group", "pier")
    assert (result.exit_code, "valid until" in result.stderr) == (0, True)
    held = decode_token(result.stdout.removesuffix("\n"), KEY, now)
    assert held is not None
    assert (held.user, held.agents, held.groups) == ("ana", ("guide",), ("harbor", "pier"))
    short = json.loads(mnemic("token", "--user", "ana", "--days", "3", "--json").stdout)["token"]
    assert decode_token(short, KEY, now + timedelta(days=2)) is not None
    assert decode_token(short, KEY, now + timedelta(days=4)) is None


@pytest.mark.thorough
def test_it_tells_its_version_and_its_commands_and_runs_as_a_module(mnemic: Command) -> None:
    assert mnemic("--version").stdout == f"{__version__}\n"
    assert "Long-term memory for LangGraph agents" in mnemic().output
    done = run_python("-m", "mnemic", "--version")
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{__version__}\n", "")


@pytest.mark.thorough
def test_a_server_with_a_key_that_is_too_short_ends_with_one_line() -> None:
    done = run_python("-c", "import mnemic.service.server.auth", MNEMIC_SERVER_KEY="short")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "mnemic: settings do not fit: MNEMIC_SERVER_KEY: must be a secret of at least 16 characters\n"
    assert run_python("-c", "import mnemic.service.server.auth", MNEMIC_SERVER_KEY="sixteen characters").returncode == 0
