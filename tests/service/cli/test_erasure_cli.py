"""`mnemic erase` and `mnemic purge`: nothing goes without a yes, and what goes is listed."""

import asyncio
import json
from collections.abc import Callable
from uuid import UUID, uuid4

import psycopg
import pytest
import typer
from typer.testing import CliRunner, Result

from mnemic.service.cli import erasure
from mnemic.service.cli.running import blocking
from tests.support.server import Clone
from tests.support.worlds import identity, memory, remember

WHO = ("--agent", "harbor", "--user", "ana")
Command = Callable[..., Result]


@pytest.fixture
def mnemic(clean_db: Clone, monkeypatch: pytest.MonkeyPatch) -> Command:
    """The two commands on this worker's database; `answer` is what is typed."""
    monkeypatch.setenv("MNEMIC_DATABASE_URL", clean_db.service_dsn)
    monkeypatch.setenv("MNEMIC_ADMIN_URL", clean_db.dsn_of("mnemic_admin"))
    monkeypatch.setenv("MNEMIC_EMBEDDER", "hash")
    app = typer.Typer()
    for command in (erasure.erase, erasure.purge):
        app.command()(blocking(command))

    def run(*words: object, answer: str = "") -> Result:
        return CliRunner().invoke(app, [str(word) for word in words], input=answer, catch_exceptions=False)

    return run


@pytest.fixture
def ids(clean_db: Clone) -> list[UUID]:
    """Two memories of Ana's, and one of Bo's."""
    new = [memory("Ana keeps bees."), memory("Ana sings."), memory("Bo sails.", key="user:bo")]

    async def store() -> None:
        async with clean_db.database() as db:
            await remember(db, identity(), *new, also=["user:bo"])
            async with db.scoped(identity("bo")) as scoped:
                await scoped.begin_operation("ttl")
                await scoped.execute("update memories set state = 'soft_deleted'", {})

    asyncio.run(store())
    return [one.id for one in new]


def states(superuser: psycopg.Connection, ids: list[UUID]) -> list[str]:
    rows: dict[UUID, str] = dict(superuser.execute("select id, state from mnemic.memories").fetchall())
    return [rows[memory_id] for memory_id in ids]


@pytest.mark.parametrize("answer", ["", "n\n", "\n"])
def test_nothing_goes_without_a_yes(
    mnemic: Command, ids: list[UUID], superuser: psycopg.Connection, answer: str
) -> None:
    for what in ([ids[0]], ["--everything"]):
        result = mnemic("erase", *WHO, *what, answer=answer)
        assert (result.exit_code, result.stdout.strip()) == (1, answer.strip())  # the terminal echoes what is typed
    assert "everything this agent has of this person" in result.stderr
    assert states(superuser, ids) == ["active", "active", "soft_deleted"]


def test_what_goes_is_listed(mnemic: Command, ids: list[UUID], superuser: psycopg.Connection) -> None:
    result = mnemic("erase", *WHO, ids[0], answer="y\n")
    assert (result.exit_code, result.stdout.split()) == (0, ["y", str(ids[0]), "erased:", "1", "memory"])
    assert "Erase 1 memory for good?" in result.stderr
    assert states(superuser, ids) == ["purged", "active", "soft_deleted"]
    everything = mnemic("erase", *WHO, "--everything", "--yes", "--json")
    assert (everything.exit_code, json.loads(everything.stdout)) == (0, {"erased": [str(ids[1])]})
    assert states(superuser, ids) == ["purged", "purged", "soft_deleted"]


def test_what_is_not_theirs_is_named_and_stays(mnemic: Command, ids: list[UUID], superuser: psycopg.Connection) -> None:
    unknown = uuid4()
    result = mnemic("erase", *WHO, "--yes", "--json", ids[0], ids[2], unknown)
    assert (result.exit_code, json.loads(result.stdout)) == (1, {"erased": [str(ids[0])]})
    assert {*result.stderr.split()} >= {str(ids[2]), str(unknown)}
    assert str(ids[0]) not in result.stderr
    assert states(superuser, ids) == ["purged", "active", "soft_deleted"]


@pytest.mark.parametrize("words", [(), ("--everything", uuid4())])
def test_what_to_erase_has_to_be_said(mnemic: Command, words: tuple[object, ...]) -> None:
    result = mnemic("erase", *WHO, "--yes", *words)
    assert result.exit_code == 2
    assert "name the memories to erase, or say --everything" in result.stderr


def test_a_purge_says_which_setting_it_lacks_and_what_it_took(
    mnemic: Command, ids: list[UUID], superuser: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    off = mnemic("purge", "--agent", "harbor")
    assert off.exit_code == 2
    assert "MNEMIC_RETENTION_PURGE_AFTER_DAYS" in off.stderr
    monkeypatch.setenv("MNEMIC_RETENTION_PURGE_AFTER_DAYS", "1")
    assert json.loads(mnemic("purge", "--agent", "harbor", "--json").stdout) == {"erased": []}
    with superuser.transaction():
        superuser.execute("set local session_replication_role = replica")
        superuser.execute("update mnemic.history set ts = ts - interval '2 days' where reason = 'ttl'")
    result = mnemic("purge", "--agent", "harbor")
    assert (result.exit_code, result.stdout.split()) == (0, [str(ids[2]), "erased:", "1", "memory"])
    monkeypatch.delenv("MNEMIC_ADMIN_URL")
    assert "MNEMIC_ADMIN_URL" in mnemic("purge", "--agent", "harbor").stderr
