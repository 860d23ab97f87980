"""`mnemic protect` and `mnemic unprotect`: which were changed, which are unknown, and who it was."""

import asyncio
import json
from uuid import UUID, uuid4

import psycopg
import pytest

from tests.service.cli.conftest import Command
from tests.support.rollbacks import everything, saved
from tests.support.server import Clone

AGENT = ("--agent", "harbor")


@pytest.fixture
def ids(clean_db: Clone, monkeypatch: pytest.MonkeyPatch) -> list[UUID]:
    """Two memories of Ana's."""
    monkeypatch.setenv("MNEMIC_ADMIN_URL", clean_db.administrator_dsn)

    async def store() -> list[UUID]:
        async with clean_db.database() as db:
            return [one.id for one in await saved(db, "Ana keeps bees.", "Ana has a boat.")]

    return asyncio.run(store())


def protected(superuser: psycopg.Connection) -> set[UUID]:
    return {found for (found,) in superuser.execute("select id from mnemic.memories where protected").fetchall()}


def test_what_changed_is_listed(mnemic: Command, ids: list[UUID], superuser: psycopg.Connection) -> None:
    result = mnemic("protect", ids[0], *AGENT)
    assert (result.exit_code, result.stdout, result.stderr) == (0, f"{ids[0]}\nprotected: 1 memory\n", "")
    assert protected(superuser) == {ids[0]}
    told = mnemic("protect", *ids, ids[0], *AGENT, "--json")
    assert (told.exit_code, json.loads(told.stdout)) == (0, {"protected": [str(ids[1])]})
    assert mnemic("protect", ids[0], *AGENT).stdout == "protected: 0 memories\n"
    assert protected(superuser) == {*ids}

    lifted = mnemic("unprotect", *ids, *AGENT, "--json")
    assert (lifted.exit_code, json.loads(lifted.stdout)) == (0, {"unprotected": [str(one) for one in ids]})
    assert mnemic("unprotect", ids[0], *AGENT).stdout == "unprotected: 0 memories\n"
    assert protected(superuser) == set()


@pytest.mark.parametrize("command", ["protect", "unprotect"])
def test_an_unknown_one_is_named_and_the_others_change(
    mnemic: Command, ids: list[UUID], superuser: psycopg.Connection, command: str
) -> None:
    unknown = uuid4()
    result = mnemic(command, unknown, ids[0], *AGENT, "--json")
    assert (result.exit_code, [*json.loads(result.stdout)]) == (1, [f"{command}ed"])
    assert result.stderr == f"no living memory of this agent: {unknown}\n"
    assert protected(superuser) == ({ids[0]} if command == "protect" else set())
    elsewhere = mnemic(command, ids[1], "--agent", "museum")
    assert (elsewhere.exit_code, str(ids[1]) in elsewhere.stderr) == (1, True)


def test_the_audit_names_who_it_was(mnemic: Command, ids: list[UUID], superuser: psycopg.Connection) -> None:
    assert mnemic("protect", ids[0], *AGENT, "--actor", "keeper").exit_code == 0
    assert mnemic("unprotect", ids[0], *AGENT).exit_code == 0
    rows = superuser.execute("select event, actor from mnemic.history where reason = 'protection' order by seq")
    assert rows.fetchall() == [("PROTECT", "keeper"), ("UNPROTECT", "administrator")]


@pytest.mark.parametrize("command", ["protect", "unprotect"])
def test_it_takes_an_administrator_and_an_id(
    mnemic: Command, ids: list[UUID], superuser: psycopg.Connection, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    before = everything(superuser)
    assert mnemic(command, *AGENT).exit_code == 2
    assert mnemic(command, "bees", *AGENT).exit_code == 2
    monkeypatch.delenv("MNEMIC_ADMIN_URL")
    result = mnemic(command, ids[0], *AGENT)
    assert (result.exit_code, "set MNEMIC_ADMIN_URL too" in result.stderr) == (2, True)
    assert everything(superuser) == before


@pytest.mark.parametrize("command", ["protect", "unprotect"])
def test_its_usage_names_what_it_takes(mnemic: Command, command: str) -> None:
    assert "ID" in mnemic(command, "--help").stdout.split("Arguments")[0]
