"""`mnemic undo`, `restore` and `as-of`: what is shown before anything is done, who is asked, and what is refused."""

import asyncio
import json
import shlex
from uuid import UUID

import psycopg
import pytest

from tests.service.cli.conftest import Command
from tests.support.rollbacks import ANA, again, everything, forgotten, op_ids, saved, states
from tests.support.server import Clone
from tests.support.worlds import remember

PERSON = ("--agent", "harbor", "--user", "ana")
BLIND = ("--agent", "harbor")
BEES, BOAT, CREW = "Ana keeps bees.", "Ana has a boat.", "The crew has a boat."
WAYS = [PERSON, BLIND]
SINCE = "2026-03-02T09:14:00Z"
OP = str(UUID(int=1))
ALONE = "goes with --user: an administrator names the scope key alone"


@pytest.fixture
def ops(clean_db: Clone, superuser: psycopg.Connection, monkeypatch: pytest.MonkeyPatch) -> list[UUID]:
    """Two memories stored as one operation, and one of them forgotten by another; oldest first."""
    monkeypatch.setenv("MNEMIC_ADMIN_URL", clean_db.administrator_dsn)
    asyncio.run(_store(clean_db))
    return op_ids(superuser)


async def _store(clone: Clone) -> None:
    async with clone.database() as db:
        bees, _ = await saved(db, BEES, BOAT)
        await forgotten(db, bees)
        await saved(db, CREW, key="group:crew")


async def _double(clone: Clone) -> None:
    async with clone.database() as db:
        (twice,) = await saved(db, "Ana sails.")
        await forgotten(db, twice)
        await remember(db, ANA, again(twice))


# -- whether it is done


@pytest.mark.parametrize("who", WAYS)
def test_it_only_shows_without_yes_and_says_how_it_is_undone_with_it(
    mnemic: Command, ops: list[UUID], superuser: psycopg.Connection, who: tuple[str, ...]
) -> None:
    before = everything(superuser)
    shown = mnemic("undo", ops[1], *who)
    assert shown.exit_code == 1
    assert "1 memory would change" in shown.stdout
    assert "soft_deleted → active" in shown.stdout
    assert "--yes does it" in shown.stderr
    dry, as_json = mnemic("undo", ops[1], *who, "--dry-run"), mnemic("undo", ops[1], *who, "--dry-run", "--json")
    assert (dry.exit_code, dry.stderr) == (0, "")
    planned = json.loads(as_json.stdout)
    assert planned["op_id"] is None
    assert planned["changes"][0]["memory_id"] in dry.stdout
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
    assert "1 later operation on the same memories" in shown.stdout
    assert f"{ops[1]} formation" in shown.stdout
    assert "nothing would change" not in shown.stderr
    assert everything(superuser) == before

    superuser.execute(
        "select mnemic.set_protection('harbor', id, true, 'admin') from mnemic.memories where content = %s", (BOAT,)
    )
    kept = mnemic("undo", ops[0], *PERSON, "--cascade")
    assert (kept.exit_code, "1 memory protected" in kept.stdout) == (1, True)
    assert "protected" not in mnemic("undo", ops[0], *BLIND, "--cascade").stdout
    assert mnemic("undo", ops[0], *BLIND, "--cascade", "--yes").exit_code == 0
    assert states(superuser) == {BEES: "soft_deleted", BOAT: "soft_deleted", CREW: "active"}
    asyncio.run(_double(clean_db))
    twin = mnemic("undo", op_ids(superuser)[-2], *PERSON)
    assert (twin.exit_code, "1 memory living today in the way" in twin.stdout) == (1, True)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("undo", *PERSON), "name operations"),
        (("undo", *BLIND, "--since", SINCE), "name operations"),
        (("undo", OP, *BLIND, "--session", "s1"), "name operations"),
        (("undo", OP, *PERSON, "--session", "s1", "--since", SINCE), "only one of them: "),
        (("undo", OP, *PERSON, "--refinement", OP), "only one of them: name operations"),
        (("undo", OP, *PERSON, "--yes", "--dry-run"), "say one of them"),
        (("undo", OP, *PERSON, "--yes"), "No such operation"),
        (("undo", *PERSON, "--session", "s1", "--since", SINCE[:-1]), "with its zone, such as"),
        (("restore", "user:ana", *PERSON, "--at", SINCE[:-1]), "with its zone, such as"),
        (("restore", "group:crew", *PERSON, "--at", "0"), "without --user"),
        (("restore", "user:ana", *BLIND, "--at", "0", "--yes", "--session", "s1"), f"--session {ALONE}"),
        (("as-of", "group:crew", *BLIND, "--at", "0", "--group", "crew"), f"--group {ALONE}"),
        (("undo", OP, *PERSON, "--yes", "--actor", "keeper"), "--actor goes without --user"),
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
    mnemic: Command, ops: list[UUID], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MNEMIC_ADMIN_URL")
    for words in (("undo", ops[1]), ("as-of", "user:ana", "--at", 0), ("audit", "log")):
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
    (between,) = superuser.execute("select ts from mnemic.history where seq = 2").fetchone() or (None,)
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
        assert mnemic("as-of", "user:ana", "--at", 0, *who).stderr == "no memories at that moment\n"
    monkeypatch.setenv("COLUMNS", "80")  # an id stays on one line, to be copied
    lines = mnemic("as-of", "user:ana", "--at", 3, *BLIND, "--all").stdout.splitlines()
    assert [sum(item["id"] in line for line in lines) for item in closed] == [1, 1]


def test_the_audit_names_the_administrator_who_acted(mnemic: Command, ops: list[UUID]) -> None:
    for command in (("undo", ops[1]), ("restore", "user:ana", "--at", 3)):
        done = mnemic(*command, *BLIND, "--yes", "--actor", "keeper")
        assert done.exit_code == 0
        assert shlex.split(done.stdout.rpartition("to undo it: ")[2])[-2:] == ["--actor", "keeper"]
    assert mnemic("undo", ops[1], *BLIND, "--yes", "--cascade").exit_code == 0
    log = json.loads(mnemic("audit", "log", *BLIND, "--json").stdout)
    assert [item["actor"] for item in log if item["actor_kind"] == "admin"] == ["administrator", "keeper", "keeper"]


@pytest.mark.parametrize(("command", "usage"), [("undo", "[OP]..."), ("erase", "[ID]...")])
def test_the_usage_shows_brackets_once(mnemic: Command, command: str, usage: str) -> None:
    shown = mnemic(command, "--help").stdout
    assert (usage in shown, f"[{usage}" in shown) == (True, False)
