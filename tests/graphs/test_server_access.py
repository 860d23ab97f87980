"""With a key nothing of LangGraph Server answers a stranger: every route that the running server has is tried."""

from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest

from tests.support.dev_routes import ANY_ID, Route, listing_app, routes_of
from tests.support.dev_server import KEY, DevServer, running_dev_server, token
from tests.support.server import Server, cloned

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "PROPFIND")
#: For load balancers.
OPEN = {("/ok", "GET"), ("/ok", "HEAD")}
PREFLIGHT = {"Origin": "https://app.example", "Access-Control-Request-Method": "POST"}
UPGRADE = {
    "Connection": "Upgrade",
    "Upgrade": "websocket",
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
}


@dataclass
class World:
    server: DevServer
    routes: list[Route]


def _running(server: Server, template: str, directory: Path, *, guarded: bool) -> Iterator[World]:
    with cloned(server, template) as clone:
        values = {"MNEMIC_DATABASE_URL": clone.service_dsn, "MNEMIC_SERVER_KEY": KEY, "MNEMIC_EMBEDDER": "hash"}
        with running_dev_server(directory, values, http=listing_app(directory, guarded=guarded)) as running:
            yield World(running, routes_of(directory))


@pytest.fixture(scope="module")
def world(server: Server, template: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    yield from _running(server, template, tmp_path_factory.mktemp("host"), guarded=True)


@pytest.fixture(scope="module")
def unguarded(server: Server, template: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    yield from _running(server, template, tmp_path_factory.mktemp("host"), guarded=False)


@pytest.fixture
async def stranger(world: World) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=world.server.url) as client:
        yield client


@pytest.fixture
async def ana(world: World) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=world.server.url, headers=_bearer()) as client:
        yield client


def _bearer() -> dict[str, str]:
    return {"Authorization": f"Bearer {token('ana')}"}


async def answered(client: httpx.AsyncClient, routes: list[Route], **asked: Any) -> set[str]:
    """The paths of the routes that did anything but ask who it is."""
    found = set()
    for route in routes:
        for method in METHODS:
            response = await client.request(method, route.url, **asked)
            if response.status_code != 401 and (route.path, method) not in OPEN:
                found.add(f"{method} {route.path}: {response.status_code}")
    return found


async def test_no_route_answers_a_stranger(world: World, stranger: httpx.AsyncClient) -> None:
    paths = {route.path for route in world.routes}
    assert {"/internal/truncate", "/deploy", "/docs", "/metrics", "/mnemic/health", "/threads/search"} <= paths
    assert await answered(stranger, world.routes) == set()


async def test_without_the_middleware_the_servers_own_routes_would_be_seen_to_answer(unguarded: World) -> None:
    """The control of the tests here, and why there is a middleware."""
    async with httpx.AsyncClient(base_url=unguarded.server.url) as client:
        assert (await client.get(f"/internal/debug/thread/{ANY_ID}")).status_code == 404  # looked for, and not there
        for path in ("/docs", "/openapi.json", "/info", "/metrics", "/deploy"):
            assert (await client.get(path)).status_code == 200
        assert (await client.get("/mnemic/health")).status_code == 401
    async with unguarded.server.client(token("ana")) as ana:
        await ana.threads.create()
        assert await ana.threads.count() == 1
        async with httpx.AsyncClient(base_url=unguarded.server.url) as stranger:
            assert (await stranger.post("/internal/truncate", json={"threads": True})).is_success
        assert await ana.threads.count() == 0


WAYS: dict[str, dict[str, Any]] = {
    "as Studio": {"headers": {"x-auth-scheme": "langsmith"}},
    "with an API key": {"headers": {"x-api-key": "lsv2_pt_0"}},
    "within a prefix": {"headers": {"x-forwarded-prefix": "/noauth"}},
    "with another's token": {"headers": {"Authorization": f"Bearer {token('ana', key='another key of 16 more')}"}},
    "with the token in the address": {"params": {"token": token("ana"), "authorization": f"Bearer {token('ana')}"}},
    "with the token in a cookie": {"headers": {"Cookie": f"authorization=Bearer {token('ana')}"}},
}


@pytest.mark.parametrize("way", WAYS)
async def test_no_other_way_of_asking_is_answered(world: World, stranger: httpx.AsyncClient, way: str) -> None:
    for route in world.routes:
        response = await stranger.request(route.methods[0] if route.methods else "GET", route.url, **WAYS[way])
        assert response.status_code == 401 or route.path == "/ok", (way, route)


async def test_no_websocket_is_opened_to_a_stranger(world: World, stranger: httpx.AsyncClient) -> None:
    for route in world.routes:
        for headers in (UPGRADE, UPGRADE | PREFLIGHT):
            assert (await stranger.get(route.url, headers=headers)).status_code == 403, route


@pytest.mark.parametrize("spelt", ["{}/", "/{}", "{}?x=1", "{}/.", "/noauth{}", "/ui/..{}", "encoded", "capitals"])
async def test_no_other_spelling_of_a_path_is_answered(world: World, stranger: httpx.AsyncClient, spelt: str) -> None:
    for route in world.routes:
        path = route.url.upper() if spelt == "capitals" else spelt.format(route.url)
        if spelt == "encoded":
            path = "/" + "".join(
                quote(one, safe="") if not one.isalnum() else f"%{ord(one):02X}" for one in route.url[1:]
            )
        response = await stranger.request(route.methods[0] if route.methods else "GET", path)
        assert response.status_code == 401 or (route.path == "/ok" and response.json() == {"ok": True}), path


async def test_a_load_balancer_learns_that_the_server_answers_and_nothing_else(stranger: httpx.AsyncClient) -> None:
    for query in ("", "?check_db=1"):
        response = await stranger.get(f"/ok{query}")
        assert (response.status_code, response.json()) == (200, {"ok": True})
    assert (await stranger.post("/ok")).status_code == 401


async def test_a_page_of_another_origin_may_ask_with_a_token_and_reads_a_refusal(
    stranger: httpx.AsyncClient, ana: httpx.AsyncClient
) -> None:
    """A browser sends no token with its preflight, which every path is answered alike."""
    there = await stranger.options("/threads/search", headers=PREFLIGHT)
    nowhere = await stranger.options("/not/a/route", headers=PREFLIGHT)
    assert (there.status_code, there.text) == (nowhere.status_code, nowhere.text) == (200, "OK")
    origin = {"Origin": PREFLIGHT["Origin"]}
    asked = await ana.post("/threads/search", json={}, headers=origin)
    refused = await stranger.post("/threads/search", json={}, headers=origin)
    assert (asked.status_code, refused.status_code) == (200, 401)
    assert {one.headers["access-control-allow-origin"] for one in (there, asked, refused)} == {"*"}


async def test_debugging_routes_are_closed_to_holders_of_tokens_too(world: World, ana: httpx.AsyncClient) -> None:
    routes = [route for route in world.routes if route.debugging]
    assert {"/internal/truncate", "/internal/debug/thread/{thread_id}", "/deploy"} <= {route.path for route in routes}
    thread = (await ana.post("/threads", json={})).json()["thread_id"]
    for route in routes:
        for method in METHODS:
            url = route.url.replace(ANY_ID, thread)
            assert (await ana.request(method, url)).status_code == 403
            assert (await ana.request(method, f"{url}/", follow_redirects=True)).status_code in (403, 404, 405)
    assert (await ana.get(f"/threads/{thread}")).status_code == 200


async def test_a_holder_of_a_token_is_answered_everywhere_else(ana: httpx.AsyncClient) -> None:
    for path in ("/ok", "/info", "/metrics", "/docs", "/openapi.json", "/mnemic/health"):
        assert (await ana.get(path)).status_code == 200, path
    assert "services" in (await ana.get("/ok")).json()


REFUSED: dict[str, dict[str, Any]] = {
    "another app": {"app": "./bare.py:app"},
    "no app": {},
    "a prefix": {"app": "mnemic.service.server.app:app", "mount_prefix": "/memory"},
    "another order": {"app": "mnemic.service.server.app:app", "middleware_order": "auth_first"},
}


@pytest.mark.parametrize("kind", REFUSED)
def test_a_server_that_would_answer_strangers_does_not_start_and_says_what_to_do(kind: str, tmp_path: Path) -> None:
    (tmp_path / "bare.py").write_text("from starlette.applications import Starlette\napp = Starlette()\n")
    values = {"MNEMIC_SERVER_KEY": KEY, "MNEMIC_DATABASE_URL": "host=127.0.0.1 port=1 user=mnemic_app"}
    with (
        pytest.raises(AssertionError, match="ServerAccess"),
        running_dev_server(tmp_path, values, http=REFUSED[kind]),
    ):
        pass
