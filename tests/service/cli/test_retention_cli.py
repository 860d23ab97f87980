"""`mnemic erase`, `purge`, `protect` and `unprotect`: what goes is listed, and nothing goes without a yes."""

import asyncio
import json
from uuid import UUID, uuid4

import psycopg
import pytest

from tests.service.cli.conftest import Command
from tests.support.erasing import expire
from tests.support.server import Clone
from tests.support.terminal import at_a_terminal
from tests.support.worlds import identity, memory, remember

AGENT = ("--agent", "harbor")
WHO = (*AGENT, "--user", "ana")
PURGE = ("purge", *AGENT)


@pytest.fixture
def ids(clean_db: Clone, monkeypatch: pytest.MonkeyPatch) -> list[UUID]:
    """Two memories of Ana's, and one of Bo's that has expired."""
    monkeypatch.setenv("MNEMIC_ADMIN_URL", clean_db.administrator_dsn)
    monkeypatch.setenv("MNEMIC_RETENTION_PURGE_AFTER_DAYS", "1")
    new = [memory("Ana keeps bees."), memory("Ana sings."), memory("Bo sails.", key="user:bo")]

    async def store() -> None:
        async with clean_db.database() as db:
            await remember(db, identity(), *new, also=["user:bo"])

    asyncio.run(store())
    with clean_db.as_superuser() as superuser:
        expire(superuser, new[2].id)
    with clean_db.as_superuser() as superuser, superuser.transaction():  # as if that was two days ago
        superuser.execute("set local session_replication_role = replica")
        superuser.execute("update mnemic.history set ts = ts - interval '2 days' where reason = 'ttl'")
    return [item.id for item in new]


def states(superuser: psycopg.Connection, ids: list[UUID]) -> list[str]:
    rows: dict[UUID, str] = dict(superuser.execute("select id, state from mnemic.memories").fetchall())
    return [rows[memory_id] for memory_id in ids]


# -- erase and purge


def test_without_a_terminal_nothing_goes_without_yes(
    mnemic: Command, ids: list[UUID], superuser: psycopg.Connection
) -> None:
    for what in (("erase", *WHO, ids[0]), ("erase", *WHO, "--everything"), PURGE):
        result, as_json = mnemic(*what), mnemic(*what, "--json")
        assert (result.exit_code, result.stdout) == (as_json.exit_code, "") == (1, "")
        assert "--yes does it" in result.stderr
        assert json.loads(as_json.stdout) == {"erased": []}
    assert states(superuser, ids) == ["active", "active", "soft_deleted"]


@pytest.mark.thorough
@pytest.mark.parametrize("answer", ["n", "", "y", "json"])
def test_at_a_terminal_they_ask(ids: list[UUID], superuser: psycopg.Connection, mnemic: Command, answer: str) -> None:
    if answer == "json":  # a program is asked nothing
        ran = at_a_terminal("erase", *WHO, "--everything", "--json", answer="y\n", env={})
        assert (ran.returncode, json.loads(ran.stdout)) == (1, {"erased": []})
    else:
        for what in (("erase", *WHO, ids[0]), PURGE):
            ran = at_a_terminal(*what, answer=f"{answer}\n", env={})
            assert "for good? [y/N]" in ran.stderr
            assert ran.returncode == (0 if answer == "y" else 1)
    gone = answer == "y"
    assert states(superuser, ids) == (["purged", "active", "purged"] if gone else ["active", "active", "soft_deleted"])


def test_what_goes_is_listed_and_what_is_not_theirs_is_named(
    mnemic: Command, ids: list[UUID], superuser: psycopg.Connection
) -> None:
    unknown = uuid4()
    dry = mnemic("erase", *WHO, ids[0], "--dry-run")
    assert dry.exit_code == 0
    assert f"goes: fact {ids[0]} Ana keeps bees." in " ".join(dry.stdout.split())
    planned = json.loads(mnemic("erase", *WHO, "--everything", "--dry-run", "--json").stdout)
    assert {item["content"] for item in planned["going"]} == {"Ana keeps bees.", "Ana sings."}
    assert mnemic("erase", *WHO, unknown, "--dry-run").exit_code == 1
    assert states(superuser, ids) == ["active", "active", "soft_deleted"]

    result = mnemic("erase", *WHO, "--yes", ids[0], ids[2], unknown)
    assert (result.exit_code, result.stdout.split()) == (1, [str(ids[0]), "erased:", "1", "memory"])
    assert {*result.stderr.split()} >= {str(ids[2]), str(unknown)}
    assert str(ids[0]) not in result.stderr
    assert states(superuser, ids) == ["purged", "active", "soft_deleted"]
    rest = mnemic("erase", *WHO, "--everything", "--yes", "--json")
    assert (rest.exit_code, json.loads(rest.stdout)) == (0, {"erased": [str(ids[1])], "messages": 0, "left": 0})
    assert states(superuser, ids) == ["purged", "purged", "soft_deleted"]


def test_what_to_erase_has_to_be_said(mnemic: Command) -> None:
    for words in ((), ("--everything", uuid4())):
        result = mnemic("erase", *WHO, "--yes", *words)
        assert (result.exit_code, "--everything" in result.stderr) == (2, True)


def test_a_purge_takes_what_expired_and_the_audit_names_who_did_it(
    mnemic: Command, ids: list[UUID], superuser: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MNEMIC_RETENTION_PURGE_AFTER_DAYS", "3")
    assert json.loads(mnemic(*PURGE, "--yes", "--json").stdout) == {"erased": [], "messages": 0}
    monkeypatch.delenv("MNEMIC_RETENTION_PURGE_AFTER_DAYS")
    off = mnemic(*PURGE, "--yes")
    assert (off.exit_code, "MNEMIC_RETENTION_PURGE_AFTER_DAYS" in off.stderr) == (0, True)
    assert states(superuser, ids) == ["active", "active", "soft_deleted"]
    monkeypatch.setenv("MNEMIC_RETENTION_PURGE_AFTER_DAYS", "1")
    result = mnemic(*PURGE, "--yes", "--actor", "keeper")
    assert (result.exit_code, result.stdout.split()[:4]) == (0, [str(ids[2]), "erased:", "1", "memory"])
    (newest, *_) = json.loads(mnemic("audit", "log", *AGENT, "--json").stdout)
    assert (newest["actor"], newest["actor_kind"], newest["events"]) == ("keeper", "admin", {"PURGE": 1})
    monkeypatch.delenv("MNEMIC_ADMIN_URL")
    lacking = mnemic(*PURGE, "--yes")
    assert (lacking.exit_code, "MNEMIC_ADMIN_URL" in lacking.stderr) == (2, True)


# -- protect and unprotect


def protected(superuser: psycopg.Connection) -> set[UUID]:
    return {found for (found,) in superuser.execute("select id from mnemic.memories where protected").fetchall()}


def test_protection_is_set_and_lifted_and_the_audit_names_who_did(
    mnemic: Command, ids: list[UUID], superuser: psycopg.Connection
) -> None:
    bees, sings, _ = ids
    result = mnemic("protect", bees, *AGENT, "--actor", "keeper")
    assert (result.exit_code, result.stdout, result.stderr) == (0, f"{bees}\nprotected: 1 memory\n", "")
    assert protected(superuser) == {bees}
    both = mnemic("protect", bees, sings, bees, *AGENT, "--json")
    assert (both.exit_code, json.loads(both.stdout)) == (0, {"protected": [str(sings)]})
    lifted = mnemic("unprotect", bees, sings, *AGENT, "--json")
    assert (lifted.exit_code, json.loads(lifted.stdout)) == (0, {"unprotected": [str(bees), str(sings)]})
    assert mnemic("unprotect", bees, *AGENT).stdout == "unprotected: 0 memories\n"
    assert protected(superuser) == set()
    log = json.loads(mnemic("audit", "log", *AGENT, "--json").stdout)
    actors = [item["actor"] for item in log if item["reason"] == "protection"]
    assert actors == ["administrator", "administrator", "administrator", "keeper"]


@pytest.mark.parametrize("command", ["protect", "unprotect"])
def test_an_unknown_one_is_named_and_the_others_change(
    mnemic: Command, ids: list[UUID], superuser: psycopg.Connection, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    unknown = uuid4()
    result = mnemic(command, unknown, ids[0], *AGENT, "--json")
    assert (result.exit_code, [*json.loads(result.stdout)]) == (1, [f"{command}ed"])
    assert str(unknown) in result.stderr
    assert protected(superuser) == ({ids[0]} if command == "protect" else set())
    assert mnemic(command, *AGENT).exit_code == mnemic(command, "bees", *AGENT).exit_code == 2
    monkeypatch.delenv("MNEMIC_ADMIN_URL")
    assert mnemic(command, ids[1], *AGENT).exit_code == 2
    assert ids[1] not in protected(superuser)
