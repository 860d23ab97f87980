"""Who may do what on LangGraph Server, asked over the wire; and a server without our rules, which is seen to leak."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from langgraph_sdk.client import LangGraphClient

from mnemic.state.identity import Identity
from tests.support.dev_server import token
from tests.support.served import (
    GUIDE,
    Served,
    metadata,
    new_thread,
    refusal,
    said,
    serving,
    talk,
    turn,
)
from tests.support.server import Server

STUDIO = {"x-auth-scheme": "langsmith"}
#: A control: our tokens, none of our rules and no middleware, and Studio's header is believed.
WITHOUT_RULES = """
from mnemic.service.server.auth import auth
auth._handlers.clear()
auth._global_handlers.clear()
"""


@pytest.fixture(scope="module")
def without_rules(server: Server, template: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    directory = tmp_path_factory.mktemp("host")
    with serving(server, template, directory, guarded=False, auth=WITHOUT_RULES, disable_studio_auth=False) as running:
        yield running


BAD: dict[str, Callable[[], str | None]] = {
    "none": lambda: None,
    "another key": lambda: token("ana", key="another key of many characters"),
    "expired": lambda: token("ana", days=-1),
}


@pytest.mark.parametrize("kind", BAD)
async def test_without_a_valid_token_nothing_is_answered(served: Served, kind: str) -> None:
    for headers in ({}, STUDIO):
        async with served.server.client(BAD[kind](), **headers) as client:
            assert await refusal(client.threads.search()) == 401
            assert await refusal(client.assistants.search()) == 401
            assert await refusal(client.store.search_items(("ana",))) == 401
            assert await refusal(turn(client, None)) == 401
            assert await refusal(client.http.get("/mnemic/health")) == 401


@pytest.mark.thorough
async def test_control_a_server_that_believes_studios_header_would_answer(without_rules: Served) -> None:
    async with without_rules.server.client(**STUDIO) as client:
        assert await refusal(client.threads.search()) == 200


async def test_our_own_route_says_what_is_in_use_and_nothing_of_what_is_stored(ana: LangGraphClient) -> None:
    health: Any = await ana.http.get("/mnemic/health")
    assert set(health) == {"database", "broken", "model", "embedder"}
    assert (health["database"], health["broken"], health["embedder"]) == ("ok", [], "hash:384")


@pytest.mark.thorough
async def test_control_a_server_without_our_rules_would_be_seen_and_has_no_state_to_show(
    without_rules: Served,
) -> None:
    """Behind the rules the database still keeps everybody's threads apart."""
    async with without_rules.client("ana") as ana, without_rules.client("bea") as bea:
        thread = await talk(ana)
        assert (await ana.threads.get_state(thread))["values"]
        assert await refusal(bea.threads.get(thread)) == 200
        assert (await bea.threads.get_state(thread))["values"] == {}


async def test_a_thread_cannot_be_given_to_somebody_else(ana: LangGraphClient, bea: LangGraphClient) -> None:
    thread = await new_thread(ana, owner="bea")
    await ana.threads.update(thread, metadata={"owner": "bea", "note": "mine"})
    assert await metadata(ana, thread) == {"owner": "ana", "note": "mine"}
    assert await refusal(bea.threads.get(thread)) == 404


@pytest.mark.thorough
@pytest.mark.parametrize("place", ["context", "config"])
async def test_a_request_cannot_say_who_was_authenticated(served: Served, ana: LangGraphClient, place: str) -> None:
    named = {**GUIDE, "langgraph_auth_user": {"identity": "bea"}, "langgraph_auth_user_id": "bea"}
    run: Any = {"context": named} if place == "context" else {"config": {"configurable": named}, "context": None}
    threads = [await new_thread(ana) for _ in range(2)]
    await turn(ana, threads[0], **run)
    assistant = await ana.assistants.create("supervisor", **{name: value for name, value in run.items() if value})
    await ana.runs.wait(threads[1], assistant["assistant_id"], input=said("Hello"))
    assert served.owners(*threads) == {("guide", "ana")}


async def test_what_was_said_is_formed_and_recalled_on_another_thread_of_its_user_alone(
    ana: LangGraphClient, bea: LangGraphClient
) -> None:
    thread = await talk(ana, "My name is Zoraida.")
    formed: Any = await ana.runs.wait(thread, "formation", input={"force": True}, context=GUIDE)
    assert formed["pending"] == 0
    question: Any = {"question": "What is my name?", "search": "always"}
    for client, is_known in ((ana, True), (bea, False)):
        recalled: Any = await client.runs.wait(await new_thread(client), "recall", input=question, context=GUIDE)
        assert ("Zoraida" in recalled["context"]) is is_known


@pytest.mark.thorough
async def test_groups_are_those_of_the_token(served: Served) -> None:
    recall: Any = {"question": "Which harbour is closed on Sundays?", "search": "always"}
    bo = Identity(agent_id="guide", user_id="bo", group_ids=("harbor",))
    async with served.memory() as memory:
        await memory.remember(bo, "The harbour is closed on Sundays.", category="knowledge", scope="group")
    for groups, is_known in ((["harbor"], True), ([], False)):
        async with served.client("ana", groups=groups) as client:
            recalled: Any = await client.runs.wait(None, "recall", input=recall, context=GUIDE)
            assert ("Sundays" in recalled["context"]) is is_known


async def test_assistants_are_read_by_all_and_changed_by_who_made_them(
    ana: LangGraphClient, bea: LangGraphClient
) -> None:
    made = await ana.assistants.create("supervisor", context=GUIDE, metadata={"owner": "bea"})
    assistant = made["assistant_id"]
    assert (await bea.assistants.get(assistant))["context"] == GUIDE
    assert await refusal(bea.assistants.update(assistant, name="mine")) == 404
    assert await refusal(bea.assistants.delete(assistant)) == 404
    (system,) = await bea.assistants.search(graph_id="recall")
    assert await refusal(bea.assistants.update(system["assistant_id"], name="mine")) == 404
    await ana.assistants.update(assistant, name="the guide")
    assert (await bea.assistants.get(assistant))["name"] == "the guide"
    await ana.assistants.delete(assistant)


@pytest.mark.parametrize(("user", "other"), [("cara", "dora"), ("cara@example.org", "cara@example%2Eorg")])
async def test_items_of_the_store_are_their_owners(served: Served, user: str, other: str) -> None:
    async with served.client(user) as client, served.client(other) as stranger:
        await client.store.put_item(["notes"], "one", {"text": "mine"})
        assert (await client.store.get_item(["notes"], "one"))["value"] == {"text": "mine"}
        (found,) = (await client.store.search_items([]))["items"]
        assert (await client.store.get_item(found["namespace"], "one"))["value"] == {"text": "mine"}
        for namespace in (["notes"], found["namespace"], []):
            assert (await stranger.store.search_items(namespace))["items"] == []
        assert (await stranger.store.list_namespaces())["namespaces"] == []
        await client.store.delete_item(["notes"], "one")


def test_the_rules_of_the_repository_are_in_force() -> None:
    config = json.loads(Path("langgraph.json").read_text(encoding="utf-8"))
    assert config["auth"] == {"path": "mnemic.service.server.auth:auth", "disable_studio_auth": True}
    assert config["http"]["enable_custom_route_auth"] is True
