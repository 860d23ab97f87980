"""`mnemic undo`, `restore`, `as-of`: what is shown first, who is asked, what is refused; and `mnemic audit`."""

import errno
import json
import os
import shlex
import stat
from pathlib import Path
from typing import Any
from uuid import UUID

import psycopg
import pytest

from mnemic.memory.governance.chain import check_export
from mnemic.state import files
from mnemic.state.governance import EXPLANATIONS
from mnemic.storage.database import Database
from tests.service.cli.conftest import Command, prepare
from tests.support.audited import CUT, EVENTS, KEY, tampered, tell
from tests.support.rollbacks import ANA, again, everything, forgotten, op_ids, saved, states
from tests.support.server import Clone
from tests.support.worlds import remember

PERSON = ("--agent", "harbor", "--user", "ana")
BLIND = ("--agent", "harbor")
BEES, BOAT, CREW = "Ana keeps bees.", "Ana has a boat.", "The crew has a boat."
WAYS = [PERSON, BLIND]
SINCE = "2026-03-02T09:14:00Z"
OP = str(UUID(int=1))
ALONE = "--session and --group need --user: an administrator names the scope key alone"


@pytest.fixture
def ops(clean_db: Clone, superuser: psycopg.Connection) -> list[UUID]:
    """Two memories stored as one operation, and one of them forgotten by another; oldest first."""
    prepare(clean_db, _store)
    return op_ids(superuser)


async def _store(db: Database) -> None:
    bees, _ = await saved(db, BEES, BOAT)
    await forgotten(db, bees)
    await saved(db, CREW, key="group:crew")


async def _double(db: Database) -> None:
    (twice,) = await saved(db, "Ana sails.")
    await forgotten(db, twice)
    await remember(db, ANA, again(twice))


@pytest.mark.parametrize("who", [(*PERSON, "--group", "crew"), (*BLIND, "--by", "ana")])
def test_what_was_shared_is_taken_back_and_an_administrator_undoes_that(
    mnemic: Command, ops: list[UUID], superuser: psycopg.Connection, who: tuple[str, ...]
) -> None:
    listed = json.loads(mnemic("memories", *PERSON, "--group", "crew", "--shared", "--json").stdout)
    assert [row["content"] for row in listed] == [CREW]
    shown = mnemic("unshare", *who)
    assert (shown.exit_code, states(superuser)[CREW]) == (1, "active")
    assert "memories to change: 1" in shown.stdout

    done = mnemic("unshare", *who, "--yes")
    assert (done.exit_code, states(superuser)[CREW], states(superuser)[BOAT]) == (0, "soft_deleted", "active")
    command = shlex.split(done.stdout.rpartition("to undo it: ")[2])
    assert mnemic(*command[1:], "--yes").exit_code == 0
    assert states(superuser)[CREW] == "active"
    stranger = mnemic("unshare", *BLIND, "--by", "nobody")
    assert (stranger.exit_code, "nobody" in stranger.stderr) == (0, True)

    unusable = [(*BLIND, "--by", name) for name in ("", "a" * 10_000, "ana\n")]
    for wrong in (BLIND, (*PERSON, "--by", "ana"), (*BLIND, "--by", "ana", "--group", "crew"), *unusable):
        assert mnemic("unshare", *wrong).exit_code == 2


# -- whether it is done


@pytest.mark.parametrize("who", WAYS)
def test_it_only_shows_without_yes_and_says_how_it_is_undone_with_it(
    mnemic: Command, ops: list[UUID], superuser: psycopg.Connection, who: tuple[str, ...]
) -> None:
    before = everything(superuser)
    shown = mnemic("undo", ops[1], *who)
    assert shown.exit_code == 1
    assert "memories to change: 1" in shown.stdout
    assert "soft_deleted → active" in shown.stdout
    assert "--yes" in shown.stderr
    dry, as_json = mnemic("undo", ops[1], *who, "--dry-run"), mnemic("undo", ops[1], *who, "--dry-run", "--json")
    assert (dry.exit_code, dry.stderr) == (0, "")
    planned = json.loads(as_json.stdout)
    assert planned["op_id"] is None
    assert planned["changes"][0]["id"] in dry.stdout
    assert not any("bees" in result.stdout + result.stderr for result in (shown, dry, as_json))
    assert everything(superuser) == before

    done = mnemic("undo", ops[1], *who, "--yes")
    assert (done.exit_code, done.stderr) == (0, "")
    assert states(superuser)[BEES] == "active"
    command = shlex.split(done.stdout.rpartition("to undo it: ")[2])
    assert command == ["mnemic", "undo", str(op_ids(superuser)[-1]), *who]
    assert mnemic(*command[1:], "--yes").exit_code == 0
    assert states(superuser)[BEES] == "soft_deleted"
    nothing = mnemic("restore", "user:ana", "--at", 3, *who, "--yes")
    assert (nothing.exit_code, nothing.stdout, nothing.stderr) == (0, "", "nothing would change\n")


# -- what stands against it


def test_what_stands_against_it_is_shown_and_refused_with_yes(
    mnemic: Command, clean_db: Clone, ops: list[UUID], superuser: psycopg.Connection
) -> None:
    before = everything(superuser)
    shown, refused = mnemic("undo", ops[0], *PERSON), mnemic("undo", ops[0], *PERSON, "--yes")
    assert (shown.exit_code, refused.exit_code) == (1, 2)
    assert "(--cascade undoes them too): 1" in shown.stdout
    assert f"{ops[1]} formation" in shown.stdout
    assert "nothing would change" not in shown.stderr
    assert everything(superuser) == before

    superuser.execute(
        "select mnemic.set_protection('harbor', id, true, 'admin') from mnemic.memories where content = %s", (BOAT,)
    )
    kept = mnemic("undo", ops[0], *PERSON, "--cascade")
    assert (kept.exit_code, "memories protected, " in kept.stdout) == (1, True)
    assert "protected" not in mnemic("undo", ops[0], *BLIND, "--cascade").stdout
    assert mnemic("undo", ops[0], *BLIND, "--cascade", "--yes").exit_code == 0
    assert states(superuser) == {BEES: "soft_deleted", BOAT: "soft_deleted", CREW: "active"}
    prepare(clean_db, _double)
    twin = mnemic("undo", op_ids(superuser)[-2], *PERSON)
    assert (twin.exit_code, "memories in conflict with an active duplicate" in twin.stdout) == (1, True)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("undo", *PERSON), "name one of: operations"),
        (("undo", *BLIND, "--since", SINCE), "name one of: operations"),
        (("undo", OP, *BLIND, "--session", "s1"), "name one of: operations"),
        (("undo", OP, *PERSON, "--session", "s1", "--since", SINCE), "name one of: operations"),
        (("undo", OP, *PERSON, "--refinement", OP), "name one of: operations"),
        (("undo", OP, *PERSON, "--yes", "--dry-run"), "exclude each other"),
        (("undo", OP, *PERSON, "--yes"), "no operation with this id"),
        (("undo", *PERSON, "--session", "s1", "--since", "soon"), "--since must be a day such as 2026-"),
        (("restore", "user:ana", *PERSON, "--at", "soon"), "--at must be a revision of the history such as 42, a day"),
        (("restore", "group:crew", *PERSON, "--at", "0"), "without --user"),
        (("restore", "user:ana", *BLIND, "--at", "0", "--yes", "--session", "s1"), ALONE),
        (("as-of", "group:crew", *BLIND, "--at", "0", "--group", "crew"), ALONE),
        (("undo", OP, *PERSON, "--yes", "--actor", "keeper"), "--actor and --user exclude each other"),
    ],
)
def test_what_cannot_be_meant_is_one_line_that_says_what_to_write(
    mnemic: Command, words: tuple[str, ...], message: str
) -> None:
    result = mnemic(*words)
    assert (result.exit_code, result.stdout, result.stderr.count("\n")) == (2, "", 1)
    assert result.stderr.startswith("mnemic: ")
    assert message in result.stderr


def test_an_administrator_on_a_server_of_ones_own_needs_its_dsn(
    mnemic: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MNEMIC_ADMIN_URL")
    for words in (("undo", OP), ("protect", OP), ("purge", "--yes"), ("audit", "log")):
        result = mnemic(*words, *BLIND)
        assert (result.exit_code, "MNEMIC_ADMIN_URL" in result.stderr) == (2, True)


# -- a session, a moment


@pytest.mark.parametrize("who", WAYS)
def test_a_session_is_undone_and_a_scope_key_restored(
    mnemic: Command, ops: list[UUID], superuser: psycopg.Connection, who: tuple[str, ...]
) -> None:
    result = mnemic("undo", *who, "--session", "s1", "--since", SINCE, "--yes", "--json")
    assert json.loads(result.stdout)["op_id"] == str(op_ids(superuser)[-1])
    assert {states(superuser)[text] for text in (BEES, BOAT)} == {"soft_deleted"}
    (between,) = superuser.execute("select ts from mnemic.history where revision = 2").fetchone() or (None,)
    assert between
    for at, state in ((2, "active"), (3, "soft_deleted"), (between.isoformat(), "active")):
        done = mnemic("restore", "user:ana", "--at", at, *who, "--yes", "--json")
        assert [item["after"] for item in json.loads(done.stdout)["changes"]].count(state) > 0
        assert states(superuser)[BEES] == state


def test_a_person_sees_what_was_and_an_administrator_that_something_was(
    mnemic: Command, ops: list[UUID], monkeypatch: pytest.MonkeyPatch
) -> None:
    own, blind = mnemic("as-of", "user:ana", "--at", 2, *PERSON), mnemic("as-of", "user:ana", "--at", 2, *BLIND)
    assert BEES in own.stdout
    assert BOAT in own.stdout
    assert blind.stdout.count("active") == 2
    assert "bees" not in blind.stdout
    for who in WAYS:
        assert len(json.loads(mnemic("as-of", "user:ana", "--at", 3, *who, "--json").stdout)) == 1
        closed = json.loads(mnemic("as-of", "user:ana", "--at", 3, *who, "--all", "--json").stdout)
        assert len(closed) == 2
        for before in (0, "2020-01-01", "2020-01-01T09:00"):
            assert mnemic("as-of", "user:ana", "--at", before, *who).stderr == "no memories at that time\n"
    monkeypatch.setenv("COLUMNS", "80")  # an id stays on one line, to be copied
    lines = mnemic("as-of", "user:ana", "--at", 3, *BLIND, "--all").stdout.splitlines()
    assert [sum(item["id"] in line for line in lines) for item in closed] == [1, 1]
    assert not any("False" in line for line in lines)  # what is not protected is left blank


def test_the_audit_names_the_administrator_who_acted(mnemic: Command, ops: list[UUID]) -> None:
    for command in (("undo", ops[1]), ("restore", "user:ana", "--at", 3)):
        done = mnemic(*command, *BLIND, "--yes", "--actor", "keeper")
        assert done.exit_code == 0
        assert shlex.split(done.stdout.rpartition("to undo it: ")[2])[-2:] == ["--actor", "keeper"]
    assert mnemic("undo", ops[1], *BLIND, "--yes", "--cascade").exit_code == 0
    log = json.loads(mnemic("audit", "log", *BLIND, "--json").stdout)
    assert [item["actor"] for item in log if item["actor_kind"] == "admin"] == ["administrator", "keeper", "keeper"]


# -- the audit


@pytest.fixture
def file(clean_db: Clone, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A file to be; there is a history with something of everything, and a key for anchors."""
    monkeypatch.setenv("MNEMIC_ANCHOR_KEY", KEY)
    prepare(clean_db, lambda db: tell(clean_db, db))
    return tmp_path / "file"


@pytest.mark.usefixtures("file")
def test_what_is_wrong_is_named_with_exit_code_1(mnemic: Command, superuser: psycopg.Connection) -> None:
    whole = mnemic("audit", "verify", *BLIND)
    assert (whole.exit_code, whole.stdout) == (0, "no problems\n")
    assert "without --anchors" in whole.stderr
    assert json.loads(mnemic("audit", "verify", "--json").stdout) == []

    tampered(superuser, "update history set actor = 'nobody' where revision = 4")
    result, as_json = mnemic("audit", "verify"), mnemic("audit", "verify", *BLIND, "--json")
    assert (result.exit_code, as_json.exit_code) == (1, 1)
    assert f"hash: {EXPLANATIONS['hash']}" in " ".join(result.stdout.split())
    (problem,) = json.loads(as_json.stdout)
    assert f"memory {problem['memory_id']}" in result.stdout
    assert (problem["problem"], problem["revision"]) == ("hash", 4)
    assert problem["explanation"] == EXPLANATIONS["hash"]

    tampered(superuser, "update history set actor = 'nobody', prev = sha256('')", "delete from history_contents")
    found = len(json.loads(mnemic("audit", "verify", "--json").stdout))
    assert found > 50
    shown = mnemic("audit", "verify").stdout
    assert (f"problems: {found};" in shown, shown.count("harbor") <= 50) == (True, True)


def test_an_anchor_sees_the_end_cut_off(
    mnemic: Command, superuser: psycopg.Connection, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "60")  # a hash stays on one line, to be copied
    anchored = mnemic("audit", "anchor", *BLIND, file)
    newest = json.loads(file.read_text())["hash"]
    assert (anchored.exit_code, anchored.stdout) == (0, f"harbor: 17 rows, hash {newest}\n")
    assert json.loads(mnemic("audit", "anchor", *BLIND, file, "--json").stdout)["revision"] == 17
    assert mnemic("audit", "verify", "--anchors", file).exit_code == 0
    tampered(superuser, *CUT)
    seen, refused = mnemic("audit", "verify", "--anchors", file), mnemic("audit", "anchor", *BLIND, file)
    assert (seen.exit_code, seen.stderr) == (1, "")
    assert f"cut: {EXPLANATIONS['cut']}" in " ".join(seen.stdout.split())
    assert (refused.exit_code, "problems: 2" in refused.stdout) == (2, True)  # each of the two anchors
    monkeypatch.delenv("MNEMIC_ANCHOR_KEY")
    keyless = mnemic("audit", "anchor", *BLIND, file)
    assert (keyless.exit_code, "MNEMIC_ANCHOR_KEY" in keyless.stderr) == (2, True)


def test_a_persons_export_can_be_checked_and_overwrites_nothing(mnemic: Command, file: Path) -> None:
    printed = mnemic("audit", "export", *PERSON)
    assert (printed.exit_code, printed.stdout.isascii()) == (0, True)
    assert mnemic("audit", "export", *PERSON, "--output", file).stdout == ""
    assert file.read_text() == printed.stdout
    assert check_export(printed.stdout.splitlines()).own == 15
    checked = mnemic("audit", "check", file)
    assert checked.exit_code == 0
    assert "17 rows of agent harbor; 15 of them of the person" in checked.stdout
    assert checked.stdout.endswith("no problems\n")
    for output in (file, file.parent / "no" / "such"):
        refused = mnemic("audit", "export", *PERSON, "--output", output)
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


def _mode(file: Path) -> int:
    return stat.S_IMODE(file.stat().st_mode)


@pytest.mark.parametrize("is_there", [False, True], ids=["new", "wider"])
def test_anchors_and_exports_are_their_owners_alone(mnemic: Command, file: Path, is_there: bool) -> None:
    umask = os.umask(0)
    try:
        if is_there:
            file.touch(0o666)
        assert mnemic("audit", "anchor", *BLIND, file).exit_code == 0
        export = file.with_name("export")
        assert mnemic("audit", "export", *PERSON, "--output", export).exit_code == 0
    finally:
        os.umask(umask)
    assert (_mode(file), _mode(export)) == (0o600, 0o600)


def test_control_the_mode_is_that_of_the_one_function(
    mnemic: Command, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "PRIVATE_MODE", 0o666)
    file.touch(0o644)
    assert mnemic("audit", "anchor", *BLIND, file).exit_code == 0
    assert _mode(file) == 0o644


def test_a_file_whose_mode_cannot_be_narrowed_is_refused(
    mnemic: Command, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def of_another(*_: object) -> None:
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))

    file.touch(0o666)
    file.chmod(0o666)
    monkeypatch.setattr(os, "fchmod", of_another)
    refused = mnemic("audit", "anchor", *BLIND, file)
    assert (refused.exit_code, file.read_text()) == (2, "")


@pytest.mark.usefixtures("file")
def test_the_log_is_of_operations_without_contents(mnemic: Command) -> None:
    def log(*words: object) -> Any:
        return json.loads(mnemic("audit", "log", *words, "--json").stdout)

    operations = log(*BLIND)
    assert [item["reason"] for item in operations][:3] == ["formation", "protection", "formation"]
    assert sum(sum(item["events"].values()) for item in operations) == len(EVENTS)
    shown = mnemic("audit", "log", *BLIND)
    assert str(operations[0]["id"]) in shown.stdout
    assert "Lisbon" not in shown.stdout
    assert log(*BLIND, "--limit", 2) == log(*BLIND, "--since", operations[1]["ts"]) == operations[:2]
    assert {item["session_id"] for item in log(*BLIND, "--session", "s1")} == {"s1"}
    assert {key for item in log(*PERSON) for key in item["scope_keys"]} == {"user:ana"}
    assert [item["first_revision"] for item in log(*BLIND, "--user", "bo")] == [17]
    assert mnemic("audit", "log", *BLIND, "--since", "yesterday").exit_code == 2
    assert mnemic("audit", "log", "--agent", "museum").stderr == "no operations\n"
