"""`mnemic erase` and `mnemic purge`: nothing goes without a yes, and what goes is listed."""

import asyncio
import json
from uuid import UUID, uuid4

import psycopg
import pytest

from mnemic.service.memory import Mnemic
from tests.service.cli.conftest import Command
from tests.support.erasing import expire
from tests.support.server import Clone
from tests.support.terminal import at_a_terminal
from tests.support.worlds import identity, memory, remember

WHO = ("--agent", "harbor", "--user", "ana")
PURGE = ("purge", "--agent", "harbor")


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
    return [one.id for one in new]


def states(superuser: psycopg.Connection, ids: list[UUID]) -> list[str]:
    rows: dict[UUID, str] = dict(superuser.execute("select id, state from mnemic.memories").fetchall())
    return [rows[memory_id] for memory_id in ids]


def whats(ids: list[UUID]) -> list[tuple[object, ...]]:
    """Each command that erases, without a yes."""
    return [("erase", *WHO, ids[0]), ("erase", *WHO, "--everything"), PURGE]


def test_without_a_terminal_nothing_goes_without_yes(
    mnemic: Command, ids: list[UUID], superuser: psycopg.Connection
) -> None:
    for what in whats(ids):
        result, told = mnemic(*what), mnemic(*what, "--json")
        assert (result.exit_code, result.stdout) == (told.exit_code, "") == (1, "")
        assert result.stderr == told.stderr == "nothing was erased: --yes does it\n"
        assert json.loads(told.stdout) == {"erased": []}
    assert states(superuser, ids) == ["active", "active", "soft_deleted"]


@pytest.mark.parametrize("answer", ["n", "", "y"])
def test_at_a_terminal_they_ask(
    clean_db: Clone, ids: list[UUID], superuser: psycopg.Connection, mnemic: Command, answer: str
) -> None:
    for what in (whats(ids)[0], PURGE):
        ran = at_a_terminal(*what, answer=f"{answer}\n", env={})
        assert "for good? [y/N]" in ran.stderr
        assert ran.returncode == (0 if answer == "y" else 1)
        assert ("nothing was erased: as you say" in ran.stderr) == (answer != "y")
    gone = answer == "y"
    assert states(superuser, ids) == (["purged", "active", "purged"] if gone else ["active", "active", "soft_deleted"])


def test_at_a_terminal_too_json_takes_yes(ids: list[UUID], superuser: psycopg.Connection, mnemic: Command) -> None:
    ran = at_a_terminal("erase", *WHO, "--everything", "--json", answer="y\n", env={})
    assert (ran.returncode, json.loads(ran.stdout)) == (1, {"erased": []})
    assert states(superuser, ids) == ["active", "active", "soft_deleted"]


def test_what_goes_is_listed(mnemic: Command, ids: list[UUID], superuser: psycopg.Connection) -> None:
    result = mnemic("erase", *WHO, ids[0], "--yes")
    assert (result.exit_code, result.stdout.split()) == (0, [str(ids[0]), "erased:", "1", "memory"])
    assert states(superuser, ids) == ["purged", "active", "soft_deleted"]
    everything = mnemic("erase", *WHO, "--everything", "--yes", "--json")
    assert (everything.exit_code, json.loads(everything.stdout)) == (
        0,
        {"erased": [str(ids[1])], "messages": 0, "left": 0},
    )
    assert states(superuser, ids) == ["purged", "purged", "soft_deleted"]


def test_what_is_not_theirs_is_named_and_stays(mnemic: Command, ids: list[UUID], superuser: psycopg.Connection) -> None:
    unknown = uuid4()
    result = mnemic("erase", *WHO, "--yes", "--json", ids[0], ids[2], unknown)
    assert (result.exit_code, json.loads(result.stdout)) == (1, {"erased": [str(ids[0])], "messages": 0, "left": 0})
    assert {*result.stderr.split()} >= {str(ids[2]), str(unknown)}
    assert str(ids[0]) not in result.stderr
    assert states(superuser, ids) == ["purged", "active", "soft_deleted"]


def test_a_dry_run_shows_what_goes_and_erases_nothing(
    mnemic: Command, ids: list[UUID], superuser: psycopg.Connection
) -> None:
    result = mnemic("erase", *WHO, ids[0], "--dry-run")
    assert result.exit_code == 0
    assert f"goes: fact {ids[0]} Ana keeps bees." in " ".join(result.stdout.split())
    told = json.loads(mnemic("erase", *WHO, "--everything", "--dry-run", "--json").stdout)
    assert {one["content"] for one in told["going"]} == {"Ana keeps bees.", "Ana sings."}
    assert states(superuser, ids) == ["active", "active", "soft_deleted"]
    assert superuser.execute("select count(*) from mnemic.erasing").fetchone() == (0,)


@pytest.mark.parametrize("words", [(), ("--everything", uuid4())])
def test_what_to_erase_has_to_be_said(mnemic: Command, words: tuple[object, ...]) -> None:
    result = mnemic("erase", *WHO, "--yes", *words)
    assert result.exit_code == 2
    assert "name the memories to erase, or say --everything" in result.stderr


def test_a_purge_takes_what_expired_and_the_audit_names_who_did_it(
    mnemic: Command, ids: list[UUID], superuser: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MNEMIC_RETENTION_PURGE_AFTER_DAYS", "3")
    assert json.loads(mnemic(*PURGE, "--yes", "--json").stdout) == {"erased": [], "messages": 0}
    monkeypatch.setenv("MNEMIC_RETENTION_PURGE_AFTER_DAYS", "1")
    result = mnemic(*PURGE, "--yes", "--actor", "keeper")
    assert (result.exit_code, result.stdout.split()[:4]) == (0, [str(ids[2]), "erased:", "1", "memory"])
    purged = superuser.execute("select actor, actor_kind from mnemic.history where event = 'PURGE'")
    assert purged.fetchall() == [("keeper", "admin")]


@pytest.mark.parametrize(("setting", "code"), [("MNEMIC_RETENTION_PURGE_AFTER_DAYS", 0), ("MNEMIC_ADMIN_URL", 2)])
def test_a_purge_says_which_setting_it_lacks(
    mnemic: Command,
    ids: list[UUID],
    superuser: psycopg.Connection,
    monkeypatch: pytest.MonkeyPatch,
    setting: str,
    code: int,
) -> None:
    monkeypatch.delenv(setting)
    result = mnemic(*PURGE, "--yes")
    assert result.exit_code == code
    assert setting in result.stderr
    assert states(superuser, ids) == ["active", "active", "soft_deleted"]


def test_a_purge_takes_the_words_of_messages_that_are_due(
    mnemic: Command, ids: list[UUID], superuser: psycopg.Connection
) -> None:
    """`ids` makes the administrator known."""
    asyncio.run(formed())
    superuser.execute("update mnemic.messages set forget_at = forget_at - interval '8 days'")
    result = mnemic(*PURGE, "--yes")
    assert (result.exit_code, "messages that lost their words: 1" in result.stdout) == (0, True)
    again = mnemic(*PURGE, "--yes", "--json")
    assert json.loads(again.stdout)["messages"] == 0


async def formed() -> None:
    who = identity("cleo", session="s1")
    async with Mnemic.open(keep_messages="none") as memory:
        await memory.observe(who, [{"role": "user", "content": "Good morning."}])
        await memory.form(who)
