"""A server without a key is for the programs and pages of its own machine, and for Studio's page in its browser."""

import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.dev_server import KEY, DevServer, running_dev_server, token
from tests.support.server import Clone, Server, cloned

STUDIO = "https://smith.langchain.com"
#: A host's own authentication, which lets in whoever says a word.
OWN_AUTH = """
from langgraph_sdk import Auth
auth = Auth()


@auth.authenticate
async def authenticate(authorization: str | None):
    if authorization != "friend":
        raise Auth.exceptions.HTTPException(401, "who?")
    return "ana"
"""
#: Names where a connection arrived as a server does that listens on all addresses.
ARRIVING = """
from starlette.applications import Starlette
from starlette.middleware import Middleware
from mnemic.service.server.app import app as ours


class Arriving:
    def __init__(self, app):
        self.app = app

    async def __call__(self, scope, receive, send):
        at = dict(scope.get("headers") or []).get(b"x-arriving-at")
        await self.app({**scope, "server": (at.decode(), 2024)} if at else scope, receive, send)


app = Starlette(routes=ours.routes, middleware=[Middleware(Arriving), *ours.user_middleware])
"""


def _values(clone: Clone) -> dict[str, str]:
    return {"MNEMIC_DATABASE_URL": clone.service_dsn, "MNEMIC_EMBEDDER": "hash"}


@pytest.fixture(scope="module")
def database(server: Server, template: str) -> Iterator[Clone]:
    with cloned(server, template) as clone:
        yield clone


@pytest.fixture(scope="module")
def opened(database: Clone, tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevServer]:
    with running_dev_server(tmp_path_factory.mktemp("host"), _values(database)) as running:
        yield running


def port_of(server: DevServer) -> str:
    return server.url.rpartition(":")[2]


def status(server: DevServer, path: str = "/threads/search", **headers: str) -> int:
    if path == "/threads/search":
        return httpx.post(f"{server.url}{path}", json={}, headers=headers).status_code
    return httpx.get(f"{server.url}{path}", headers=headers).status_code


@pytest.mark.parametrize("path", ["/threads/search", "/internal/debug/thread/1", "/docs", "/ok", "/mnemic/health"])
def test_a_name_that_is_not_this_machines_is_refused(opened: DevServer, path: str) -> None:
    """A page's own name can be resolved to this machine's address, and then the page asks as if from here."""
    port = port_of(opened)
    for host in ("evil.example", f"evil.example:{port}", "localhost.evil.example", "127.0.0.1.evil.example", "0.0.0.0"):
        assert status(opened, path, Host=host) == 403, host
    for host in ("", "[::1", "10.0.0.1", "127.0.0.1@evil.example"):
        assert status(opened, path, Host=host) == 403, host
    for host in (f"localhost:{port}", f"LOCALHOST:{port}", "127.0.0.1", "127.0.0.1:8080", "[::1]:2024", "localhost"):
        assert status(opened, path, Host=host) != 403, host


def test_a_request_without_a_name_is_refused(opened: DevServer) -> None:
    with socket.create_connection(("127.0.0.1", int(port_of(opened)))) as connection:
        connection.sendall(b"GET /threads/count HTTP/1.0\r\n\r\n")
        assert b" 403 " in connection.recv(1024).splitlines()[0]


@pytest.mark.parametrize("path", ["/threads/search", "/internal/debug/thread/1", "/docs", "/ok", "/mnemic/health"])
def test_a_page_from_elsewhere_is_refused(opened: DevServer, path: str) -> None:
    foreign = ("https://evil.example", "null", "file://", "https://smith.langchain.com.evil.example", "http://10.0.0.1")
    for origin in (*foreign, "http://smith.langchain.com", "https://smith.langchain.com:8443", "https://[::1"):
        assert status(opened, path, Origin=origin) == 403, origin
    for origin in ("http://localhost:3000", "http://127.0.0.1:5173", "https://localhost", "http://[::1]:80", STUDIO):
        assert status(opened, path, Origin=origin) != 403, origin


def test_a_pages_preflight_is_answered_as_the_page_is(opened: DevServer) -> None:
    asked = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "content-type,x-auth-scheme"}
    url = f"{opened.url}/threads/search"
    studio = httpx.options(url, headers={**asked, "Origin": STUDIO})
    assert (studio.status_code, studio.headers["access-control-allow-origin"]) == (200, "*")
    assert "x-auth-scheme" in studio.headers["access-control-allow-headers"]
    assert httpx.options(url, headers={**asked, "Origin": "https://evil.example"}).status_code == 403


def test_studio_reads_what_it_is_answered(opened: DevServer) -> None:
    """As its page asks: with its origin, and the header by which it passes for authenticated elsewhere."""
    headers = {"Origin": STUDIO, "x-auth-scheme": "langsmith"}
    with httpx.Client(base_url=opened.url, headers=headers, timeout=30) as studio:
        thread = studio.post("/threads", json={}).json()["thread_id"]
        asked = {"messages": [{"role": "user", "content": "Good morning."}]}
        run = {"assistant_id": "supervisor", "input": asked, "context": {"agent_id": "guide", "user_id": "ana"}}
        answers = [
            studio.get("/info"),
            studio.post("/assistants/search", json={}),
            studio.post(f"/threads/{thread}/runs/wait", json=run),
            studio.get(f"/threads/{thread}/state"),
        ]
        assert {(one.status_code, one.headers["access-control-allow-origin"]) for one in answers} == {(200, "*")}
        assert answers[-1].json()["values"]["messages"][0]["content"] == "Good morning."


def test_it_says_once_at_its_start_that_it_is_open(opened: DevServer) -> None:
    assert "".join(opened.log).count("MNEMIC_SERVER_KEY is not set") == 1


def test_no_websocket_is_opened_to_a_page_from_elsewhere(opened: DevServer) -> None:
    upgrade = {
        "Connection": "Upgrade",
        "Upgrade": "websocket",
        "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
    }
    assert status(opened, "/threads/1/stream/events", **upgrade, Origin="https://evil.example") == 403


def test_it_does_not_start_without_what_keeps_others_out(database: Clone, tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="ServerAccess"), running_dev_server(tmp_path, _values(database), http={}):
        pass


def test_it_does_not_start_where_others_would_reach_it(database: Clone, tmp_path: Path) -> None:
    with (
        pytest.raises(AssertionError, match="MNEMIC_SERVER_KEY"),
        running_dev_server(tmp_path, _values(database), host="0.0.0.0"),
    ):
        pass


def test_a_request_that_arrives_from_elsewhere_is_refused_wherever_it_listens(database: Clone, tmp_path: Path) -> None:
    (tmp_path / "arriving.py").write_text(ARRIVING, encoding="utf-8")
    http: Any = {"app": "./arriving.py:app", "enable_custom_route_auth": True}
    with running_dev_server(tmp_path, _values(database), http=http) as running:
        for path in ("/info", "/internal/debug/thread/1", "/ok", "/mnemic/health"):
            for address in ("10.0.0.5", "fd00::2", "0.0.0.0", "/run/server.sock"):
                assert status(running, path, **{"X-Arriving-At": address}) == 403, path
            for address in ("127.0.0.1", "127.1.2.3", "::1"):
                assert status(running, path, **{"X-Arriving-At": address}) != 403, path


@pytest.mark.parametrize("kind", ["a key", "an authentication of the host's own"])
def test_others_are_answered_where_somebody_asks_who_they_are(database: Clone, tmp_path: Path, kind: str) -> None:
    (tmp_path / "own.py").write_text(OWN_AUTH, encoding="utf-8")
    keyed = kind == "a key"
    config: dict[str, Any] = {} if keyed else {"auth": {"path": "./own.py:auth", "disable_studio_auth": True}}
    values = _values(database) | ({"MNEMIC_SERVER_KEY": KEY} if keyed else {})
    known = f"Bearer {token('ana')}" if keyed else "friend"
    with running_dev_server(tmp_path, values, host="0.0.0.0", **config) as running:
        url = f"{running.url}/threads/search"
        headers = {"Host": "memory.example", "Origin": "https://app.example"}
        assert httpx.post(url, json={}, headers=headers).status_code == 401
        assert httpx.post(url, json={}, headers={**headers, "Authorization": known}).status_code == 200
        assert "MNEMIC_SERVER_KEY is not set" not in "".join(running.log)
