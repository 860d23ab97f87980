"""LangGraph Server as a person's client uses it: threads, streams, consent, restarts, and who may do what."""

import asyncio
import json
import threading
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from langgraph_sdk.client import LangGraphClient
from langgraph_sdk.errors import UnprocessableEntityError

from mnemic.state.graphs import MemoryContext
from mnemic.state.identity import Identity
from tests.support.agents import CANARY, KEPT, is_agent, system_of
from tests.support.loopback import LoopbackModel, Reply, Request, calling
from tests.support.served import (
    GUIDE,
    Served,
    new_thread,
    refusal,
    running_dev_server,
    serving,
    settings_of,
    talk,
    token,
    turn,
    words,
)
from tests.support.server import Server, cloned
from tests.support.threads import said
from tests.support.worlds import text_of

ANA = Identity(agent_id="guide", user_id="ana")
MORNING, NIGHT = "Good morning.", "And good night."
TALK = [("human", MORNING), ("ai", "I see."), ("human", NIGHT), ("ai", "I see.")]


async def remember_bees(served: Served) -> str:
    """So that they are forgotten with consent only; the tests of a worker share the server and what it remembers."""
    async with served.memory() as memory:
        return str((await memory.remember(ANA, KEPT, category="profile", importance=5)).id)


async def test_a_thread_goes_on_under_its_owner_and_can_be_read(ana: LangGraphClient, served: Served) -> None:
    thread = await talk(ana, MORNING)
    assert words(await turn(ana, thread, NIGHT)) == TALK
    state = await ana.threads.get_state(thread)
    assert (words(state["values"]), state["next"]) == (TALK, [])
    history: Any = await ana.threads.get_history(thread, limit=100)
    assert len(history[-1]["values"].get("messages", [])) == 0
    assert {item["metadata"]["source"] for item in history} == {"input", "loop"}
    assert served.owners(thread) == {("guide", "ana")}
    assert f"guide/ana/{thread}" in served.rows()["checkpoints"]
    await ana.threads.delete(thread)
    assert thread not in str(served.rows())


async def test_unknown_field_of_an_identity_is_refused_with_the_nearest_name(ana: LangGraphClient) -> None:
    run = ana.runs.create(None, "supervisor", input=said(MORNING), context={**GUIDE, "user": "vi"})
    with pytest.raises(UnprocessableEntityError, match="user_id"):
        await run


async def test_an_answer_is_streamed_by_tokens_and_progress(ana: LangGraphClient, served: Served) -> None:
    served.model.answer(is_agent, "The tide is high.")
    run: Any = {"input": said("How is the tide?"), "context": GUIDE, "stream_mode": ["messages-tuple", "custom"]}
    parts: list[Any] = [part async for part in ana.runs.stream(await new_thread(ana), "supervisor", **run)]
    pieces = [part.data[0] for part in parts if part.event == "messages"]
    words_of_it = [piece["content"] for piece in pieces if piece["type"] == "AIMessageChunk"]
    assert "".join(words_of_it) == "The tide is high."
    assert len(words_of_it) > 3
    steps = [part.data["step"] for part in parts if part.event == "custom"]
    assert steps == ["recall", "answer", "observe"]


async def test_memory_is_in_no_checkpoint_and_is_forgotten_with_consent_only(
    ana: LangGraphClient, served: Served
) -> None:
    important = await remember_bees(served)
    served.model.answer(is_agent, calling(("forget", {"id": important})), "It is settled.")
    question = f"Forget my bees on the quay. {important}"
    thread = await talk(ana, question)
    assert KEPT in [system_of(request) for request in served.model.chat_requests if is_agent(request)][-1]
    waiting: Any = await ana.threads.get_state(thread)
    assert waiting["next"] == ["confirm"]
    (interrupt,) = waiting["interrupts"]
    assert [memory["id"] for memory in interrupt["value"]["memories"]] == [important]
    async with served.memory() as memory:
        assert important in {str(item.id) for item in await memory.memories(ANA)}
        resumed: Any = await turn(ana, thread, input=None, command={"resume": {"approved": True}})
        assert words(resumed)[-1] == ("ai", "It is settled.")
        assert important not in {str(item.id) for item in await memory.memories(ANA)}
    stored = served.rows()
    assert question in stored["checkpoint_blobs"]
    assert CANARY not in str(stored)
    assert CANARY not in str(await ana.threads.get(thread))


@pytest.mark.thorough
async def test_the_servers_own_row_of_a_thread_holds_no_words_of_memory(ana: LangGraphClient, served: Served) -> None:
    await remember_bees(served)
    thread = await new_thread(ana)
    recalled: Any = await ana.runs.wait(thread, "recall", input={"question": "Where are my bees?"}, context=GUIDE)
    assert CANARY in text_of(MemoryContext(**recalled["context"]))
    assert CANARY not in str(await ana.threads.get(thread))

    async with served.memory() as memory:
        message = {"role": "user", "content": f"I live in {CANARY}, by the sea."}
        await memory.observe(ANA.model_copy(update={"session_id": thread}), [message])
    run = {"input": {"force": True}, "context": GUIDE, "stream_mode": ["updates", "tasks", "values"]}
    parts: list[Any] = [part async for part in ana.runs.stream(thread, "formation", **run)]
    updates = {node: update for part in parts if part.event == "updates" for node, update in part.data.items()}
    assert (updates["gate"]["formed"], parts[-1].data["formed"]) == (1, 1)
    # records pass from node to node, and reach a client that asks for the tasks as JSON
    assert message["content"] in str([part.data for part in parts if part.event == "tasks"])
    assert message["content"] not in str([part.data for part in parts if part.event != "tasks"])
    assert CANARY not in str(await ana.threads.get(thread))


@pytest.mark.thorough
async def test_a_thread_can_be_copied_changed_and_rid_of_a_run(ana: LangGraphClient) -> None:
    thread = await talk(ana, MORNING)
    await turn(ana, thread, NIGHT)
    copied: Any = await ana.threads.copy(thread)  # type: ignore[func-returns-value]
    assert words((await ana.threads.get_state(copied["thread_id"]))["values"]) == TALK

    last = max(await ana.runs.list(thread), key=lambda run: run["created_at"])
    await ana.runs.delete(thread, last["run_id"])
    assert words((await ana.threads.get_state(thread))["values"]) == TALK[:2]
    assert words((await ana.threads.get_state(copied["thread_id"]))["values"]) == TALK

    await ana.threads.update_state(thread, said("I was never here."), as_node="recall")
    assert words((await ana.threads.get_state(thread))["values"])[-1] == ("human", "I was never here.")


@pytest.mark.thorough
async def test_a_run_that_is_rolled_back_leaves_nothing_on_its_thread(ana: LangGraphClient, served: Served) -> None:
    thread = await talk(ana, MORNING)
    begun, held, words_of_it = threading.Event(), threading.Event(), f"Quittengelb {uuid.uuid4()}"

    def slowly(_: Request) -> Reply:
        begun.set()
        return Reply(content="I heard that.", after=held)

    served.model.answer(words_of_it, slowly)
    await ana.runs.create(thread, "supervisor", input=said(words_of_it), context=GUIDE)
    assert await asyncio.to_thread(begun.wait, 30)
    answered = await turn(ana, thread, NIGHT, multitask_strategy="rollback")
    held.set()
    assert words(answered) == TALK
    assert words_of_it not in str(served.rows())


@pytest.mark.thorough
async def test_a_server_without_its_database_does_not_start_and_says_what_to_do(tmp_path: Path) -> None:
    values = {"MNEMIC_DATABASE_URL": "host=127.0.0.1 port=1 user=mnemic_app", "MNEMIC_POOL_TIMEOUT_SECONDS": "0.5"}
    with (
        pytest.raises(AssertionError, match="connection with MNEMIC_DATABASE_URL"),
        running_dev_server(tmp_path, values),
    ):
        pass


@pytest.mark.thorough
async def test_a_thread_outlives_its_server(server: Server, template: str, tmp_path: Path) -> None:
    with cloned(server, template) as clone, LoopbackModel() as model:
        model.answer(is_agent, "I see.")
        with running_dev_server(tmp_path, settings_of(clone, model)) as first:
            async with first.client(token("ana")) as client:
                thread = await talk(client, MORNING)
        with running_dev_server(tmp_path, settings_of(clone, model)) as second:
            async with second.client(token("ana")) as client:
                assert words(await turn(client, thread, NIGHT)) == TALK
            assert "Traceback" not in second.log


# -- who may do what, and a server without our rules, which is seen to leak


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


@pytest.mark.thorough
async def test_control_a_server_without_our_rules_is_seen_and_has_no_state(
    without_rules: Served,
) -> None:
    """Behind the rules the database still keeps everybody's threads apart."""
    async with without_rules.client("ana") as ana, without_rules.client("bea") as bea:
        thread = await talk(ana)
        assert (await ana.threads.get_state(thread))["values"]
        assert await refusal(bea.threads.get(thread)) == 200
        assert (await bea.threads.get_state(thread))["values"] == {}
    async with without_rules.server.client(**{"x-auth-scheme": "langsmith"}) as studio:
        assert await refusal(studio.threads.search()) == 200


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


async def test_conversation_is_recalled_on_other_threads_of_its_user_alone(
    ana: LangGraphClient, bea: LangGraphClient
) -> None:
    thread = await talk(ana, "My name is Zoraida.")
    formed: Any = await ana.runs.wait(thread, "formation", input={"force": True}, context=GUIDE)
    assert formed["pending"] == 0
    for client, is_known in ((ana, True), (bea, False)):
        assert ("Zoraida" in await recalled(client, "What is my name?")) is is_known


@pytest.mark.thorough
async def test_groups_are_those_of_the_token(served: Served) -> None:
    bo = Identity(agent_id="guide", user_id="bo", group_ids=("harbor",))
    async with served.memory() as memory:
        await memory.remember(bo, "The harbour is closed on Sundays.", category="knowledge", scope="group")
    for groups, is_known in ((["harbor"], True), ([], False)):
        async with served.client("ana", groups=groups) as client:
            context = await recalled(client, "Which harbour is closed on Sundays?")
            assert ("Sundays" in context) is is_known


async def recalled(client: LangGraphClient, question: str) -> str:
    answer: Any = await client.runs.wait(
        None, "recall", input={"question": question, "search": "always"}, context=GUIDE
    )
    return text_of(MemoryContext(**answer["context"]))


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
