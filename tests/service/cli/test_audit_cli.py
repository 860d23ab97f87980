"""`mnemic audit` as an administrator and a person meet it."""

import asyncio
import json
from pathlib import Path

import psycopg
import pytest

from mnemic.policy.governance.audit_export import check_export
from mnemic.state.audit import EXPLANATIONS
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


def test_a_whole_history_is_verified_with_exit_code_0(mnemic: Command, story: Story) -> None:
    for words in ((), AGENT):
        result = mnemic("audit", "verify", *words)
        assert (result.exit_code, result.stdout) == (0, "nothing is wrong\n")
        assert "without --anchors" in result.stderr
    assert json.loads(mnemic("audit", "verify", "--json").stdout) == []


def test_what_is_wrong_is_named_with_exit_code_1(mnemic: Command, superuser: psycopg.Connection, story: Story) -> None:
    tampered(superuser, "update history set actor = 'nobody' where seq = 4")
    result = mnemic("audit", "verify")
    assert result.exit_code == 1
    assert "harbor" in result.stdout
    assert f"hash: {EXPLANATIONS['hash']}" in " ".join(result.stdout.split())
    assert f"memory {story.porto}" in result.stdout
    as_json = mnemic("audit", "verify", *AGENT, "--json")
    assert as_json.exit_code == 1
    assert json.loads(as_json.stdout) == [
        {
            "problem": "hash",
            "agent_id": "harbor",
            "seq": 4,
            "memory_id": str(story.porto),
            "line": None,
            "explanation": EXPLANATIONS["hash"],
        }
    ]


def test_of_many_problems_fifty_are_named(mnemic: Command, superuser: psycopg.Connection, story: Story) -> None:
    tampered(superuser, "update history set actor = 'nobody', prev = sha256('')", "delete from history_contents")
    result = mnemic("audit", "verify")
    found = len(json.loads(mnemic("audit", "verify", "--json").stdout))
    assert found > 50
    assert f"and {found - 50} more" in result.stdout


def test_an_anchor_sees_the_end_cut_off(
    mnemic: Command, superuser: psycopg.Connection, story: Story, file: Path
) -> None:
    anchored = mnemic("audit", "anchor", *AGENT, file)
    assert anchored.exit_code == 0
    assert "harbor: 17 rows, hash " in anchored.stdout
    assert json.loads(mnemic("audit", "anchor", *AGENT, file, "--json").stdout)["seq"] == 17
    assert mnemic("audit", "verify", "--anchors", file).exit_code == 0
    tampered(superuser, *CUT)
    assert mnemic("audit", "verify").exit_code == 0
    seen = mnemic("audit", "verify", "--anchors", file)
    assert (seen.exit_code, seen.stderr) == (1, "")
    assert f"cut: {EXPLANATIONS['cut']}" in " ".join(seen.stdout.split())
    refused = mnemic("audit", "anchor", *AGENT, file)
    assert refused.exit_code == 2
    assert "2 problems" in refused.stdout  # each of the two anchors
    assert refused.stderr.startswith("mnemic: The history is not as it was written")


def test_a_hash_stays_on_one_line_with_its_label(
    mnemic: Command, story: Story, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    anchored = mnemic("audit", "anchor", *AGENT, file).stdout
    newest = json.loads(file.read_text())["hash"]
    assert f"harbor: 17 rows, hash {newest}\n" in anchored
    export = file.with_name("export")
    mnemic("audit", "export", *ANA, "--output", export)
    assert f"compare with an anchor: seq 17, hash {newest}\n" in mnemic("audit", "check", export).stdout


def test_without_a_key_nothing_is_anchored(
    mnemic: Command, story: Story, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MNEMIC_ANCHOR_KEY")
    result = mnemic("audit", "anchor", *AGENT, file)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "MNEMIC_ANCHOR_KEY" in result.stderr
    assert not file.exists()


def test_a_persons_export_can_be_checked(mnemic: Command, story: Story, file: Path) -> None:
    printed = mnemic("audit", "export", *ANA)
    assert printed.exit_code == 0
    assert printed.stdout.isascii()
    assert mnemic("audit", "export", *ANA, "--output", file).stdout == ""
    assert file.read_text() == printed.stdout
    assert check_export(printed.stdout.splitlines()).own == 15
    checked = mnemic("audit", "check", file)
    assert checked.exit_code == 0
    assert "17 rows of agent harbor; 15 of them the person's own" in checked.stdout
    assert checked.stdout.endswith("nothing is wrong\n")
    assert json.loads(mnemic("audit", "check", file, "--json").stdout)["problems"] == []


def test_an_export_overwrites_nothing(mnemic: Command, story: Story, file: Path) -> None:
    file.write_text("mine")
    for output in (file, file.parent / "no" / "such"):
        result = mnemic("audit", "export", *ANA, "--output", output)
        assert (result.exit_code, result.stdout) == (2, "")
        assert "cannot be written" in result.stderr
    assert file.read_text() == "mine"


def test_a_changed_export_is_named_with_exit_code_1(mnemic: Command, story: Story, file: Path) -> None:
    mnemic("audit", "export", *ANA, "--output", file)
    file.write_text(file.read_text().replace("Lisbon", "London", 1))
    result = mnemic("audit", "check", file)
    assert result.exit_code == 1
    assert "line 3: the contents after are not those recorded" in result.stdout
    assert json.loads(mnemic("audit", "check", file, "--json").stdout)["problems"][0]["line"] == 3
    file.write_text("x")
    assert "not the header" in mnemic("audit", "check", file).stdout
    missing = mnemic("audit", "check", file.parent / "missing")
    assert (missing.exit_code, missing.stdout) == (2, "")


def test_the_log_is_of_operations_without_contents(mnemic: Command, story: Story) -> None:
    operations = json.loads(mnemic("audit", "log", *AGENT, "--json").stdout)
    assert [one["reason"] for one in operations][:3] == ["formation", "protection", "formation"]
    assert sum(sum(one["events"].values()) for one in operations) == len(EVENTS)
    shown = mnemic("audit", "log", *AGENT)
    assert shown.exit_code == 0
    assert str(operations[0]["op_id"]) in shown.stdout
    assert "Lisbon" not in shown.stdout
    limited = json.loads(mnemic("audit", "log", *AGENT, "--limit", 2, "--json").stdout)
    assert [one["op_id"] for one in limited] == [one["op_id"] for one in operations[:2]]
    moment = operations[1]["ts"]
    since = json.loads(mnemic("audit", "log", *AGENT, "--since", moment, "--json").stdout)
    assert [one["op_id"] for one in since] == [one["op_id"] for one in operations[:2]]
    of_session = json.loads(mnemic("audit", "log", *AGENT, "--session", "s1", "--json").stdout)
    assert {one["session_id"] for one in of_session} == {"s1"}
    assert mnemic("audit", "log", *AGENT, "--since", "yesterday").exit_code == 2
    assert mnemic("audit", "log", "--agent", "museum").stderr == "no operations\n"


def test_a_persons_own_log_is_of_their_own_memories(mnemic: Command, story: Story) -> None:
    mine = json.loads(mnemic("audit", "log", *ANA, "--json").stdout)
    assert {key for one in mine for key in one["scope_keys"]} == {"user:ana"}
    bos = json.loads(mnemic("audit", "log", *AGENT, "--user", "bo", "--json").stdout)
    assert [one["first_seq"] for one in bos] == [17]


def test_a_server_of_ones_own_needs_the_administrators_dsn(
    mnemic: Command, story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MNEMIC_ADMIN_URL")
    for words in (("verify",), ("log", *AGENT)):
        result = mnemic("audit", *words)
        assert (result.exit_code, result.stdout) == (2, "")
        assert "MNEMIC_ADMIN_URL" in result.stderr
