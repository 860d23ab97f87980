"""`mnemic undo`, `restore` and `as-of`: what is shown before anything is done, who is asked, and what is refused."""

import asyncio
import json
import shlex
from datetime import UTC, datetime
from uuid import UUID

import psycopg
import pytest

from tests.service.cli.conftest import Command
from tests.support.rollbacks import ANA, again, everything, forgotten, op_ids, saved, states
from tests.support.server import Clone
from tests.support.terminal import at_a_terminal
from tests.support.worlds import remember

PERSON = ("--agent", "harbor", "--user", "ana")
BLIND = ("--agent", "harbor")
BEES, BOAT, CREW = "Ana keeps bees.", "Ana has a boat.", "The crew has a boat."
WAYS = [PERSON, BLIND]
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
def test_without_a_terminal_and_without_yes_it_only_shows(
    mnemic: Command, ops: list[UUID], superuser: psycopg.Connection, who: tuple[str, ...]
) -> None:
    before = everything(superuser)
    result = mnemic("undo", ops[1], *who)

    assert result.exit_code == 1
    assert "1 memory would change" in result.stdout
    assert "soft_deleted → active" in result.stdout
    assert "nothing was changed: --yes does it" in result.stderr
    assert everything(superuser) == before


@pytest.mark.parametrize("who", WAYS)
def test_a_dry_run_is_done_with_showing(
    mnemic: Command, ops: list[UUID], superuser: psycopg.Connection, who: tuple[str, ...]
) -> None:
    before = everything(superuser)
    shown = mnemic("undo", ops[1], *who, "--dry-run")
    told = json.loads(mnemic("undo", ops[1], *who, "--dry-run", "--json").stdout)

    assert (shown.exit_code, shown.stderr) == (0, "")
    assert told["op_id"] is None
    assert told["changes"][0]["memory_id"] in shown.stdout
    assert everything(superuser) == before


@pytest.mark.parametrize("who", WAYS)
def test_yes_does_it_and_says_how_it_is_undone(
    mnemic: Command, ops: list[UUID], superuser: psycopg.Connection, who: tuple[str, ...]
) -> None:
    result = mnemic("undo", ops[1], *who, "--yes")

    assert (result.exit_code, result.stderr) == (0, "")
    assert states(superuser)[BEES] == "active"
    command = shlex.split(result.stdout.rpartition("to undo it: ")[2])
    assert command == ["mnemic", "undo", str(op_ids(superuser)[-1]), *who]
    assert mnemic(*command[1:], "--yes").exit_code == 0
    assert states(superuser)[BEES] == "soft_deleted"


@pytest.mark.parametrize(("answer", "state"), [("n", "soft_deleted"), ("y", "active")])
def test_at_a_terminal_it_asks(
    clean_db: Clone, ops: list[UUID], superuser: psycopg.Connection, answer: str, state: str
) -> None:
    env = {"MNEMIC_ADMIN_URL": clean_db.administrator_dsn}
    ran = at_a_terminal("undo", ops[1], *BLIND, answer=f"{answer}\n", env=env)

    assert "would change" in ran.stdout
    assert "Do it?" in ran.stderr
    assert ran.returncode == (0 if answer == "y" else 1)
    assert states(superuser)[BEES] == state


def test_what_would_change_nothing_is_not_done(mnemic: Command, ops: list[UUID], superuser: psycopg.Connection) -> None:
    before = everything(superuser)
    result = mnemic("restore", "user:ana", "--at", 3, *PERSON, "--yes")

    assert (result.exit_code, result.stdout) == (0, "")
    assert "nothing would change" in result.stderr
    assert everything(superuser) == before


# -- what stands against it


@pytest.mark.parametrize("who", WAYS)
def test_later_operations_are_listed_and_undone_with_cascade(
    mnemic: Command, ops: list[UUID], superuser: psycopg.Connection, who: tuple[str, ...]
) -> None:
    before = everything(superuser)
    shown, refused = mnemic("undo", ops[0], *who), mnemic("undo", ops[0], *who, "--yes")

    assert (shown.exit_code, refused.exit_code) == (1, 2)
    assert "1 later operation on the same memories" in shown.stdout
    assert f"{ops[1]} formation" in shown.stdout
    assert "as things stand it is refused" in shown.stderr
    assert "nothing would change" not in shown.stderr
    assert "later operations (1) changed the same memories" in refused.stderr
    assert everything(superuser) == before
    assert mnemic("undo", ops[0], *who, "--cascade", "--yes").exit_code == 0
    assert states(superuser) == {BEES: "soft_deleted", BOAT: "soft_deleted", CREW: "active"}


def test_twins_protected_and_erased_memories_are_shown(
    mnemic: Command, clean_db: Clone, ops: list[UUID], superuser: psycopg.Connection
) -> None:
    asyncio.run(_double(clean_db))
    twin = mnemic("undo", op_ids(superuser)[-2], *PERSON)
    assert "1 memory living today in the way" in twin.stdout
    superuser.execute(
        "select mnemic.set_protection('harbor', id, true, 'admin') from mnemic.memories where content = %s", (BOAT,)
    )
    kept = mnemic("undo", ops[0], *PERSON, "--cascade")
    assert "1 memory protected, for an administrator alone" in kept.stdout
    assert (twin.exit_code, kept.exit_code) == (1, 1)
    assert "protected" not in mnemic("undo", ops[0], *BLIND, "--cascade").stdout


@pytest.mark.parametrize("who", WAYS)
def test_an_unknown_operation_is_one_line(mnemic: Command, ops: list[UUID], who: tuple[str, ...]) -> None:
    result = mnemic("undo", UUID(int=1), *who, "--yes")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith("mnemic: No such operation")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("undo", *PERSON), "name operations"),
        (("undo", *PERSON, "--session", "s1"), "name operations"),
        (("undo", *BLIND, "--since", "2026-03-02T09:14:00Z"), "name operations"),
        (("undo", "OP", *BLIND, "--session", "s1"), "name operations"),
        (("undo", "OP", *BLIND, "--session", ""), "name operations"),
        (("undo", "OP", *BLIND, "--actor", ""), "an id is printable text"),
        (("undo", "OP", *PERSON, "--session", "s1", "--since", "2026-03-02T09:14:00Z"), "only one of them: "),
        (("undo", "OP", *PERSON, "--refinement", str(UUID(int=1))), "only one of them: name operations"),
        (("undo", *BLIND, "--session", "s1", "--refinement", str(UUID(int=1))), "name operations"),
        (
            ("undo", *PERSON, "--session", "s1", "--since", "2026-03-02T09:14:00Z", "--refinement", str(UUID(int=1))),
            "only one of them",
        ),
        (("undo", "OP", *PERSON, "--yes", "--dry-run"), "say one of them"),
        (("undo", *PERSON, "--session", "s1", "--since", "2026-03-02"), "with its zone, such as"),
        (("undo", *PERSON, "--session", "s1", "--since", "2026-03-02T09:14:00"), "with its zone, such as"),
        (("restore", "user:ana", *PERSON, "--at", "2026-03-02T09:14:00"), "with its zone, such as"),
        (("restore", "user:ana", *PERSON, "--at", "yesterday"), "with its zone, such as"),
        (("restore", "user:ana", *PERSON, "--at", "99"), "come as far as"),
        (("restore", "group:crew", *PERSON, "--at", "0"), "without --user"),
        (("as-of", "user:ana", *PERSON, "--at", "2026-03-02T09:14:00"), "with its zone, such as"),
        (("as-of", "user:bo", *PERSON, "--at", "0"), "none of this identity's"),
        (("as-of", "nonsense", *BLIND, "--at", "0"), "a scope key is written as"),
        (("restore", "user:ana", *BLIND, "--at", "0", "--yes", "--session", "s1"), f"--session {ALONE}"),
        (("as-of", "user:ana", *BLIND, "--at", "0", "--session", "s1"), f"--session {ALONE}"),
        (("as-of", "group:crew", *BLIND, "--at", "0", "--group", "crew"), f"--group {ALONE}"),
        (("undo", "OP", *PERSON, "--yes", "--actor", "keeper"), "--actor goes without --user"),
        (("restore", "user:ana", *PERSON, "--at", "0", "--yes", "--actor", "keeper"), "--actor goes without --user"),
    ],
)
def test_what_cannot_be_meant_is_one_line_that_says_what_to_write(
    mnemic: Command, ops: list[UUID], superuser: psycopg.Connection, words: tuple[str, ...], said: str
) -> None:
    before = everything(superuser)
    result = mnemic(*(ops[1] if word == "OP" else word for word in words))
    assert (result.exit_code, result.stdout) == (2, "")
    assert said in result.stderr
    assert result.stderr.startswith("mnemic: ")
    assert result.stderr.count("\n") == 1
    assert everything(superuser) == before


def test_an_administrator_on_a_server_of_ones_own_needs_its_dsn(
    mnemic: Command, ops: list[UUID], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MNEMIC_ADMIN_URL")
    result = mnemic("undo", ops[1], *BLIND)
    assert result.exit_code == 2
    assert "set MNEMIC_ADMIN_URL too" in result.stderr


# -- a moment


@pytest.mark.parametrize("who", WAYS)
def test_a_scope_key_is_restored_to_a_seq_or_a_time(
    mnemic: Command, ops: list[UUID], superuser: psycopg.Connection, who: tuple[str, ...]
) -> None:
    (between,) = superuser.execute("select ts from mnemic.history where seq = 2").fetchone() or (datetime.now(UTC),)
    for at in (2, between.isoformat()):
        result = mnemic("restore", "user:ana", "--at", at, *who, "--yes", "--json")
        assert [one["after"] for one in json.loads(result.stdout)["changes"]] == ["active"]
        assert states(superuser) == {BEES: "active", BOAT: "active", CREW: "active"}
        assert mnemic("restore", "user:ana", "--at", 3, *who, "--yes").exit_code == 0


def test_a_person_sees_what_was_and_an_administrator_that_something_was(mnemic: Command, ops: list[UUID]) -> None:
    own, blind = mnemic("as-of", "user:ana", "--at", 2, *PERSON), mnemic("as-of", "user:ana", "--at", 2, *BLIND)
    assert BEES in own.stdout
    assert BOAT in own.stdout
    assert blind.stdout.count("active") == 2
    assert "bees" not in blind.stdout
    now = mnemic("as-of", "user:ana", "--at", 3, *PERSON)
    assert BEES not in now.stdout
    assert BEES in mnemic("as-of", "user:ana", "--at", 3, *PERSON, "--all").stdout
    for who in WAYS:
        assert len(json.loads(mnemic("as-of", "user:ana", "--at", 3, *who, "--json").stdout)) == 1
        assert len(json.loads(mnemic("as-of", "user:ana", "--at", 3, *who, "--all", "--json").stdout)) == 2
        assert mnemic("as-of", "user:ana", "--at", 0, *who).stderr == "no memories at that moment\n"


def test_an_administrators_table_has_each_id_on_one_line(
    mnemic: Command, ops: list[UUID], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    lines = mnemic("as-of", "user:ana", "--at", 3, *BLIND, "--all").stdout.splitlines()
    told = json.loads(mnemic("as-of", "user:ana", "--at", 3, *BLIND, "--all", "--json").stdout)
    assert [sum(one["id"] in line for line in lines) for one in told] == [1, 1]


@pytest.mark.parametrize("words", [("undo", "OP"), ("restore", "user:ana", "--at", 2)])
def test_the_audit_names_the_administrator_who_acted(
    mnemic: Command, ops: list[UUID], superuser: psycopg.Connection, words: tuple[object, ...]
) -> None:
    command = [ops[1] if word == "OP" else word for word in words]
    done = mnemic(*command, *BLIND, "--yes", "--actor", "keeper")
    assert done.exit_code == 0
    again = shlex.split(done.stdout.rpartition("to undo it: ")[2])
    assert again[-2:] == ["--actor", "keeper"]
    assert mnemic(*again[1:-2], "--yes").exit_code == 0
    actors = superuser.execute("select distinct actor from mnemic.history where actor_kind = 'admin' order by 1")
    assert actors.fetchall() == [("administrator",), ("keeper",)]


@pytest.mark.parametrize(("command", "usage"), [("undo", "[OP]..."), ("erase", "[ID]...")])
def test_the_usage_shows_brackets_once(mnemic: Command, command: str, usage: str) -> None:
    said = mnemic(command, "--help").stdout
    assert usage in said
    assert f"[{usage}" not in said


def test_no_rollback_shows_what_a_memory_says(mnemic: Command, ops: list[UUID]) -> None:
    for who in WAYS:
        for words in (("undo", ops[1]), ("undo", ops[0], "--cascade"), ("restore", "user:ana", "--at", 2)):
            for switch in ("--dry-run", "--json"):
                result = mnemic(*words, *who, switch)
                assert "bees" not in result.stdout + result.stderr
