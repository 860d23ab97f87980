"""Behind pgbouncer in transaction mode everything works as it does without, for many clients at once."""

import asyncio
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from mnemic.prompts.formation.extraction import ExtractFactsOutput
from mnemic.service.memory import Mnemic
from mnemic.state.errors import ConfigurationError, DatabaseSetupError
from mnemic.state.settings import Settings
from mnemic.storage import connection
from mnemic.storage.doctor import check
from mnemic.storage.embedded.binaries import server_account
from mnemic.storage.embedded.postmaster import is_listening
from mnemic.storage.migrate import migrate
from mnemic.storage.opening import dump_database, open_database
from mnemic.storage.schema import schema_files
from tests.support.loopback import Request
from tests.support.scripted import FACTS, fact, facts, scripted_model, scripted_resources, turns
from tests.support.server import Clone
from tests.support.threads import answering, at, said, saver_of, words
from tests.support.worlds import identity

#: Debian puts it where only root looks.
PGBOUNCER = shutil.which("pgbouncer", path=f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/usr/local/sbin")

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not PGBOUNCER, reason="pgbouncer is not installed")]
_PORT = 5432


@contextmanager
def pgbouncer(clone: Clone, *, mode: str = "transaction", size: int = 5) -> Iterator[Clone]:
    """The same database behind a pooler with so many server connections for each role."""
    assert PGBOUNCER
    account = server_account(Path("/none"))  # it refuses to run as root, as Postgres does
    server = conninfo_to_dict(clone.superuser_dsn)
    users = (server["user"], "mnemic_app", "mnemic_admin")
    with tempfile.TemporaryDirectory(prefix="mnemic-pooler-") as directory:
        base = Path(directory)
        os.chown(base, account.uid, account.gid)
        (base / "users").write_text("".join(f'"{user}" "throw-away"\n' for user in users))
        (base / "ini").write_text(
            f"[databases]\n* = host={server['host']} port={server['port']}\n[pgbouncer]\n"
            f"pool_mode = {mode}\ndefault_pool_size = {size}\nauth_type = trust\nauth_file = {base}/users\n"
            f"listen_addr =\nlisten_port = {_PORT}\nunix_socket_dir = {base}\nlogfile = {base}/log\n"
        )
        process = subprocess.Popen([PGBOUNCER, "--quiet", str(base / "ini")], **account.process_options)
        try:
            while not is_listening(base):
                assert process.poll() is None, (base / "log").read_text()
                time.sleep(0.02)
            dsn = make_conninfo(clone.server.admin_dsn, host=directory, port=_PORT)
            yield replace(clone, server=replace(clone.server, admin_dsn=dsn))
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(20)


TASKS = 16
ROUNDS = 20


@pytest.fixture
def pooled(fresh_db: Clone) -> Iterator[Clone]:
    with pgbouncer(fresh_db) as clone:
        yield clone


def keep(request: Request) -> ExtractFactsOutput:
    """A fact with the speaker's own word."""
    token = next(word for word in request["messages"][-1]["content"].split() if word.startswith("quay-"))
    return facts(fact(f"Keeps bees at {token}."))


async def live(clone: Clone, rounds: int = ROUNDS, **changes: Any) -> tuple[list[str], list[str]]:
    """What failed, and what people saw of somebody else's, while they observe, form, recall and talk all at once."""
    foreign: list[str] = []
    with scripted_model() as model:
        model.answer(FACTS, keep)
        async with scripted_resources(clone, model, pool_size=TASKS, **changes) as resources:
            memory = Mnemic(resources)

            async def live_on(person: int) -> None:
                me, token = identity(f"u{person}", session=f"s{person}"), f"quay-{person}."
                host = answering(saver_of(resources.database, f"u{person}"))
                for number in range(rounds):
                    await memory.observe(me, turns(f"I keep bees at {token} in year {number}", minutes=number))
                    await memory.form(me)
                    context = await memory.recall(me, "Where are the bees kept?", search="always")
                    heard = words(await host.ainvoke(said(token), at("talk")))
                    seen = [word for word in f"{context.context} {heard}".split() if "quay-" in word]
                    foreign.extend(word for word in seen if token not in word)
                    assert (context.degraded, len(heard)) == (None, 2 * (number + 1))

            ends = await asyncio.gather(*map(live_on, range(TASKS)), return_exceptions=True)
    return [repr(end) for end in ends if end], foreign


async def test_sixteen_clients_on_five_server_connections(pooled: Clone) -> None:
    assert await live(pooled) == ([], [])


@pytest.mark.filterwarnings("ignore")  # of a pipeline that its error has ended
async def test_control_with_prepared_statements_they_get_in_each_others_way(
    pooled: Clone, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def unseen(_: object) -> bool:
        return False

    monkeypatch.setattr(connection, "is_pooled", unseen)
    failed, _ = await live(pooled)
    assert any("SQLSTATE 26000" in error or "SQLSTATE 42P05" in error for error in failed)


@pytest.mark.parametrize(
    ("mode", "pooler", "ok"),
    [
        ("transaction", "auto", True),
        ("transaction", "transaction", True),
        ("transaction", "none", False),
        ("session", "auto", True),
        ("session", "none", True),
    ],
)
async def test_the_doctor_names_the_pooler_and_its_mode(fresh_db: Clone, mode: str, pooler: str, ok: bool) -> None:
    with pgbouncer(fresh_db, mode=mode) as clone:
        settings = Settings(database_url=clone.service_dsn, pooler=pooler)
        async with open_database(settings, sound=False) as opened:
            (found,) = [finding for finding in await check(opened) if finding.name == "pooler"]
        assert found.ok == ok
        if ok:
            assert mode in found.note
            assert found.note.endswith("on" if pooler == "none" else "off")
        else:
            with pytest.raises(DatabaseSetupError, match="MNEMIC_POOLER"):
                async with open_database(settings):
                    pass


async def test_a_migration_runs_through_a_pooler_and_a_dump_is_refused(empty_db: Clone, tmp_path: Any) -> None:
    with pgbouncer(empty_db) as clone:
        assert await migrate(clone.superuser_dsn) == [file.name for file in schema_files()]
        async with open_database(Settings(database_url=clone.service_dsn)):
            pass
        with pytest.raises(ConfigurationError, match="pooler"):
            await dump_database(Settings(migration_url=clone.superuser_dsn), tmp_path / "dump")
