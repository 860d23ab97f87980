"""`langgraph dev` with the repository's langgraph.json, in a process of its own, and what a client asks of it."""

import json
import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
from langgraph_sdk import get_client
from langgraph_sdk.client import LangGraphClient
from langgraph_sdk.errors import APIStatusError

from mnemic.service.memory import Mnemic
from mnemic.service.server.auth_tokens import new_token
from mnemic.state.settings import Settings
from tests.support.agents import is_agent
from tests.support.loopback import LoopbackModel
from tests.support.server import Clone, Server, cloned
from tests.support.threads import TABLES, said

_STARTED = "Application started up"
ROOT = Path(__file__).parents[2]


@dataclass
class DevServer:
    """A running server."""

    url: str
    settings: Settings
    output: Path

    @property
    def log(self) -> str:
        """What it has said so far."""
        return self.output.read_text(encoding="utf-8", errors="replace")

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
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    command = [sys.executable, "-m", "langgraph_cli", "dev", "--no-browser", "--no-reload"]
    named: dict[str, Any] = {name.removeprefix("MNEMIC_").lower(): value for name, value in values.items()}
    running = DevServer(f"http://127.0.0.1:{port}", Settings(**named), directory / "server.log")
    with running.output.open("wb") as output:
        process = subprocess.Popen(
            [*command, "--host", host, "--port", str(port)],
            cwd=directory,
            env=dev_environment(directory, config, **values),
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    try:
        _await_listening(process, running, port)
        yield running
    finally:
        process.terminate()
        try:
            process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _await_listening(process: "subprocess.Popen[bytes]", running: DevServer, port: int) -> None:
    """The server says that it has started before it takes connections."""
    until = time.monotonic() + 60
    while process.poll() is None and time.monotonic() < until:
        if _STARTED in running.log:
            with suppress(ConnectionRefusedError), socket.create_connection(("127.0.0.1", port)):
                return
        time.sleep(0.05)
    raise AssertionError(f"the server did not start: {running.log}")


#: Signs the tokens of servers that ask for one.
KEY = "a key of sixteen characters"


def token(user: str, *, agents: Sequence[str] = (), groups: Sequence[str] = (), key: str = KEY, days: int = 1) -> str:
    """A bearer token; of a negative number of days one that has expired."""
    began = datetime.now(UTC) + timedelta(days=min(0, days - 1))
    return new_token(user, agents, groups, key, days=max(1, days), now=began)[0]


#: Some id where a route wants one.
ANY_ID = "6ba7b811-9dad-11d1-80b4-00c04fd430c8"
UPGRADE = {
    "Connection": "Upgrade",
    "Upgrade": "websocket",
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
}
#: Writes down the routes of the server that runs it.
_LISTING = """
import asyncio
import json
import sys
from contextlib import asynccontextmanager
from pathlib import Path

from starlette.applications import Starlette
from mnemic.service.server import app as server


def walk(routes, before=""):
    for route in routes:
        path, within = before + getattr(route, "path", ""), getattr(route, "routes", None)
        if within:
            yield from walk(within, path)
        else:
            module = getattr(getattr(route, "endpoint", None), "__module__", "")
            methods = sorted(getattr(route, "methods", None) or [])
            yield {"path": path, "methods": methods, "debugging": module.startswith("langgraph_runtime")}


@asynccontextmanager
async def listing(_):
    running = sys.modules["langgraph_api.server"].app
    await asyncio.to_thread(Path("routes.json").write_text, json.dumps(list(walk(running.routes))))
    yield

"""
_GUARDED = "app = server.app\napp.router.lifespan_context = listing\n"
#: What checks at the start that the middleware is there is switched off too.
_UNGUARDED = "server.check_access = lambda: None\napp = Starlette(routes=server.app.routes, lifespan=listing)\n"


@dataclass(frozen=True)
class Route:
    path: str
    methods: list[str]
    debugging: bool

    @property
    def url(self) -> str:
        path = re.sub(r"{[^}]*}", ANY_ID, self.path)
        return path if path.startswith("/") else f"/{path}"


GUIDE: Any = {"agent_id": "guide"}
PILOT: Any = {"agent_id": "pilot"}


@dataclass
class Served:
    """A server, its routes, the model that its supervisor talks with, and the database."""

    server: DevServer
    routes: list[Route]
    model: LoopbackModel
    clone: Clone

    def client(self, user: str = "ana", **claims: Any) -> LangGraphClient:
        """The real SDK, as the holder of a token with these claims."""
        return self.server.client(token(user, **claims))

    def memory(self) -> Any:
        """The host's own code, in another process than the server."""
        return Mnemic.open(settings=Settings(**self.server.settings.model_dump(exclude_unset=True)))

    def owners(self, *threads: str) -> set[tuple[str, str]]:
        """Agent and user of these threads, by their checkpoints and by the messages of the sessions that they are."""
        with self.clone.as_superuser() as superuser:
            found = superuser.execute(
                "select agent_id, user_id from mnemic.supervisor_checkpoints where thread_id = any(%(threads)s) union"
                " select agent_id, user_id from mnemic.messages where session_id = any(%(threads)s) and role = 'user'",
                {"threads": list(threads)},
            )
            return {*found}

    def rows(self) -> dict[str, str]:
        """All that is stored of threads, by table, bytes and all."""
        with self.clone.as_superuser() as superuser:
            return {
                table: repr(superuser.execute(f"select * from mnemic.{table}".encode()).fetchall()) for table in TABLES
            }


def settings_of(clone: Clone, model: LoopbackModel) -> dict[str, str]:
    """With a key, and a scripted model for the supervisor's answers."""
    return {
        "MNEMIC_DATABASE_URL": clone.service_dsn,
        "MNEMIC_SERVER_KEY": KEY,
        "MNEMIC_FAST_MODEL": "offline",
        "MNEMIC_SLOW_MODEL": "offline",
        "MNEMIC_AGENT_MODEL": "openai:gpt-agent",
        "MNEMIC_BASE_URL": model.base_url,
        "MNEMIC_API_KEY": "test",
        "MNEMIC_EMBEDDER": "hash",
        "MNEMIC_POOL_SIZE": "4",
    }


@contextmanager
def serving(
    server: Server, template: str, directory: Path, *, guarded: bool = True, auth: str = "", **auth_config: Any
) -> Iterator[Served]:
    """One server.

    Args:
        server: of the database.
        template: what its database is a clone of.
        directory: its own.
        guarded: off: without our middleware.
        auth: a module with another `auth` than ours.
        auth_config: what is otherwise in that section of langgraph.json.
    """
    (directory / "listed.py").write_text(_LISTING + (_GUARDED if guarded else _UNGUARDED), encoding="utf-8")
    config: dict[str, Any] = {"http": {"app": "./listed.py:app", "enable_custom_route_auth": True}}
    if auth:
        (directory / "other_auth.py").write_text(auth, encoding="utf-8")
        config["auth"] = {"path": "./other_auth.py:auth", **auth_config}
    with cloned(server, template) as clone, LoopbackModel() as model:
        model.answer(is_agent, "I see.")
        with running_dev_server(directory, settings_of(clone, model), **config) as running:
            listed = json.loads((directory / "routes.json").read_text(encoding="utf-8"))
            yield Served(running, [Route(**item) for item in listed], model, clone)


def words(values: Any) -> list[tuple[str, str]]:
    return [(message["type"], message["content"]) for message in values["messages"]]


async def refusal(request: Coroutine[Any, Any, Any]) -> int:
    """The status of the server's refusal; 200 where it does what is asked."""
    try:
        await request
    except (APIStatusError, httpx.HTTPStatusError) as error:  # the SDK has its own, or lets its client's through
        return error.response.status_code
    return 200


async def new_thread(client: LangGraphClient, **metadata: Any) -> str:
    return str((await client.threads.create(metadata=metadata or None))["thread_id"])


async def turn(client: LangGraphClient, thread: str | None, text: str = "Good morning.", **run: Any) -> Any:
    """One turn of the supervisor, with the agent `guide` unless the run names another."""
    return await client.runs.wait(thread, "supervisor", **{"input": said(text), "context": GUIDE, **run})


async def talk(client: LangGraphClient, text: str = "Good morning.", **context: Any) -> str:
    """A thread with one turn in it."""
    thread = await new_thread(client)
    await turn(client, thread, text, context={**GUIDE, **context})
    return thread


def requests_about(client: LangGraphClient, thread: str, run: str, checkpoint: str) -> dict[str, Any]:
    """Everything that can be asked of a thread."""
    return {
        "get": client.threads.get(thread),
        "state": client.threads.get_state(thread),
        "state of then": client.threads.get_state(thread, checkpoint_id=checkpoint),
        "history": client.threads.get_history(thread),
        "update": client.threads.update(thread, metadata={"owner": "bea"}),
        "update state": client.threads.update_state(thread, said("It was me.")),
        "copy": client.threads.copy(thread),
        "delete": client.threads.delete(thread),
        "prune": client.http.post("/threads/prune", json={"thread_ids": [thread]}),
        "runs": client.runs.list(thread),
        "a run": client.runs.get(thread, run),
        "delete run": client.runs.delete(thread, run),
        "cancel": client.runs.cancel(thread, run),
        "stateless": client.http.post("/runs/cancel", json={"thread_id": thread, "run_ids": [run]}),
        "join": client.runs.join(thread, run),
        "new run": client.runs.create(thread, "supervisor", input=said("It was me."), context=GUIDE),
        "new answer": client.runs.create(thread, "supervisor", command={"resume": "yes"}, context=GUIDE),
    }


async def ids(client: LangGraphClient, **query: Any) -> set[str]:
    """The threads that a client finds; as many are counted."""
    found = {thread["thread_id"] for thread in await client.threads.search(limit=1000, **query)}
    assert await client.threads.count(**query) == len(found)
    return found


async def metadata(client: LangGraphClient, thread: str) -> dict[str, Any]:
    return dict((await client.threads.get(thread))["metadata"] or {})


async def run_of(client: LangGraphClient, thread: str) -> str:
    (run,) = await client.runs.list(thread)
    return str(run["run_id"])
