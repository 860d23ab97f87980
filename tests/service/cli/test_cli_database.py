"""`mnemic doctor` and `mnemic db` on real databases: sound, broken, empty, dumped and restored."""

import asyncio
import json
import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from mnemic.storage.embedded.binaries import find_binaries
from tests.service.cli.conftest import Command
from tests.support.server import Clone, Server, run_directory
from tests.support.worlds import identity, memory, remember

WHO = ("--agent", "harbor", "--user", "ana")
PASSWORD = "do-not-print"


def test_the_doctor_is_content_with_a_sound_database(mnemic: Command) -> None:
    result = mnemic("doctor")
    assert result.exit_code == 0
    assert "BROKEN" not in result.stdout
    assert all(finding["ok"] for finding in json.loads(mnemic("doctor", "--json").stdout))


def test_the_doctor_names_what_is_broken_and_other_commands_refuse(
    mnemic: Command, fresh_db: Clone, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MNEMIC_DATABASE_URL", fresh_db.service_dsn)
    with fresh_db.as_superuser() as superuser:
        superuser.execute("alter table mnemic.memories no force row level security")
    result = mnemic("doctor", "--json")
    assert result.exit_code == 1
    broken = [finding for finding in json.loads(result.stdout) if not finding["ok"]]
    assert [finding["name"] for finding in broken] == ["row security"]
    assert "memories" in broken[0]["remedy"]
    assert "BROKEN" in mnemic("doctor").stdout
    refused = mnemic("memories", *WHO)
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert "row security" in refused.stderr


def test_migrate_sets_up_an_empty_database_and_says_what_ran(
    mnemic: Command, empty_db: Clone, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MNEMIC_DATABASE_URL", empty_db.service_dsn)
    monkeypatch.setenv("MNEMIC_MIGRATION_URL", empty_db.superuser_dsn)
    first = mnemic("db", "migrate")
    assert first.exit_code == 0
    assert "ran 0001_" in first.stdout
    assert json.loads(mnemic("db", "migrate", "--json").stdout) == {"ran": []}
    assert mnemic("doctor").exit_code == 0


@pytest.mark.parametrize("words", [("migrate",), ("dump", "all.dump")])
def test_a_server_of_ones_own_needs_the_dsn_that_may_set_it_up(mnemic: Command, words: tuple[str, ...]) -> None:
    result = mnemic("db", *words)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "MNEMIC_MIGRATION_URL" in result.stderr


@pytest.mark.parametrize(
    ("variable", "words"),
    [("MNEMIC_DATABASE_URL", ("doctor",)), ("MNEMIC_MIGRATION_URL", ("db", "migrate"))],
)
def test_what_is_no_dsn_is_refused_without_being_quoted(
    mnemic: Command, monkeypatch: pytest.MonkeyPatch, variable: str, words: tuple[str, ...]
) -> None:
    monkeypatch.setenv(variable, f"postgres:/{PASSWORD}@nowhere")
    result = mnemic(*words)
    assert (result.exit_code, result.stdout) == (2, "")
    assert variable in result.stderr
    assert PASSWORD not in result.stderr


def test_a_server_that_is_not_there_is_one_line(mnemic: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    # port 1 of this machine: nothing listens there
    monkeypatch.setenv("MNEMIC_MIGRATION_URL", f"postgresql://mnemic:{PASSWORD}@127.0.0.1:1/mnemic")
    result = mnemic("db", "migrate")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "no connection" in result.stderr
    assert PASSWORD not in result.stderr


def test_a_dump_restores_into_a_database_that_works(
    mnemic: Command, fresh_db: Clone, empty_db: Clone, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asyncio.run(_remember(fresh_db))
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


async def _remember(clone: Clone) -> None:
    async with clone.database() as db:
        await remember(db, identity(), memory("Ana keeps bees."))


def test_a_dump_that_fails_leaves_the_older_file_as_it_was(
    mnemic: Command, fresh_db: Clone, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "all.dump"
    file.write_text("the older dump", encoding="utf-8")
    monkeypatch.setenv("PATH", f"{find_binaries()}{os.pathsep}{os.environ['PATH']}")
    # row-level security hides everything from this role, so that its dump would be empty
    monkeypatch.setenv("MNEMIC_MIGRATION_URL", fresh_db.service_dsn)
    result = mnemic("db", "dump", file)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "pg_dump ended with exit code 1" in result.stderr
    assert file.read_text(encoding="utf-8") == "the older dump"
    assert [path.name for path in tmp_path.iterdir()] == ["all.dump"]


def test_a_dump_into_a_directory_that_is_not_there_is_one_line(
    mnemic: Command, fresh_db: Clone, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", f"{find_binaries()}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("MNEMIC_MIGRATION_URL", fresh_db.superuser_dsn)
    result = mnemic("db", "dump", tmp_path / "missing" / "all.dump")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "cannot be written" in result.stderr


def test_without_pg_dump_on_path_the_message_says_what_to_install(
    mnemic: Command, fresh_db: Clone, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("MNEMIC_MIGRATION_URL", fresh_db.superuser_dsn)
    result = mnemic("db", "dump", tmp_path / "all.dump")
    assert result.exit_code == 2
    assert "pg_dump is not on PATH" in result.stderr


def test_the_embedded_server_needs_no_setting_but_its_directory(server: Server, tmp_path: Path) -> None:
    """In processes of their own, on the run's server, which they join as any second process does."""
    if server.log is None:
        pytest.skip("the tests run on a server of one's own")
    environment = {**os.environ, "MNEMIC_DATA_DIR": str(run_directory())}

    def run(*words: str) -> str:
        command = [sys.executable, "-m", "mnemic.service.cli", *words]
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout

    assert "ran" in json.loads(run("db", "migrate", "--json"))
    file = tmp_path / "all.dump"
    assert json.loads(run("db", "dump", str(file), "--json"))["bytes"] == file.stat().st_size > 0
    assert file.read_bytes().startswith(b"PGDMP")
