"""Who may do what on LangGraph Server, asked over the wire; and a server without our rules, which is seen to leak."""

import json
import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from langgraph_sdk.client import LangGraphClient

from mnemic.service.memory import Mnemic
from mnemic.state.identity import Identity
from tests.support.asking_server import GUIDE, attempts, refusal, said, talk
from tests.support.dev_routes import listing_app
from tests.support.dev_server import KEY, DevServer, running_dev_server, token
from tests.support.server import Clone, Server, cloned

STUDIO = {"x-auth-scheme": "langsmith"}
#: A control: our tokens, none of our rules and no middleware, and Studio's header is believed.
WITHOUT_RULES = """
from mnemic.service.server.auth import auth
auth._handlers.clear()
auth._global_handlers.clear()
"""


@dataclass
class World:
    server: DevServer
    clone: Clone


def _values(clone: Clone) -> dict[str, str]:
    return {
        "MNEMIC_DATABASE_URL": clone.service_dsn,
        "MNEMIC_SERVER_KEY": KEY,
        "MNEMIC_EMBEDDER": "hash",
        "MNEMIC_POOL_SIZE": "4",
    }


@pytest.fixture(scope="module")
def world(server: Server, template: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    directory = tmp_path_factory.mktemp("host")
    with cloned(server, template) as clone, running_dev_server(directory, _values(clone)) as running:
        yield World(running, clone)


@pytest.fixture(scope="module")
def without_rules(server: Server, template: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    directory: Path = tmp_path_factory.mktemp("host")
    (directory / "without_rules.py").write_text(WITHOUT_RULES, encoding="utf-8")
    auth = {"path": "./without_rules.py:auth", "disable_studio_auth": False}
    http = listing_app(directory, guarded=False)
    with (
        cloned(server, template) as clone,
        running_dev_server(directory, _values(clone), auth=auth, http=http) as running,
    ):
        yield World(running, clone)


@pytest.fixture
async def ana(world: World) -> AsyncIterator[LangGraphClient]:
    async with world.server.client(token("ana")) as client:
        yield client


@pytest.fixture
async def bea(world: World) -> AsyncIterator[LangGraphClient]:
    async with world.server.client(token("bea")) as client:
        yield client


BAD: dict[str, Callable[[], str | None]] = {
    "none": lambda: None,
    "no token": lambda: "me",
    "another key": lambda: token("ana", key="another key of many characters"),
    "expired": lambda: token("ana", days=-1),
    "changed": lambda: token("ana").replace(".", ".e", 1),
    "signed by nobody": lambda: token("ana").rpartition(".")[0] + ".",
}


@pytest.mark.parametrize("kind", BAD)
@pytest.mark.parametrize("headers", [{}, STUDIO], ids=["plain", "as Studio"])
async def test_without_a_valid_token_nothing_is_answered(world: World, kind: str, headers: dict[str, str]) -> None:
    async with world.server.client(BAD[kind](), **headers) as client:
        assert await refusal(client.threads.search()) == 401
        assert await refusal(client.assistants.search()) == 401
        assert await refusal(client.store.search_items(("ana",))) == 401
        assert await refusal(client.runs.wait(None, "supervisor", input=said("Hello"), context=GUIDE)) == 401
        assert await refusal(client.http.get("/mnemic/health")) == 401


async def test_a_server_that_believes_studios_header_would_be_seen(without_rules: World) -> None:
    """The control of the test above."""
    async with without_rules.server.client(**STUDIO) as client:
        assert await refusal(client.threads.search()) == 200


async def test_our_own_route_says_what_is_in_use_and_nothing_of_what_is_stored(ana: LangGraphClient) -> None:
    assert await ana.http.get("/mnemic/health") == {
        "database": "ok",
        "broken": [],
        "model": "offline rules",
        "embedder": "hash:384",
    }


async def test_a_foreign_thread_is_answered_as_one_that_is_not_there(
    ana: LangGraphClient, bea: LangGraphClient
) -> None:
    thread = await talk(ana)
    (run,) = await ana.runs.list(thread)
    before = await ana.threads.get_state(thread)
    foreign = {name: await refusal(made) for name, made in attempts(bea, thread, run["run_id"]).items()}
    nowhere, nothing = str(uuid.uuid4()), str(uuid.uuid4())
    unknown = {name: await refusal(made) for name, made in attempts(bea, nowhere, nothing).items()}
    assert foreign == unknown
    # to copy what is not there is a conflict to the server
    assert {name: status for name, status in foreign.items() if status != 404} == {"copy": 409}
    assert await ana.threads.get_state(thread) == before
    assert thread in [one["thread_id"] for one in await ana.threads.search(limit=100)]
    assert thread not in [one["thread_id"] for one in await bea.threads.search(limit=100)]
    assert thread not in [one["thread_id"] for one in await bea.threads.search(metadata={"owner": "ana"}, limit=100)]
    assert await refusal(bea.threads.create(thread_id=thread, if_exists="do_nothing")) == 409


async def test_a_server_without_our_rules_would_be_seen_and_has_no_state_to_show(without_rules: World) -> None:
    """The control of the test above; behind the rules the database still keeps everybody's threads apart."""
    async with without_rules.server.client(token("ana")) as ana, without_rules.server.client(token("bea")) as bea:
        thread = await talk(ana)
        assert (await ana.threads.get_state(thread))["values"]
        assert await refusal(bea.threads.get(thread)) == 200
        assert (await bea.threads.get_state(thread))["values"] == {}


async def test_a_thread_cannot_be_given_to_somebody_else(ana: LangGraphClient, bea: LangGraphClient) -> None:
    thread = (await ana.threads.create(metadata={"owner": "bea"}))["thread_id"]
    await ana.threads.update(thread, metadata={"owner": "bea", "note": "mine"})
    assert (await ana.threads.get(thread))["metadata"] == {"owner": "ana", "note": "mine"}
    assert await refusal(bea.threads.get(thread)) == 404


REFUSED: dict[str, dict[str, Any]] = {
    "user_id": {"user_id": "bea"},
    "actor_id": {"actor_id": "bea"},
    "session_id": {"session_id": "another thread"},
    "group_ids": {"group_ids": ["harbor", "pier"]},
    "agent_id": {"agent_id": "another"},
}


@pytest.mark.parametrize("graph", ["supervisor", "recall", "formation"])
@pytest.mark.parametrize("field", REFUSED)
async def test_a_run_that_names_what_is_not_its_users_is_refused_before_anything_is_done(
    world: World, graph: str, field: str
) -> None:
    holder = token("ana", agents=["guide"], groups=["harbor"])
    async with world.server.client(holder) as client:
        given = {"messages": said("Hello")["messages"]} if graph == "supervisor" else {"question": "Who am I?"}
        for thread in ((await client.threads.create())["thread_id"], None):
            with pytest.raises(Exception, match=field):
                await client.runs.wait(thread, graph, input=given, context={**GUIDE, **REFUSED[field]})
            assert thread is None or stored(world.clone, thread) == []


@pytest.mark.parametrize("named", [{"user": "bea"}, {"additional_kwargs": {"user": "bea"}}, {"author": "bea"}])
async def test_no_message_is_anothers_words(world: World, ana: LangGraphClient, named: dict[str, Any]) -> None:
    """Of a thread's messages LangChain keeps a `user`, which is refused, and an `author` only where nobody looks."""
    forged: Any = {"role": "user", "content": "I am allergic to nothing.", **named}
    thread = (await ana.threads.create())["thread_id"]
    refused = pytest.raises(Exception, match="RefusedIdentityError")
    with nullcontext() if "author" in named else refused:
        await ana.runs.wait(thread, "supervisor", input={"messages": [forged]}, context=GUIDE)
    with world.clone.as_superuser() as superuser:
        said = "select distinct user_id, brought_by from mnemic.messages where session_id = %s and role = 'user'"
        owners = superuser.execute(said, (thread,)).fetchall()
    assert owners == ([("ana", "ana")] if "author" in named else [])


@pytest.mark.parametrize("place", ["context", "config"])
async def test_a_request_cannot_say_who_was_authenticated(world: World, ana: LangGraphClient, place: str) -> None:
    named = {**GUIDE, "langgraph_auth_user": {"identity": "bea"}, "langgraph_auth_user_id": "bea"}
    asked: Any = {"context": named} if place == "context" else {"config": {"configurable": named}}
    threads = [(await ana.threads.create())["thread_id"] for _ in range(2)]
    await ana.runs.wait(threads[0], "supervisor", input=said("Hello"), **asked)
    assistant = await ana.assistants.create("supervisor", **asked)
    await ana.runs.wait(threads[1], assistant["assistant_id"], input=said("Hello"))
    with world.clone.as_superuser() as superuser:
        owners = superuser.execute(
            "select distinct agent_id, user_id from mnemic.supervisor_checkpoints where thread_id = any(%s)"
            " union select agent_id, user_id from mnemic.messages where session_id = any(%s) and role = 'user'",
            (threads, threads),
        ).fetchall()
    assert owners == [("guide", "ana")]


def stored(clone: Clone, thread: str) -> list[Any]:
    """What our tables have of a thread: checkpoints, and messages of the session that it is."""
    with clone.as_superuser() as superuser:
        return superuser.execute(
            "select thread_id from mnemic.checkpoints where thread_id like %s"
            " union all select session_id from mnemic.messages where session_id = %s",
            ("%" + thread, thread),
        ).fetchall()


async def test_a_run_is_its_tokens_users(world: World) -> None:
    async with world.server.client(token("ana", groups=["harbor"])) as client:
        thread = await talk(client, user_id="ana", group_ids=["harbor"])
        assert (await client.threads.get_state(thread))["values"]
    with world.clone.as_superuser() as superuser:
        found = superuser.execute(
            "select distinct agent_id, user_id from mnemic.messages where session_id = %s and role = 'user'", (thread,)
        ).fetchall()
    assert found == [("guide", "ana")]


async def test_what_was_said_on_a_thread_is_formed_and_recalled_on_another_of_its_user_alone(
    world: World, ana: LangGraphClient, bea: LangGraphClient
) -> None:
    thread = await talk(ana, "My name is Zoraida.")
    formed: Any = await ana.runs.wait(thread, "formation", input={"force": True}, context=GUIDE)
    assert formed["pending"] == 0
    asked = said("What is my name?")
    answers = {}
    for client in (ana, bea):
        other = (await client.threads.create())["thread_id"]
        answered: Any = await client.runs.wait(other, "supervisor", input=asked, context=GUIDE)
        answers[client] = "Zoraida" in answered["messages"][-1]["content"]
    assert (answers[ana], answers[bea]) == (True, False)
    again: Any = await ana.runs.wait(thread, "supervisor", input=asked, context=GUIDE)
    assert again["messages"][0]["content"] == "My name is Zoraida."


async def test_groups_are_those_of_the_token(world: World) -> None:
    recall: Any = {"question": "Which harbour is closed on Sundays?", "search": "always"}
    bo = Identity(agent_id="guide", user_id="bo", group_ids=("harbor",))
    async with Mnemic.open(**world.server.settings.model_dump(exclude_unset=True)) as memory:
        await memory.remember(bo, "The harbour is closed on Sundays.", category="knowledge", scope="group")
    answers = {}
    for groups in (["harbor"], []):
        async with world.server.client(token("ana", groups=groups)) as client:
            answered: Any = await client.runs.wait(None, "recall", input=recall, context=GUIDE)
            answers[len(groups)] = "Sundays" in answered["context"]
    assert answers == {1: True, 0: False}


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


async def test_crons_belong_to_who_made_them_and_need_a_token_for_every_agent(
    world: World, ana: LangGraphClient, bea: LangGraphClient
) -> None:
    cron: Any = await ana.crons.create("supervisor", schedule="0 4 1 1 *", input=said("Happy new year."), context=GUIDE)
    assert [one["cron_id"] for one in await ana.crons.search()] == [cron["cron_id"]]
    assert await bea.crons.search() == []
    assert await refusal(bea.crons.delete(cron["cron_id"])) == 404
    async with world.server.client(token("ana", agents=["guide"])) as bound:
        assert (
            await refusal(bound.crons.create("supervisor", schedule="0 4 1 1 *", context={"agent_id": "other"})) == 403
        )
    await ana.crons.delete(cron["cron_id"])


@pytest.mark.parametrize(("user", "other"), [("ana", "bea"), ("ana@example.org", "ana@example%2Eorg")])
async def test_items_of_the_store_are_their_owners(world: World, user: str, other: str) -> None:
    async with world.server.client(token(user)) as client, world.server.client(token(other)) as stranger:
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
