"""`langgraph dev` with the repository's langgraph.json, as a process of its own, without a network or a key."""

import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from langgraph_sdk import get_client
from langgraph_sdk.client import LangGraphClient

from mnemic.policy.auth_tokens import encode_token, new_claims
from mnemic.state.settings import Settings

_STARTED = "Application started up"
ROOT = Path(__file__).parents[2]


@dataclass
class DevServer:
    """A running server and what it has said so far."""

    url: str
    settings: Settings
    log: list[str] = field(default_factory=list)
    started: threading.Event = field(default_factory=threading.Event)

    def client(self, token: str | None = None, **headers: str) -> LangGraphClient:
        """The real SDK, as the holder of a token."""
        bearer = {"Authorization": f"Bearer {token}"} if token else {}
        return get_client(url=self.url, api_key=None, headers={**bearer, **headers})


def dev_environment(directory: Path, config: Mapping[str, Any], **values: str) -> dict[str, str]:
    """Without the developer's own settings; the package is imported from this checkout, whatever is installed."""
    ours = json.loads((ROOT / "langgraph.json").read_text(encoding="utf-8"))
    (directory / "langgraph.json").write_text(json.dumps({**ours, **config}), encoding="utf-8")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("MNEMIC_", "OPENAI_", "LANG"))}
    path = os.pathsep.join([str(ROOT), *filter(None, [kept.get("PYTHONPATH")])])
    quiet = {"LANGGRAPH_CLI_NO_ANALYTICS": "1", "LANGGRAPH_NO_VERSION_CHECK": "true", "LANGSMITH_TRACING": "false"}
    return {**kept, "PYTHONPATH": path, **quiet, **values}


@contextmanager
def running_dev_server(
    directory: Path, values: Mapping[str, str], *, host: str = "127.0.0.1", **config: Any
) -> Iterator[DevServer]:
    """One server.

    Args:
        directory: its own, for there it keeps the records of its threads.
        values: settings, by their variables.
        host: where it listens.
        config: what is otherwise in its langgraph.json.
    """
    port = _free_port()
    command = [sys.executable, "-m", "langgraph_cli", "dev", "--no-browser", "--no-reload"]
    process = subprocess.Popen(
        [*command, "--host", host, "--port", str(port)],
        cwd=directory,
        env=dev_environment(directory, config, **values),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    named: dict[str, Any] = {name.removeprefix("MNEMIC_").lower(): value for name, value in values.items()}
    running = DevServer(f"http://127.0.0.1:{port}", Settings(**named))
    reader = threading.Thread(target=_read, args=(process, running))
    reader.start()
    try:
        assert running.started.wait(timeout=60), "the server did not start"
        assert any(_STARTED in line for line in running.log), "".join(running.log)
        _await_listening(port)
        yield running
    finally:
        process.terminate()
        try:
            process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            process.kill()
        reader.join()
        if process.stdout:
            process.stdout.close()
        process.wait()


def _read(process: "subprocess.Popen[str]", running: DevServer) -> None:
    for line in process.stdout or ():
        running.log.append(line)
        if _STARTED in line:
            running.started.set()
    running.started.set()  # it has ended


def _await_listening(port: int) -> None:
    """The server says that it has started before it takes connections."""
    for _ in range(200):
        with suppress(ConnectionRefusedError), socket.create_connection(("127.0.0.1", port)):
            return
        time.sleep(0.05)
    raise AssertionError("the server takes no connections")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


#: Signs the tokens of servers that ask for one.
KEY = "a key of sixteen characters"


def token(user: str, *, agents: Sequence[str] = (), groups: Sequence[str] = (), key: str = KEY, days: int = 1) -> str:
    """A bearer token; of a negative number of days one that has expired."""
    began = datetime.now(UTC) + timedelta(days=min(0, days - 1))
    return encode_token(new_claims(user, tuple(agents), tuple(groups), days=max(1, days), now=began), key)
