"""Tokens that name their agents, on LangGraph Server: of a user's threads, runs and items they see only these."""

import asyncio
import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from types import SimpleNamespace
from typing import Any

import pytest
from langgraph_sdk.client import LangGraphClient

from tests.support.served import (
    GUIDE,
    PILOT,
    Served,
    ids,
    metadata,
    new_thread,
    refusal,
    requests_about,
    run_of,
    serving,
    talk,
    turn,
    words,
)
from tests.support.server import Server
from tests.support.threads import said

#: A control: our rules, for which no token names its agents.
WITHOUT_AGENTS = """
from mnemic.service.server import auth as rules
from mnemic.service.server.auth import auth
rules.token_claim = lambda user, field: ()
"""


@pytest.fixture(scope="module")
def without_agents(server: Server, template: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(server, template, tmp_path_factory.mktemp("host"), auth=WITHOUT_AGENTS) as running:
        yield running


@asynccontextmanager
async def clients(served: Served) -> AsyncIterator[Any]:
    """One person's tokens: one for every agent, three that name theirs; and another person's."""
    agents = {"free": [], "guide": ["guide"], "pilot": ["pilot"], "both": ["guide", "pilot"]}
    async with AsyncExitStack() as stack:
        named = {name: await stack.enter_async_context(served.client(agents=of)) for name, of in agents.items()}
        yield SimpleNamespace(**named, bea=await stack.enter_async_context(served.client("bea")))


@pytest.fixture
async def ana(served: Served) -> AsyncIterator[Any]:
    async with clients(served) as found:
        yield found


@pytest.mark.parametrize("stranger", ["guide", "bea"])
async def test_a_foreign_thread_is_answered_as_one_that_is_not_there(ana: Any, stranger: str) -> None:
    """Another user's, and the same user's with another agent."""
    thread, client = await talk(ana.free, **PILOT), getattr(ana, stranger)
    run, before = await run_of(ana.free, thread), await ana.free.threads.get_state(thread)
    checkpoint = str(before["checkpoint"]["checkpoint_id"])
    foreign = {name: await refusal(made) for name, made in requests_about(client, thread, run, checkpoint).items()}
    nowhere = requests_about(client, str(uuid.uuid4()), str(uuid.uuid4()), checkpoint)
    assert foreign == {name: await refusal(made) for name, made in nowhere.items()}
    # to copy what is not there is a conflict to the server
    assert {name: status for name, status in foreign.items() if status != 404} == {"copy": 409}
    for stream in (client.runs.join_stream(thread, run), await client.threads.join_stream(thread)):
        # the server answers first, and refuses within the stream
        assert [(part.event, part.data["error"]) async for part in stream] == [("error", "HTTPException")]
    for asked in ({}, {"metadata": {"owner": "ana"}}, {"metadata": PILOT}):
        assert thread not in await ids(client, **asked)
    assert await refusal(client.threads.create(thread_id=thread, if_exists="do_nothing")) == 409
    assert await ana.free.threads.get_state(thread) == before
    assert await run_of(ana.free, thread) == run
    assert thread in await ids(ana.free)


@pytest.mark.thorough
async def test_control_a_server_whose_rules_lack_agents_is_seen_and_has_no_state(
    without_agents: Served,
) -> None:
    """Behind the rules the checkpointer still goes by the token."""
    async with clients(without_agents) as ana:
        thread = await talk(ana.free, **PILOT)
        assert (await ana.free.threads.get_state(thread))["values"]
        assert (await ana.guide.threads.get(thread))["values"]
        assert thread in await ids(ana.guide)
        assert (await ana.guide.threads.get_state(thread))["values"] == {}
        assert await ana.guide.threads.get_history(thread) == []


@pytest.mark.thorough
async def test_a_thread_is_seen_by_every_token_of_its_user_that_names_its_agent(ana: Any) -> None:
    thread = await talk(ana.free)
    run = await run_of(ana.free, thread)
    for client in (ana.free, ana.guide, ana.both):
        assert (await metadata(client, thread))["agent_id"] == "guide"
        assert len(words((await client.threads.get_state(thread))["values"])) == 2
        assert thread in await ids(client)
        assert await run_of(client, thread) == run
    for client in (ana.pilot, ana.bea):
        assert await refusal(client.threads.get(thread)) == 404
        assert thread not in await ids(client)
    await turn(ana.guide, thread, "And on.")
    copied: Any = await ana.guide.threads.copy(thread)
    assert len(words((await ana.both.threads.get_state(copied["thread_id"]))["values"])) == 4
    assert await refusal(ana.pilot.threads.get_state(copied["thread_id"])) == 404
    await ana.guide.threads.delete(thread)
    assert await refusal(ana.free.threads.get(thread)) == 404


@pytest.mark.thorough
async def test_thread_made_by_a_bound_token_belongs_to_its_agent_and_is_visible(ana: Any) -> None:
    thread = await new_thread(ana.guide, **PILOT)
    assert await metadata(ana.guide, thread) == {"owner": "ana", "agent_id": "guide"}
    assert await refusal(ana.pilot.threads.get(thread)) == 404
    for named in ({}, {"agent_id": "other"}, {"agent_id": ["guide"]}):
        assert await refusal(ana.both.threads.create(metadata=named)) == 403
    chosen = await new_thread(ana.both, **PILOT)
    assert await refusal(ana.pilot.threads.get(chosen)) == 200
    empty = await new_thread(ana.free)  # nobody's yet
    for client in (ana.guide, ana.both):
        assert await refusal(client.threads.get(empty)) == 404
        assert await refusal(turn(client, empty, "Mine?")) == 404


async def test_whose_thread_it_is_does_not_change(ana: Any) -> None:
    """Neither its person nor its agent, by whatever a client says of it."""
    thread = await talk(ana.free, **PILOT)
    for client in (ana.free, ana.pilot):
        await client.threads.update(thread, metadata={**GUIDE, "owner": "bea", "note": "mine"})
        now = await metadata(client, thread)
        assert {name: now[name] for name in ("owner", "agent_id", "note")} == {**PILOT, "owner": "ana", "note": "mine"}
    assert (await metadata(ana.free, await new_thread(ana.free, owner="bea")))["owner"] == "ana"
    told: Any = {"input": said("Whose?"), "context": GUIDE, "metadata": PILOT, "config": {"metadata": PILOT}}
    assert await refusal(turn(ana.free, thread, **told)) == 409
    assert await refusal(turn(ana.guide, thread, **told)) == 404
    new = str(uuid.uuid4())
    await turn(ana.free, new, **told, if_not_exists="create")
    assert (await metadata(ana.free, new))["agent_id"] == "guide"


@pytest.mark.thorough
@pytest.mark.parametrize("place", ["context", "config", "assistant", "assistant of a config"])
async def test_another_agents_run_is_refused_wherever_it_is_named(ana: Any, served: Served, place: str) -> None:
    asked: Any = {"context": PILOT} if place in ("context", "assistant") else {"config": {"configurable": PILOT}}
    assistant = "supervisor"
    if place.startswith("assistant"):
        assistant = (await ana.free.assistants.create("supervisor", **asked))["assistant_id"]
        asked = {}
    thread, text = await new_thread(ana.guide), f"Quittengelb {uuid.uuid4()}"
    for where in (thread, None):
        assert await refusal(ana.guide.runs.wait(where, assistant, input=said(text), **asked)) == 403
    assert await ana.guide.runs.list(thread) == []
    with served.clone.as_superuser() as superuser:
        assert superuser.execute("select from mnemic.messages where content = %s", (text,)).fetchall() == []
    assert await refusal(ana.pilot.runs.wait(None, assistant, input=said(text), **asked)) == 200


@pytest.mark.thorough
async def test_a_run_that_names_no_agent_is_told_so_before_it_is_made(ana: Any) -> None:
    thread = await new_thread(ana.guide)
    for client in (ana.free, ana.guide):
        for context in ({}, {"agent_id": 7}):
            assert await refusal(turn(client, thread, "Who?", context=context)) == 422
        assert await refusal(client.runs.wait(thread, str(uuid.uuid4()), input=said("Who?"))) == 404
    assert await ana.free.runs.list(thread) == []


@pytest.mark.thorough
async def test_assistants_are_read_by_all_and_changed_by_tokens_of_who_made_them(
    ana: Any,
) -> None:
    mine = (await ana.guide.assistants.create("supervisor", context=GUIDE))["assistant_id"]
    free = (await ana.free.assistants.create("supervisor", context=PILOT, metadata={"owner": "bea"}))["assistant_id"]
    assert (await ana.bea.assistants.get(free))["context"] == PILOT
    (system,) = await ana.bea.assistants.search(graph_id="recall", metadata={"created_by": "system"})
    assert await refusal(ana.bea.assistants.update(system["assistant_id"], name="mine")) == 404
    for assistant, client in ((mine, ana.pilot), (mine, ana.bea), (free, ana.guide), (free, ana.bea)):
        assert await refusal(client.assistants.update(assistant, name="theirs")) == 404
        assert await refusal(client.assistants.set_latest(assistant, 1)) == 404
        assert await refusal(client.assistants.delete(assistant, delete_threads=True)) == 404
    await ana.guide.assistants.update(mine, name="mine", metadata=PILOT)
    assert dict((await ana.guide.assistants.get(mine))["metadata"] or {})["agent_id"] == "guide"
    for client in (ana.both, ana.free):
        await client.assistants.update(mine, name="still mine")


async def test_crons_belong_to_their_owners_and_are_closed_to_agent_tokens(ana: Any) -> None:
    schedule: Any = {"schedule": "0 4 1 1 *", "input": said("Happy new year."), "context": PILOT}
    cron: Any = await ana.free.crons.create("supervisor", **schedule)
    assert cron["cron_id"] in [found["cron_id"] for found in await ana.free.crons.search()]
    assert await ana.bea.crons.search() == []
    assert await refusal(ana.bea.crons.delete(cron["cron_id"])) == 404
    thread = await talk(ana.free)
    for client in (ana.guide, ana.pilot, ana.both):
        assert await refusal(client.crons.search()) == 403
        assert await refusal(client.crons.count()) == 403
        assert await refusal(client.crons.update(cron["cron_id"], enabled=False)) == 403
        assert await refusal(client.crons.delete(cron["cron_id"])) == 403
        assert await refusal(client.crons.create("supervisor", **schedule)) == 403
        assert await refusal(client.crons.create_for_thread(thread, "supervisor", **schedule)) in (403, 404)
    await ana.free.crons.delete(cron["cron_id"])


@pytest.mark.parametrize(
    ("graph", "given", "context"),
    [
        ("supervisor", said("Hello."), {**PILOT, "user_id": "bea"}),
        ("supervisor", said("Hello."), {**PILOT, "group_ids": ["crew"]}),
        ("refinement", {"scope_key": "user:bea"}, PILOT),
        ("refinement", {"scope_key": "agent:pilot"}, PILOT),
        ("refinement", {}, PILOT),
        ("maintenance", {}, PILOT),
    ],
)
async def test_a_cron_is_refused_what_its_runs_would_be_refused(ana: Any, graph: str, given: Any, context: Any) -> None:
    assert await refusal(ana.free.crons.create(graph, schedule="0 4 1 1 *", input=given, context=context)) == 422


@pytest.mark.slow  # the server looks for due crons every five seconds
async def test_the_threads_of_a_cron_are_its_agents(ana: Any) -> None:
    before = await ids(ana.free)
    cron: Any = await ana.free.crons.create(
        "supervisor", schedule="* * * * * *", input=said("On time."), context=PILOT, on_run_completed="keep"
    )
    made: set[str] = set()
    for _ in range(60):
        made = made or await ids(ana.free) - before
        await asyncio.sleep(0 if made else 0.5)
    await ana.free.crons.delete(cron["cron_id"])
    assert made
    for thread in made:
        assert await refusal(ana.pilot.threads.get(thread)) == 200
        assert await refusal(ana.guide.threads.get(thread)) == 404


async def test_items_of_the_store_lie_below_the_agent(ana: Any) -> None:
    await ana.pilot.store.put_item(["notes"], "one", {"text": "mine"})
    (found,) = (await ana.pilot.store.search_items([]))["items"]
    for client in (ana.pilot, ana.both, ana.free):
        assert (await client.store.get_item(found["namespace"], "one"))["value"] == {"text": "mine"}
    assert (await ana.free.store.search_items([]))["items"]
    for client, root in ((ana.guide, ["ana", "agent:guide"]), (ana.bea, ["bea"])):
        for namespace in (["notes"], found["namespace"], found["namespace"][:1], []):
            assert (await client.store.search_items(namespace))["items"] == []
        for namespace in (["notes"], found["namespace"]):
            assert await client.store.get_item(namespace, "one") is None
            await client.store.delete_item(namespace, "one")
        for prefix in (["*"], ["ana", "*"], [], ["ana"]):
            listed = (await client.store.list_namespaces(prefix=prefix))["namespaces"]
            assert all(namespace[: len(root)] == root for namespace in listed)
    assert await refusal(ana.both.store.search_items([])) == 403
    assert (await ana.pilot.store.get_item(["notes"], "one"))["value"] == {"text": "mine"}
    await ana.free.store.put_item(["notes"], "two", {"text": "of any agent"})
    assert await ana.guide.store.get_item(["notes"], "two") is None


@pytest.mark.thorough
async def test_other_protocols_of_the_server_go_by_the_same_rules(ana: Any) -> None:
    """MCP asks the server again from within it, on behalf of its caller."""

    call = {"name": "supervisor", "arguments": said("Good morning."), "context": PILOT}
    asked = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}
    accept = {"Accept": "application/json, text/event-stream"}
    answered: Any = await ana.pilot.http.post("/mcp", json=asked, headers=accept)
    assert "Good morning." in str(answered["result"]["content"])
    assert await refusal(ana.guide.http.post("/mcp", json=asked, headers=accept)) == 500  # the server knows no better


@pytest.mark.thorough
@pytest.mark.parametrize("token", ["guide", "bea"])
async def test_a_threads_events_and_commands_are_its_agents(ana: Any, token: str) -> None:
    """The later protocol of streaming, by which a thread's past events come again."""
    text = f"Quittengelb {uuid.uuid4()}"
    thread = await talk(ana.pilot, text, **PILOT)
    foreign: LangGraphClient = getattr(ana, token)

    asked = {"channels": ["values", "messages", "updates"]}
    come = await foreign.http.client.post(f"/threads/{thread}/stream/events", json=asked, timeout=30)
    assert text not in come.text  # and it has ended: whose it is, for them it stays open
    before = (await ana.pilot.threads.get_state(thread))["checkpoint"]
    for command in ("run.start", "input.respond", "state.get", "agent.getTree"):
        params = {"assistant_id": "supervisor", "input": said("Mine?"), "config": {"configurable": GUIDE}}
        answered: Any = await foreign.http.post(
            f"/threads/{thread}/commands", json={"id": 1, "method": command, "params": params}
        )
        assert text not in str(answered), command
    assert (await ana.pilot.threads.get_state(thread))["checkpoint"] == before
    assert len(await ana.pilot.runs.list(thread)) == 1
