"""A server without a key, as `make serve` starts it: every graph runs; and it is for this machine and Studio alone."""

import asyncio
import socket
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from langgraph_sdk.client import LangGraphClient
from langgraph_sdk.errors import APIStatusError

from mnemic.service.memory import Mnemic
from mnemic.state.graphs import MemoryContext
from mnemic.state.settings import Settings
from tests.support.agents import is_agent
from tests.support.loopback import LoopbackModel, calling, offering
from tests.support.scripted import CONSOLIDATION, REFLECTIONS, consolidation, reflection, reflections, turns
from tests.support.served import KEY, UPGRADE, DevServer, new_thread, refusal, running_dev_server, token
from tests.support.server import Clone, Server, cloned
from tests.support.threads import said
from tests.support.worlds import identity, text_of

pytestmark = pytest.mark.thorough  # servers of their own, some seconds each; the one with a key is always tried


STUDIO = "https://smith.langchain.com"
#: By graph; the supervisor shows what runs within its nodes.
FIRST_NODES = {
    "supervisor": "gate",
    "formation": "gate",
    "consolidation": "collect",
    "recall": "read_context",
    "refinement": "open",
    "maintenance": "maintain",
}
ANA = identity("ana", session="s1")
#: An agent that nobody else talks with.
WALK = ANA.model_copy(update={"agent_id": "walk"})
WISH = "Ana wants short answers."
TEXT = "Ana wants short answers, always."
RULES = ("Ana is never called before nine.", "Ana is never called after six.")
MERGED = "Ana is called between nine and six only."
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
    """The rules find the facts, a scripted model the rest."""
    with LoopbackModel() as model:
        model.answer(is_agent, "I see.")
        model.answer(REFLECTIONS, reflections(user=[reflection(WISH)]))
        model.answer(CONSOLIDATION, consolidation(TEXT))
        model.answer(
            offering("complete_refinement"),
            calling(("consolidate_memories", {"ids_to_merge": [2, 3], "new_content": MERGED})),
            calling(("complete_refinement", {"summary": "Two rules are one."})),
        )
        models = {
            "MNEMIC_FAST_MODEL": "offline",
            "MNEMIC_SLOW_MODEL": "openai:gpt-slow",
            "MNEMIC_AGENT_MODEL": "openai:gpt-agent",
            "MNEMIC_BASE_URL": model.base_url,
        }
        values = _values(database) | models | {"MNEMIC_EMBEDDER": "minilm", "MNEMIC_POOL_SIZE": "4"}
        often = {"CRON_SCHEDULER_SLEEP_TIME": "1"}  # seconds; by default five
        with running_dev_server(tmp_path_factory.mktemp("host"), values, env=often) as running:
            yield running


@pytest.fixture
async def client(opened: DevServer) -> AsyncIterator[LangGraphClient]:
    async with opened.client() as client:
        yield client


async def test_every_graph_shows_its_forms_and_its_drawing(client: LangGraphClient) -> None:
    for graph, node in FIRST_NODES.items():
        (assistant,) = await client.assistants.search(graph_id=graph)
        schemas: Any = await client.assistants.get_schemas(assistant["assistant_id"])
        drawing: Any = await client.assistants.get_graph(assistant["assistant_id"], xray=True)
        for name in ("input_schema", "output_schema", "context_schema"):
            assert schemas[name]["properties"], (graph, name)
        assert schemas["context_schema"]["required"] == ["agent_id"]
        assert assistant["description"]
        assert node in {drawn["id"].split(":")[-1] for drawn in drawing["nodes"]}


async def test_every_graph_runs_observed_without_blocking_the_server(
    opened: DevServer, client: LangGraphClient
) -> None:
    async with Mnemic.open(settings=Settings(**opened.settings.model_dump(exclude_unset=True))) as memory:
        await memory.observe(WALK, turns("I live in Lisbon.", "assistant: Lovely.", "Be short, please.", "Thank you."))

    formed = await _run(client, "formation", {"force": True})
    assert (formed["reason"], formed["formed"], formed["pending"]) == ("forced", 4, 0)
    assert formed["stored"]["reflection"] == 1

    written = await _run(client, "consolidation", {"scope_key": "user:ana", "force": True})
    assert [one["step"] for one in written.pop("spent")] == ["write_consolidation"]
    assert written == {"scope_key": "user:ana", "outcome": "saved", "absorbed": 1, "kept_share": 1.0, "problem": None}

    async with Mnemic.open(settings=Settings(**opened.settings.model_dump(exclude_unset=True))) as memory:
        for rule in RULES:
            await memory.remember(WALK, rule, category="constraints", kind="core")
    refined = await _run(client, "refinement", {"scope_key": "user:ana", "force": True})
    assert (refined["outcome"], refined["ended"], refined["resumed"]) == ("ended", "completed", False)
    assert (refined["merged"], refined["memories_before"], refined["memories_after"]) == (2, 3, 2)

    maintained = await _run(client, "maintenance", {"dry_run": True})
    assert (maintained["is_dry_run"], maintained["counts"]["unused"]) == (True, 0)

    recalled = await _run(client, "recall", {"question": "Where did I say that I live?"})
    assert recalled["searched"] == "phrase"
    assert TEXT in text_of(MemoryContext(**recalled["context"]))
    assert MERGED in text_of(MemoryContext(**recalled["context"]))
    assert "Lisbon" in text_of(MemoryContext(**recalled["context"]))
    assert recalled["memories"]
    assert recalled["over_budget"] == []

    assert "BlockingError" not in opened.log
    assert opened.log.count("MNEMIC_SERVER_KEY is not set") == 1


NOBODY: Any = {"agent_id": "walk"}


@pytest.mark.parametrize("threaded", [True, False], ids=["on a thread", "without"])
async def test_a_turn_of_no_user_is_an_error_to_its_client(
    opened: DevServer, client: LangGraphClient, threaded: bool
) -> None:
    thread = await new_thread(client) if threaded else None
    with pytest.raises(Exception, match="user_id"):
        await client.runs.wait(thread, "supervisor", input=said("I live in Lisbon."), context=NOBODY)
    stream = client.runs.stream(thread, "supervisor", input=said("I live in Lisbon."), context=NOBODY)
    errors = [part.data async for part in stream if part.event == "error"]
    assert [(error["error"], "user_id" in error["message"]) for error in errors] == [("MissingIdentityError", True)]
    if thread:
        assert {run["status"] for run in await client.runs.list(thread)} == {"error"}
    assert (
        await refusal(client.runs.wait(thread, "supervisor", input=said("Hi."), context={**NOBODY, "user": "vi"}))
        == 422
    )


@pytest.mark.parametrize(
    ("graph", "given", "context"),
    [
        ("refinement", {"scope_key": "user:vi", "force": True}, {"agent_id": "cron", "user_id": "vi"}),
        ("maintenance", {}, {"agent_id": "cron"}),
    ],
)
async def test_a_cron_runs_with_the_context_it_was_made_with(
    client: LangGraphClient, graph: str, given: dict[str, Any], context: dict[str, str]
) -> None:
    """As `runs.create` does, on a server that has authenticated nobody."""
    before = {thread["thread_id"] for thread in await client.threads.search(limit=1000)}
    cron: Any = await client.crons.create(
        graph, schedule="* * * * * *", input=given, context=context, on_run_completed="keep"
    )
    runs: list[Any] = []
    async with asyncio.timeout(60):
        while not any(run["status"] not in ("pending", "running") for run in runs):
            await asyncio.sleep(0.2)
            made = {thread["thread_id"] for thread in await client.threads.search(limit=1000)} - before
            runs = [run for thread in made for run in await client.runs.list(thread)]
    await client.crons.delete(cron["cron_id"])
    assert {run["status"] for run in runs} - {"pending", "running"} == {"success"}


@pytest.mark.parametrize(
    ("context", "key", "reason"),
    [({"agent_id": "cron"}, "user:vi", "user:vi|scope_key"), ({"user_id": "vi"}, "user:vi", "agent_id")],
)
async def test_a_cron_whose_runs_would_fail_is_refused(
    client: LangGraphClient, context: dict[str, str], key: str, reason: str
) -> None:
    with pytest.raises(APIStatusError, match=reason) as refused:
        await client.crons.create("refinement", schedule="0 4 1 1 *", input={"scope_key": key}, context=context)
    assert refused.value.status_code == 422


async def _run(client: LangGraphClient, graph: str, given: dict[str, Any]) -> Any:
    return await client.runs.wait(
        None, graph, input=given, context={**WALK.model_dump(mode="json"), "timezone": "Europe/Lisbon"}
    )


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
    foreign = ("evil.example", f"evil.example:{port}", "localhost.evil.example", "127.0.0.1.evil.example", "0.0.0.0")
    for host in (*foreign, "", "[::1", "10.0.0.1", "127.0.0.1@evil.example"):
        assert status(opened, path, Host=host) == 403, host
    for host in (f"localhost:{port}", f"LOCALHOST:{port}", "127.0.0.1", "127.0.0.1:8080", "[::1]:2024", "localhost"):
        assert status(opened, path, Host=host) != 403, host
    foreign = ("https://evil.example", "null", "file://", "https://smith.langchain.com.evil.example", "http://10.0.0.1")
    for origin in (*foreign, "http://smith.langchain.com", "https://smith.langchain.com:8443", "https://[::1"):
        assert status(opened, path, Origin=origin) == 403, origin
    for origin in ("http://localhost:3000", "http://127.0.0.1:5173", "https://localhost", "http://[::1]:80", STUDIO):
        assert status(opened, path, Origin=origin) != 403, origin


def test_a_request_without_a_name_is_refused(opened: DevServer) -> None:
    with socket.create_connection(("127.0.0.1", int(port_of(opened)))) as connection:
        connection.sendall(b"GET /threads/count HTTP/1.0\r\n\r\n")
        assert b" 403 " in connection.recv(1024).splitlines()[0]


def test_a_page_is_answered_as_its_preflight_is_and_opens_no_websocket(opened: DevServer) -> None:
    asked = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "content-type,x-auth-scheme"}
    url = f"{opened.url}/threads/search"
    studio = httpx.options(url, headers={**asked, "Origin": STUDIO})
    assert (studio.status_code, studio.headers["access-control-allow-origin"]) == (200, "*")
    assert "x-auth-scheme" in studio.headers["access-control-allow-headers"]
    assert httpx.options(url, headers={**asked, "Origin": "https://evil.example"}).status_code == 403
    assert status(opened, "/threads/1/stream/events", **UPGRADE, Origin="https://evil.example") == 403


def test_studio_reads_what_it_is_answered(opened: DevServer) -> None:
    """As its page asks: with its origin, and the header by which it passes for authenticated elsewhere."""
    headers = {"Origin": STUDIO, "x-auth-scheme": "langsmith"}
    with httpx.Client(base_url=opened.url, headers=headers, timeout=30) as studio:
        made = studio.post("/threads", json={})
        run = {"assistant_id": "supervisor", "input": said("Good morning."), "context": ANA.model_dump(mode="json")}
        answer = studio.post(f"/threads/{made.json()['thread_id']}/runs/wait", json=run)
        assert {item.headers["access-control-allow-origin"] for item in (made, answer)} == {"*"}
        assert answer.json()["messages"][0]["content"] == "Good morning."


def test_it_does_not_start_where_others_would_reach_it(database: Clone, tmp_path: Path) -> None:
    with (
        pytest.raises(AssertionError, match="MNEMIC_SERVER_KEY"),
        running_dev_server(tmp_path, _values(database), host="0.0.0.0"),
    ):
        pass


def test_request_from_another_origin_is_refused_on_every_address(database: Clone, tmp_path: Path) -> None:
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
        assert "MNEMIC_SERVER_KEY is not set" not in running.log
