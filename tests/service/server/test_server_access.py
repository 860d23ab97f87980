"""With a key nothing of LangGraph Server answers a stranger: every route that the running server has is tried."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest

from tests.support.served import ANY_ID, KEY, UPGRADE, Served, running_dev_server, serving, token
from tests.support.server import Server

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "PROPFIND")
#: For load balancers.
OPEN = {("/ok", "GET"), ("/ok", "HEAD")}
PREFLIGHT = {"Origin": "https://app.example", "Access-Control-Request-Method": "POST"}


@pytest.fixture(scope="module")
def unguarded(server: Server, template: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(server, template, tmp_path_factory.mktemp("host"), guarded=False) as running:
        yield running


@pytest.fixture
async def stranger(served: Served) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=served.server.url) as client:
        yield client


@pytest.fixture
async def holder(served: Served) -> AsyncIterator[httpx.AsyncClient]:
    headers = {"Authorization": f"Bearer {token('ana')}"}
    async with httpx.AsyncClient(base_url=served.server.url, headers=headers) as client:
        yield client


async def test_no_route_answers_a_stranger(served: Served, stranger: httpx.AsyncClient) -> None:
    paths = {route.path for route in served.routes}
    assert {"/internal/truncate", "/deploy", "/docs", "/metrics", "/mnemic/health", "/threads/search"} <= paths
    found = set()
    for route in served.routes:
        for method in METHODS:
            response = await stranger.request(method, route.url)
            if response.status_code != 401 and (route.path, method) not in OPEN:
                found.add(f"{method} {route.path}: {response.status_code}")
    assert found == set()


@pytest.mark.thorough
async def test_control_without_the_middleware_the_server_routes_answer(unguarded: Served) -> None:
    """Which is why there is a middleware."""
    async with httpx.AsyncClient(base_url=unguarded.server.url) as client:
        assert (await client.get(f"/internal/debug/thread/{ANY_ID}")).status_code == 404  # looked for, and not there
        for path in ("/docs", "/openapi.json", "/info", "/metrics", "/deploy"):
            assert (await client.get(path)).status_code == 200
        assert (await client.get("/mnemic/health")).status_code == 401
    async with unguarded.client("ana") as ana:
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
    "with an expired token, as Studio": {
        "headers": {"Authorization": f"Bearer {token('ana', days=-1)}", "x-auth-scheme": "langsmith"}
    },
    "with the token in the address": {"params": {"token": token("ana"), "authorization": f"Bearer {token('ana')}"}},
    "with the token in a cookie": {"headers": {"Cookie": f"authorization=Bearer {token('ana')}"}},
}


@pytest.mark.thorough
@pytest.mark.parametrize("way", WAYS)
async def test_no_other_way_of_asking_is_answered(served: Served, stranger: httpx.AsyncClient, way: str) -> None:
    for route in served.routes:
        response = await stranger.request(route.methods[0] if route.methods else "GET", route.url, **WAYS[way])
        assert response.status_code == 401 or route.path == "/ok", (way, route)


@pytest.mark.thorough
async def test_no_websocket_is_opened_to_a_stranger(served: Served, stranger: httpx.AsyncClient) -> None:
    for route in served.routes:
        for headers in (UPGRADE, UPGRADE | PREFLIGHT):
            assert (await stranger.get(route.url, headers=headers)).status_code == 403, route


@pytest.mark.thorough
@pytest.mark.parametrize("spelt", ["{}/", "/{}", "{}?x=1", "{}/.", "/noauth{}", "/ui/..{}", "encoded", "capitals"])
async def test_no_other_spelling_of_a_path_is_answered(served: Served, stranger: httpx.AsyncClient, spelt: str) -> None:
    for route in served.routes:
        path = route.url.upper() if spelt == "capitals" else spelt.format(route.url)
        if spelt == "encoded":
            path = "/" + "".join(
                f"%{ord(char):02X}" if char.isalnum() else quote(char, safe="") for char in route.url[1:]
            )
        response = await stranger.request(route.methods[0] if route.methods else "GET", path)
        assert response.status_code == 401 or (route.path == "/ok" and response.json() == {"ok": True}), path


async def test_a_load_balancer_learns_that_the_server_answers_and_nothing_else(stranger: httpx.AsyncClient) -> None:
    for query in ("", "?check_db=1"):
        response = await stranger.get(f"/ok{query}")
        assert (response.status_code, response.json()) == (200, {"ok": True})


async def test_a_page_of_another_origin_may_ask_with_a_token_and_reads_a_refusal(
    stranger: httpx.AsyncClient, holder: httpx.AsyncClient
) -> None:
    """A browser sends no token with its preflight, which every path is answered alike."""
    there = await stranger.options("/threads/search", headers=PREFLIGHT)
    nowhere = await stranger.options("/not/a/route", headers=PREFLIGHT)
    assert (there.status_code, there.text) == (nowhere.status_code, nowhere.text) == (200, "OK")
    origin = {"Origin": PREFLIGHT["Origin"]}
    asked = await holder.post("/threads/search", json={}, headers=origin)
    refused = await stranger.post("/threads/search", json={}, headers=origin)
    assert (asked.status_code, refused.status_code) == (200, 401)
    assert {response.headers["access-control-allow-origin"] for response in (there, asked, refused)} == {"*"}


@pytest.mark.thorough
async def test_debugging_routes_are_closed_to_holders_of_tokens_too(served: Served, holder: httpx.AsyncClient) -> None:
    routes = [route for route in served.routes if route.debugging]
    assert {"/internal/truncate", "/internal/debug/thread/{thread_id}", "/deploy"} <= {route.path for route in routes}
    thread = (await holder.post("/threads", json={})).json()["thread_id"]
    for route in routes:
        for method in METHODS:
            url = route.url.replace(ANY_ID, thread)
            assert (await holder.request(method, url)).status_code == 403
            assert (await holder.request(method, f"{url}/", follow_redirects=True)).status_code in (403, 404, 405)
    assert (await holder.get(f"/threads/{thread}")).status_code == 200


async def test_a_holder_of_a_token_is_answered_everywhere_else(holder: httpx.AsyncClient) -> None:
    for path in ("/info", "/metrics", "/docs", "/openapi.json"):
        assert (await holder.get(path)).status_code == 200, path
    assert "services" in (await holder.get("/ok")).json()
    health = (await holder.get("/mnemic/health")).json()  # what is in use, and nothing of what is stored
    assert set(health) == {"database", "broken", "model", "embedder"}
    assert (health["database"], health["broken"], health["embedder"]) == ("ok", [], "hash:384")
    assert "mnemic_pool" in (await holder.get("/mnemic/metrics")).text


REFUSED: dict[str, dict[str, Any]] = {
    "another app": {"app": "./bare.py:app"},
    "no app": {},
    "a prefix": {"app": "mnemic.service.server.app:app", "mount_prefix": "/memory"},
    "another order": {"app": "mnemic.service.server.app:app", "middleware_order": "auth_first"},
    "no app and no key": {},
}


@pytest.mark.thorough
@pytest.mark.parametrize("kind", REFUSED)
def test_server_that_answers_strangers_does_not_start_and_explains_the_fix(kind: str, tmp_path: Path) -> None:
    (tmp_path / "bare.py").write_text("from starlette.applications import Starlette\napp = Starlette()\n")
    values = {"MNEMIC_DATABASE_URL": "host=127.0.0.1 port=1 user=mnemic_app"}
    values |= {} if kind == "no app and no key" else {"MNEMIC_SERVER_KEY": KEY}
    with (
        pytest.raises(AssertionError, match="ServerAccess"),
        running_dev_server(tmp_path, values, http=REFUSED[kind]),
    ):
        pass
