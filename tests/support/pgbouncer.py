"""pgbouncer before a database of the test server, as hosts run it: a few server connections for many clients."""

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

from psycopg.conninfo import conninfo_to_dict, make_conninfo

from mnemic.storage.embedded.account import server_account
from mnemic.storage.embedded.sockets import is_listening
from tests.support.server import SERVICE_PASSWORD, Clone

#: Debian puts it where only root looks.
PGBOUNCER = shutil.which("pgbouncer", path=f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/usr/local/sbin")
_PORT = 5432


@contextmanager
def pgbouncer(clone: Clone, *, mode: str = "transaction", size: int = 5) -> Iterator[Clone]:
    """The same database behind a pooler with so many server connections for each role."""
    assert PGBOUNCER
    account = server_account(Path("/none"))  # it refuses to run as root, as Postgres does
    server = conninfo_to_dict(clone.superuser_dsn)
    users = {str(server["user"]): str(server.get("password", "")), "mnemic_app": "", "mnemic_admin": ""}
    with tempfile.TemporaryDirectory(prefix="mnemic-pooler-") as directory:
        base = Path(directory)
        account.give(base)
        lines = [f'"{user}" "{password or SERVICE_PASSWORD}"\n' for user, password in users.items()]
        (base / "users").write_text("".join(lines))
        (base / "ini").write_text(
            f"[databases]\n* = host={server['host']} port={server['port']}\n[pgbouncer]\n"
            f"pool_mode = {mode}\ndefault_pool_size = {size}\nauth_type = trust\nauth_file = {base}/users\n"
            f"listen_addr =\nlisten_port = {_PORT}\nunix_socket_dir = {base}\nlogfile = {base}/log\n"
        )
        process = subprocess.Popen(
            [PGBOUNCER, "--quiet", str(base / "ini")],
            user=account.popen_user,
            group=account.popen_group,
            extra_groups=account.popen_extra_groups,
        )
        try:
            while not is_listening(base):
                assert process.poll() is None, (base / "log").read_text()
                time.sleep(0.02)
            dsn = make_conninfo(clone.server.admin_dsn, host=directory, port=_PORT)
            yield replace(clone, server=replace(clone.server, admin_dsn=dsn))
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(20)
