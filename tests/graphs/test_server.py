"""The supervisor on LangGraph Server as a person's client uses it: threads, streams, consent, assistants, restarts."""

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest
from langgraph_sdk.client import LangGraphClient

from mnemic.service.memory import Mnemic
from mnemic.state.identity import Identity
from tests.support.agents import CANARY, KEPT, is_agent, system_of
from tests.support.dev_server import KEY, DevServer, running_dev_server, token
from tests.support.loopback import LoopbackModel, Reply, Request, calling
from tests.support.server import Clone, Server, cloned
from tests.support.threads import TABLES

GUIDE: Any = {"agent_id": "guide"}
ANA = Identity(agent_id="guide", user_id="ana")
IMPORTANT = f"Ana is allergic to {CANARY}."
QUESTION = "What do I keep on the quay, bees?"


@dataclass
class World:
    """A server, the model its supervisor talks with, and the database."""

    server: DevServer
    model: LoopbackModel
    clone: Clone

    @property
    def ana(self) -> LangGraphClient:
        return self.server.client(token("ana"))


def _values(clone: Clone, model: LoopbackModel) -> dict[str, str]:
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


@pytest.fixture(scope="module")
def world(server: Server, template: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with cloned(server, template) as clone, LoopbackModel() as model:
        model.answer(is_agent, "I see.")
        with running_dev_server(tmp_path_factory.mktemp("host"), _values(clone, model)) as running:
            yield World(running, model, clone)


@pytest.fixture
async def ana(world: World) -> AsyncIterator[LangGraphClient]:
    world.model.answer(is_agent, "I see.")
    async with world.ana as client:
        yield client


async def remember(world: World, content: str, importance: int = 3) -> str:
    """What the host's own code has had remembered, in another process than the server."""
    async with Mnemic.open(**world.server.settings.model_dump(exclude_unset=True)) as memory:
        return str((await memory.remember(ANA, content, category="profile", importance=importance)).id)


def said(text: str) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": text}]}


def words(values: Any) -> list[tuple[str, str]]:
    return [(message["type"], message["content"]) for message in values["messages"]]


def rows(clone: Clone) -> dict[str, list[str]]:
    """All that is stored of threads, by table, bytes and all."""
    with clone.as_superuser() as superuser:
        return {
            table: [
                repr(row) for row in superuser.execute(psycopg.sql.SQL("select * from mnemic.{}").format(_name(table)))
            ]
            for table in TABLES
        }


def _name(table: str) -> psycopg.sql.Identifier:
    return psycopg.sql.Identifier(table)


async def test_a_thread_goes_on_and_its_state_and_history_can_be_read(ana: LangGraphClient) -> None:
    thread = (await ana.threads.create())["thread_id"]
    await ana.runs.wait(thread, "supervisor", input=said("Good morning."), context=GUIDE)
    answered: Any = await ana.runs.wait(thread, "supervisor", input=said("And good night."), context=GUIDE)
    talk = [("human", "Good morning."), ("ai", "I see."), ("human", "And good night."), ("ai", "I see.")]
    assert words(answered) == talk
    state = await ana.threads.get_state(thread)
    assert (words(state["values"]), state["next"]) == (talk, [])
    history: Any = await ana.threads.get_history(thread, limit=100)
    assert [len(one["values"].get("messages", [])) for one in history][-1] == 0
    assert {one["metadata"]["source"] for one in history} == {"input", "loop"}


async def test_an_answer_is_streamed_by_tokens_steps_and_progress(ana: LangGraphClient, world: World) -> None:
    world.model.answer(is_agent, "The tide is high.")
    thread = (await ana.threads.create())["thread_id"]
    events: dict[str, list[Any]] = {}
    async for part in ana.runs.stream(
        thread,
        "supervisor",
        input=said("How is the tide?"),
        context=GUIDE,
        stream_mode=["messages-tuple", "updates", "custom"],
    ):
        events.setdefault(part.event, []).append(part.data)
    pieces = [message["content"] for message, _ in events["messages"] if message["type"] == "AIMessageChunk"]
    assert "".join(pieces) == "The tide is high."
    assert len(pieces) > 3
    assert [next(iter(update)) for update in events["updates"]] == ["recall", "agent", "observe"]
    assert {"step": "answer"} in events["custom"]


async def test_what_is_remembered_is_in_the_answers_prompt_and_in_no_checkpoint(
    ana: LangGraphClient, world: World
) -> None:
    await remember(world, KEPT)
    thread = (await ana.threads.create())["thread_id"]
    await ana.runs.wait(thread, "supervisor", input=said(QUESTION), context=GUIDE)
    prompts = [system_of(request) for request in world.model.chat_requests if is_agent(request)]
    assert KEPT in prompts[-1]
    stored = rows(world.clone)
    assert any(QUESTION in row for row in stored["checkpoint_blobs"])
    assert CANARY not in str(stored)


async def test_threads_lie_in_our_database_under_their_owner(ana: LangGraphClient, world: World) -> None:
    thread = (await ana.threads.create())["thread_id"]
    await ana.runs.wait(thread, "supervisor", input=said("Good morning."), context=GUIDE)
    with world.clone.as_superuser() as superuser:
        prefixes = superuser.execute(
            "select distinct thread_id from mnemic.checkpoints where thread_id like %s", ("%" + thread,)
        ).fetchall()
        owners = superuser.execute(
            "select agent_id, user_id from mnemic.supervisor_checkpoints where thread_id = %s", (thread,)
        ).fetchall()
    assert (prefixes, owners) == ([(f"guide/ana/{thread}",)], [("guide", "ana")])
    await ana.threads.delete(thread)
    assert thread not in str(rows(world.clone))


@pytest.mark.parametrize(("approved", "left"), [(True, 0), (False, 1)])
async def test_something_important_is_forgotten_only_with_consent(
    ana: LangGraphClient, world: World, approved: bool, left: int
) -> None:
    important = await remember(world, IMPORTANT, importance=5)
    world.model.answer(is_agent, calling(("forget", {"id": important})), "It is settled.")
    thread = (await ana.threads.create())["thread_id"]
    await ana.runs.wait(thread, "supervisor", input=said("Forget what I am allergic to."), context=GUIDE)
    waiting: Any = await ana.threads.get_state(thread)
    assert waiting["next"] == ["confirm"]
    (asked,) = waiting["interrupts"]
    assert [one["id"] for one in asked["value"]["memories"]] == [important]
    assert await living(world, important) == 1

    resumed: Any = await ana.runs.wait(thread, "supervisor", command={"resume": {"approved": approved}}, context=GUIDE)
    assert words(resumed)[-1] == ("ai", "It is settled.")
    assert await living(world, important) == left
    assert CANARY not in str(rows(world.clone))


async def living(world: World, memory_id: str) -> int:
    async with Mnemic.open(**world.server.settings.model_dump(exclude_unset=True)) as memory:
        return sum(str(one.id) == memory_id for one in await memory.memories(ANA))


async def test_an_assistant_brings_the_agent_along(ana: LangGraphClient, world: World) -> None:
    assistant = await ana.assistants.create("supervisor", context=GUIDE, name="guide")
    thread = (await ana.threads.create())["thread_id"]
    answered: Any = await ana.runs.wait(thread, assistant["assistant_id"], input=said("Good morning."))
    assert words(answered)[-1] == ("ai", "I see.")
    with world.clone.as_superuser() as superuser:
        found = superuser.execute(
            "select distinct agent_id, user_id from mnemic.messages where session_id = %s and role = 'user'", (thread,)
        ).fetchall()
    assert found == [("guide", "ana")]


async def test_a_thread_can_be_copied_changed_and_rid_of_a_run(ana: LangGraphClient, world: World) -> None:
    thread = (await ana.threads.create())["thread_id"]
    await ana.runs.wait(thread, "supervisor", input=said("Good morning."), context=GUIDE)
    await ana.runs.wait(thread, "supervisor", input=said("And good night."), context=GUIDE)
    whole = words((await ana.threads.get_state(thread))["values"])
    copied: Any = await ana.threads.copy(thread)  # type: ignore[func-returns-value]
    assert words((await ana.threads.get_state(copied["thread_id"]))["values"]) == whole

    last = max(await ana.runs.list(thread), key=lambda run: run["created_at"])
    await ana.runs.delete(thread, last["run_id"])
    assert words((await ana.threads.get_state(thread))["values"]) == whole[:2]
    assert words((await ana.threads.get_state(copied["thread_id"]))["values"]) == whole

    await ana.threads.update_state(thread, said("I was never here."), as_node="recall")
    assert words((await ana.threads.get_state(thread))["values"])[-1] == ("human", "I was never here.")


async def test_a_run_that_is_rolled_back_leaves_nothing_on_its_thread(ana: LangGraphClient, world: World) -> None:
    thread = (await ana.threads.create())["thread_id"]
    await ana.runs.wait(thread, "supervisor", input=said("Good morning."), context=GUIDE)
    asked, held = threading.Event(), threading.Event()

    def slowly(_: Request) -> Reply:
        asked.set()
        return Reply(content="I heard that.", after=held)

    world.model.answer("Quittengelb", slowly)
    await ana.runs.create(thread, "supervisor", input=said("Quittengelb."), context=GUIDE)
    assert await asyncio.to_thread(asked.wait, 30)
    answered: Any = await ana.runs.wait(
        thread, "supervisor", input=said("And good night."), context=GUIDE, multitask_strategy="rollback"
    )
    held.set()
    assert words(answered) == [
        ("human", "Good morning."),
        ("ai", "I see."),
        ("human", "And good night."),
        ("ai", "I see."),
    ]
    assert "Quittengelb" not in str({table: rows(world.clone)[table] for table in TABLES})


async def test_a_server_without_its_database_does_not_start_and_says_what_to_do(tmp_path: Path) -> None:
    values = {"MNEMIC_DATABASE_URL": "host=127.0.0.1 port=1 user=mnemic_app", "MNEMIC_POOL_TIMEOUT_SECONDS": "0.5"}
    with pytest.raises(AssertionError, match="check MNEMIC_DATABASE_URL"), running_dev_server(tmp_path, values):
        pass


async def test_a_thread_outlives_its_server(server: Server, template: str, tmp_path: Path) -> None:
    with cloned(server, template) as clone, LoopbackModel() as model:
        model.answer(is_agent, "I see.")
        values = _values(clone, model)
        with running_dev_server(tmp_path, values) as first:
            async with first.client(token("ana")) as client:
                thread = (await client.threads.create())["thread_id"]
                await client.runs.wait(thread, "supervisor", input=said("Good morning."), context=GUIDE)
        with running_dev_server(tmp_path, values) as second:
            async with second.client(token("ana")) as client:
                after: Any = await client.runs.wait(thread, "supervisor", input=said("Still there?"), context=GUIDE)
                assert words(after)[0] == ("human", "Good morning.")
                assert len(words(after)) == 4
            assert "Traceback" not in "".join(second.log)
