"""`mnemic audit` as an administrator and a person meet it."""

import asyncio
import json
from pathlib import Path
from typing import Any

import psycopg
import pytest

from mnemic.policy.governance.audit import check_export
from mnemic.state.governance import EXPLANATIONS
from tests.service.cli.conftest import Command
from tests.support.audited import CUT, EVENTS, KEY, Story, tampered, tell
from tests.support.server import Clone

AGENT = ("--agent", "harbor")
ANA = (*AGENT, "--user", "ana")


@pytest.fixture
def story(clean_db: Clone, monkeypatch: pytest.MonkeyPatch) -> Story:
    monkeypatch.setenv("MNEMIC_ADMIN_URL", clean_db.administrator_dsn)
    monkeypatch.setenv("MNEMIC_ANCHOR_KEY", KEY)
    return asyncio.run(_told(clean_db))


async def _told(clone: Clone) -> Story:
    async with clone.database() as db:
        return await tell(clone, db)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "file"


def test_what_is_wrong_is_named_with_exit_code_1(mnemic: Command, superuser: psycopg.Connection, story: Story) -> None:
    whole = mnemic("audit", "verify", *AGENT)
    assert (whole.exit_code, whole.stdout) == (0, "nothing is wrong\n")
    assert "without --anchors" in whole.stderr
    assert json.loads(mnemic("audit", "verify", "--json").stdout) == []

    tampered(superuser, "update history set actor = 'nobody' where seq = 4")
    result, as_json = mnemic("audit", "verify"), mnemic("audit", "verify", *AGENT, "--json")
    assert (result.exit_code, as_json.exit_code) == (1, 1)
    assert f"hash: {EXPLANATIONS['hash']}" in " ".join(result.stdout.split())
    assert f"memory {story.porto}" in result.stdout
    (problem,) = json.loads(as_json.stdout)
    assert (problem["problem"], problem["seq"], problem["memory_id"]) == ("hash", 4, str(story.porto))
    assert problem["explanation"] == EXPLANATIONS["hash"]

    tampered(superuser, "update history set actor = 'nobody', prev = sha256('')", "delete from history_contents")
    found = len(json.loads(mnemic("audit", "verify", "--json").stdout))
    assert found > 50
    assert f"and {found - 50} more" in mnemic("audit", "verify").stdout


@pytest.mark.usefixtures("story")
def test_an_anchor_sees_the_end_cut_off(
    mnemic: Command, superuser: psycopg.Connection, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "60")  # a hash stays on one line, to be copied
    anchored = mnemic("audit", "anchor", *AGENT, file)
    newest = json.loads(file.read_text())["hash"]
    assert (anchored.exit_code, anchored.stdout) == (0, f"harbor: 17 rows, hash {newest}\n")
    assert json.loads(mnemic("audit", "anchor", *AGENT, file, "--json").stdout)["seq"] == 17
    assert mnemic("audit", "verify", "--anchors", file).exit_code == 0
    tampered(superuser, *CUT)
    seen, refused = mnemic("audit", "verify", "--anchors", file), mnemic("audit", "anchor", *AGENT, file)
    assert (seen.exit_code, seen.stderr) == (1, "")
    assert f"cut: {EXPLANATIONS['cut']}" in " ".join(seen.stdout.split())
    assert (refused.exit_code, "2 problems" in refused.stdout) == (2, True)  # each of the two anchors
    monkeypatch.delenv("MNEMIC_ANCHOR_KEY")
    keyless = mnemic("audit", "anchor", *AGENT, file)
    assert (keyless.exit_code, "MNEMIC_ANCHOR_KEY" in keyless.stderr) == (2, True)


@pytest.mark.usefixtures("story")
def test_a_persons_export_can_be_checked_and_overwrites_nothing(mnemic: Command, file: Path) -> None:
    printed = mnemic("audit", "export", *ANA)
    assert (printed.exit_code, printed.stdout.isascii()) == (0, True)
    assert mnemic("audit", "export", *ANA, "--output", file).stdout == ""
    assert file.read_text() == printed.stdout
    assert check_export(printed.stdout.splitlines()).own == 15
    checked = mnemic("audit", "check", file)
    assert checked.exit_code == 0
    assert "17 rows of agent harbor; 15 of them the person's own" in checked.stdout
    assert checked.stdout.endswith("nothing is wrong\n")
    for output in (file, file.parent / "no" / "such"):
        refused = mnemic("audit", "export", *ANA, "--output", output)
        assert (refused.exit_code, refused.stdout) == (2, "")
    assert file.read_text() == printed.stdout

    file.write_text(printed.stdout.replace("Lisbon", "London", 1))
    changed = mnemic("audit", "check", file)
    assert changed.exit_code == 1
    assert "line 3: the contents after are not those recorded" in changed.stdout
    assert json.loads(mnemic("audit", "check", file, "--json").stdout)["problems"][0]["line"] == 3
    file.write_text("x")
    assert mnemic("audit", "check", file).exit_code == 1
    assert mnemic("audit", "check", file.parent / "missing").exit_code == 2


@pytest.mark.usefixtures("story")
def test_the_log_is_of_operations_without_contents(mnemic: Command) -> None:
    def log(*words: object) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = json.loads(mnemic("audit", "log", *words, "--json").stdout)
        return found

    operations = log(*AGENT)
    assert [one["reason"] for one in operations][:3] == ["formation", "protection", "formation"]
    assert sum(sum(one["events"].values()) for one in operations) == len(EVENTS)
    shown = mnemic("audit", "log", *AGENT)
    assert str(operations[0]["op_id"]) in shown.stdout
    assert "Lisbon" not in shown.stdout
    assert log(*AGENT, "--limit", 2) == log(*AGENT, "--since", operations[1]["ts"]) == operations[:2]
    assert {one["session_id"] for one in log(*AGENT, "--session", "s1")} == {"s1"}
    assert {key for one in log(*ANA) for key in one["scope_keys"]} == {"user:ana"}
    assert [one["first_seq"] for one in log(*AGENT, "--user", "bo")] == [17]
    assert mnemic("audit", "log", *AGENT, "--since", "yesterday").exit_code == 2
    assert mnemic("audit", "log", "--agent", "museum").stderr == "no operations\n"
