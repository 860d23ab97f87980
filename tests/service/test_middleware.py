"""The middleware in an agent of `create_agent`, with the real OpenAI client on the wire; what a turn leaves behind."""

import asyncio
import gc
import json
import logging
import re
from typing import Any

import psycopg
import pytest
from langchain.agents.middleware import AgentMiddleware, ModelRetryMiddleware
from langchain_core.messages import HumanMessage, SystemMessage, ToolMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.runtime import Runtime
from langgraph.types import Command

from mnemic import Identity, MemoryMiddleware, Mnemic
from mnemic.memory.messages.turn import RecallOptions, observe_turn
from mnemic.memory.runtime.background import Background, background
from mnemic.service.hosts.middleware import TurnOptions
from mnemic.state.errors import BlockedLoopError, InvalidInputError, MissingIdentityError
from tests.support.agents import (
    CANARY,
    FRIDAY,
    GREETING,
    KEPT,
    MONDAY,
    PROMPT,
    QUESTION,
    THREAD,
    VISIBLE,
    WISH,
    agent,
    asked_in,
    is_agent,
    remember,
    requests,
    said,
    says,
    stored,
    system_of,
)
from tests.support.loopback import LoopbackModel, calling
from tests.support.matrix import few_first
from tests.support.scripted import (
    FACTS,
    contents,
    fact,
    facts,
    scripted_memory,
)
from tests.support.server import Clone
from tests.support.threads import DURABILITIES, Durability, Savers, both_savers
from tests.support.worlds import identity


async def test_stable_memory_follows_the_host_prompt_and_results_the_message(
    memory: Mnemic, model: LoopbackModel
) -> None:
    await remember(memory, model)
    says(model)
    turn = await agent(memory, model).ainvoke(said(QUESTION), context=FRIDAY)

    (request,) = requests(model)
    system, asked = system_of(request), asked_in(request)
    assert [message["role"] for message in request["messages"]] == ["system", "user"]
    assert system.startswith(f"{PROMPT}\n\n<MemoryContext>")
    assert system.endswith("</MemoryContext>")
    assert [system.count(text) for text in (KEPT, WISH, "<MemoryContext>")] == [0, 1, 1]
    assert asked.startswith("<MemoryContext>")
    assert asked.endswith(f"</MemoryContext>\n\n{QUESTION}")
    assert [asked.count(text) for text in (KEPT, WISH, "<MemoryContext>")] == [1, 0, 1]
    assert turn.keys() == {"messages", "memory_searched"}
    assert turn["messages"][0].text == QUESTION
    assert CANARY not in str(turn)


class Marking(AgentMiddleware[Any, Any, Any]):
    """Marks the end of the system message for a provider's cache, as langchain-anthropic's middleware does."""

    async def awrap_model_call(self, request: Any, handler: Any) -> Any:
        content = request.system_message.content
        parts = [{"type": "text", "text": content}] if isinstance(content, str) else content
        marked = SystemMessage([*parts[:-1], {**parts[-1], "cache_control": {"type": "ephemeral"}}])
        return await handler(request.override(system_message=marked))


@pytest.mark.parametrize("is_first", [False, True])
async def test_a_providers_cache_marks_stay_and_so_do_the_parts_of_a_message(
    memory: Mnemic, model: LoopbackModel, is_first: bool
) -> None:
    await remember(memory, model)
    says(model)
    order = [memory.middleware(), Marking()]
    parts: list[Any] = [{"type": "text", "text": QUESTION}, PICTURE["content"][0]]
    running = agent(memory, model, system_prompt="Be kind.", middleware=order[::-1] if is_first else order)
    await running.ainvoke({"messages": [HumanMessage(parts)]}, context=FRIDAY)

    (request,) = requests(model)
    (marked,) = [part["text"] for part in system_of(request) if "cache_control" in part]
    assert (marked == "Be kind.", WISH in marked) == (is_first, not is_first)
    assert WISH in str(system_of(request))
    added, *own = asked_in(request)
    assert KEPT in added["text"]
    assert own == parts


async def test_requests_of_a_turn_share_a_prefix_that_the_next_turn_extends(
    memory: Mnemic, model: LoopbackModel
) -> None:
    @tool
    def look() -> Any:
        """Shows the quay."""
        said_for_it = [ToolMessage("Here.", tool_call_id="call_1"), HumanMessage("This is what it shows.")]
        return Command(update={"messages": said_for_it})

    await remember(memory, model)
    says(model, VISIBLE, calling(("look", {})), VISIBLE, VISIBLE)
    running = agent(memory, model, checkpointer=InMemorySaver(), tools=[look])
    for text in (GREETING, QUESTION, GREETING):
        await running.ainvoke(said(text), THREAD, context=FRIDAY)

    greeted, searched, looked, last = requests(model)
    assert KEPT in asked_in(searched)
    assert "tool" in [message["role"] for message in looked["messages"]]
    assert asked_in(looked) == "This is what it shows."
    assert all(request["tools"] == greeted["tools"] for request in (searched, looked, last))
    sent = [request["messages"] for request in (greeted, searched, looked, last)]
    assert sent[1][: len(sent[0])] == sent[0]
    assert sent[2][: len(sent[1])] == sent[1]  # within the turn
    before = len(sent[1]) - 1  # up to the message that something was retrieved for
    assert sent[3][:before] == sent[1][:before]
    assert sent[3][before]["content"] == QUESTION


async def test_without_a_memory_the_prompt_is_the_hosts_alone(memory: Mnemic, model: LoopbackModel) -> None:
    says(model)
    await agent(memory, model).ainvoke(said(GREETING), context=FRIDAY)
    await agent(memory, model, system_prompt=None).ainvoke(said(GREETING), context=FRIDAY)

    with_prompt, without = requests(model)
    assert system_of(with_prompt) == PROMPT
    assert [message["role"] for message in without["messages"]] == ["user"]


async def test_the_tools_come_along_and_the_unsure_model_is_answered(memory: Mnemic, model: LoopbackModel) -> None:
    await remember(memory, model)
    says(model, calling(("memory_query", {"query": "bees on the quay"})), VISIBLE)
    turn = await agent(memory, model).ainvoke(said(GREETING), context=FRIDAY)

    first, second = requests(model)
    names = [tool["function"]["name"] for tool in first["tools"]]
    assert "memory_query" in names
    assert all(re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", name) for name in names)
    assert KEPT not in str(first["messages"])
    assert system_of(first) == system_of(second)
    (told,) = [message["content"] for message in second["messages"] if message["role"] == "tool"]
    assert KEPT in told
    assert turn["memory_searched"] is None
    assert turn["messages"][-1].text == VISIBLE


async def test_the_next_turn_hears_once_what_another_session_changed(memory: Mnemic, model: LoopbackModel) -> None:
    says(model)
    running = agent(memory, model, checkpointer=InMemorySaver())
    await running.ainvoke(said(GREETING), THREAD, context=FRIDAY)
    await remember(memory, model)
    for _ in range(2):
        await running.ainvoke(said(GREETING), THREAD, context=FRIDAY)

    assert ["<Updates" in str(request["messages"]) for request in requests(model)] == [False, True, False]
    assert "<Updates" in asked_in(requests(model)[1])


@both_savers
@pytest.mark.parametrize("durability", few_first(DURABILITIES, 1))
async def test_no_checkpoint_holds_what_was_recalled(
    fresh_db: Clone, model: LoopbackModel, savers: Savers, durability: Durability
) -> None:
    """What a channel that is saved would show, the control of a host's own nodes shows."""
    says(model)
    async with scripted_memory(fresh_db, model) as memory, savers(fresh_db) as (saver, everything):
        await remember(memory, model)
        running = agent(memory, model, checkpointer=saver)
        await running.ainvoke(said(QUESTION), THREAD, context=FRIDAY, durability=durability)
        assert KEPT in asked_in(requests(model)[0])
        saved = await everything()
    assert VISIBLE in saved
    assert CANARY not in saved


async def test_after_an_interrupt_the_context_is_fetched_again_once(memory: Mnemic, model: LoopbackModel) -> None:
    asking = calling(("memory_query", {"query": "nothing like that", "categories": ["style"], "search_type": "text"}))
    says(model, asking, asking, VISIBLE)
    await remember(memory, model)
    running = agent(memory, model, checkpointer=InMemorySaver())
    await running.ainvoke(said(QUESTION), THREAD, context=FRIDAY, interrupt_before=["tools"])
    model.embedding_requests.clear()
    turn = await running.ainvoke(None, THREAD, context=FRIDAY)

    before, *after = requests(model)
    assert KEPT in asked_in(before)
    assert [request["messages"][:2] for request in after] == [before["messages"]] * 2
    assert len(model.embedding_requests) == 1  # for both of the model's calls
    assert turn["messages"][-1].text == VISIBLE
    assert CANARY not in str([item async for item in running.aget_state_history(THREAD)])


async def test_a_turn_is_formed_without_being_waited_for(clean_db: Clone, model: LoopbackModel) -> None:
    model.answer(FACTS, facts(fact(KEPT)))
    says(model)
    async with scripted_memory(clean_db, model, formation_mode="per_turn") as memory:
        await agent(memory, model).ainvoke(said("I keep bees."), context=MONDAY)
    async with scripted_memory(clean_db, model, formation_mode="per_turn") as memory:
        assert await contents(memory, MONDAY) == [KEPT]
        await agent(memory, model, memory.middleware(form=False)).ainvoke(said("I keep goats."), context=FRIDAY)
    assert len([request for request in model.chat_requests if not is_agent(request)]) == 2


async def test_a_subagents_instructions_are_not_stored(
    memory: Mnemic, model: LoopbackModel, superuser: psycopg.Connection
) -> None:
    says(model)
    planner = agent(memory, model, memory.middleware("planner", observe=False))
    await planner.ainvoke(said("Plan the visit."), context=identity("ana"))

    assert superuser.execute("select count(*) from mnemic.messages").fetchone() == (0,)


async def test_an_agent_may_be_invoked_synchronously_in_another_thread(
    memory: Mnemic, model: LoopbackModel, superuser: psycopg.Connection
) -> None:
    await remember(memory, model)
    says(model, calling(("memory_query", {"query": "bees on the quay"})), VISIBLE)
    running = agent(memory, model)
    turn = await asyncio.to_thread(running.invoke, said(QUESTION), context=FRIDAY)

    first, second = requests(model)
    assert KEPT in asked_in(first)
    assert [message["role"] for message in second["messages"]] == ["system", "user", "assistant", "tool"]
    assert turn["messages"][-1].text == VISIBLE
    assert sorted(stored(superuser)) == [("assistant", VISIBLE), ("user", QUESTION)]
    with pytest.raises(BlockedLoopError, match="ainvoke"):  # on the loop's own thread
        running.invoke(said(GREETING), context=FRIDAY)
    assert len(requests(model)) == 2


# -- whose memory the middleware shows


async def test_a_role_is_shown_its_own_allowlist(memory: Mnemic, model: LoopbackModel) -> None:
    await memory.remember(MONDAY, KEPT, category="activity")
    await memory.remember(MONDAY, WISH, category="activity", kind="core")
    says(model, calling(("memory_query", {"query": "bees on the quay"})), VISIBLE)
    await agent(memory, model, memory.middleware("planner")).ainvoke(said(QUESTION), context=FRIDAY)

    assert CANARY not in json.dumps(requests(model)[-1]["messages"])


class Sticky(MemoryMiddleware):
    """The control: whoever comes first is taken for everybody."""

    _first: Identity | None = None

    def _identity(self, runtime: Runtime[Any]) -> Identity:
        self._first = self._first or super()._identity(runtime)
        return self._first


async def heard(memory: Mnemic, model: LoopbackModel, middleware: MemoryMiddleware) -> dict[str, set[str]]:
    """Whose memories stood in whose prompt, of two users who ask one agent at the same time."""
    names = ("ana", "ben")
    for name in names:
        kept = f"{name.title()} keeps bees at {name}'s own quay."
        await memory.remember(identity(name), kept, category="activity")
    says(model)
    running = agent(memory, model, middleware)
    asking = [running.ainvoke(said(f"{QUESTION} {name}"), context=identity(name, session="s")) for name in names]
    await asyncio.gather(*asking)
    prompts = {asked_in(request).split()[-1]: asked_in(request) for request in requests(model)}
    return {asker: {name for name in names if f"{name}'s own quay" in prompts[asker]} for asker in names}


async def test_two_users_of_one_agent_hear_their_own_memories(memory: Mnemic, model: LoopbackModel) -> None:
    assert await heard(memory, model, memory.middleware()) == {"ana": {"ana"}, "ben": {"ben"}}


@pytest.mark.thorough
async def test_control_an_identity_that_sticks_is_seen(memory: Mnemic, model: LoopbackModel) -> None:
    sticky = Sticky(memory.resources, memory.tools(), RecallOptions(), TurnOptions(observe=False))
    found = await heard(memory, model, sticky)
    assert found["ana"] == found["ben"] != set()


async def test_a_hosts_mistake_shows_before_the_model_is_asked(memory: Mnemic, model: LoopbackModel) -> None:
    says(model)
    for context in (None, {"user_id": "ana"}, {"agent_id": "harbor", "session_id": "s"}):
        with pytest.raises(MissingIdentityError):
            await agent(memory, model).ainvoke(said(GREETING), context=context)
    misspelt = {"agent_id": "harbor", "session_id": "s", "user": "ana"}
    for context in (identity("ana").model_dump(), {"agent_id": "", "session_id": "s"}, misspelt):
        with pytest.raises(InvalidInputError):
            await agent(memory, model).ainvoke(said(GREETING), context=context)
    several = agent(memory, model, memory.middleware(several_speakers=True))
    with pytest.raises(MissingIdentityError, match="several_speakers"):
        await several.ainvoke(said(GREETING), context=identity(None, session="s"))
    assert requests(model) == []


async def test_a_hosts_retry_of_a_model_call_hides_no_run_that_is_nobodys(memory: Mnemic, model: LoopbackModel) -> None:
    retried = agent(memory, model, middleware=[ModelRetryMiddleware(initial_delay=0), memory.middleware(observe=False)])
    with pytest.raises(MissingIdentityError):
        await retried.ainvoke(said(GREETING))
    assert requests(model) == []


NOBODYS = {"role": "user", "content": "Who said this?"}
OURS = {"role": "user", "content": "Keep me.", "user": "ana"}
PICTURE = {"role": "user", "content": [{"type": "image_url"}], "user": "ana"}
ANSWER = {"role": "assistant", "content": "I do."}
SOME = "2 messages cannot be stored and are left out, such as message 1: a message of the role user belongs to no user"
NONE = "Could not store the messages of this turn: message 1: a message of the role user belongs to no user"


async def test_what_cannot_be_stored_is_left_out_and_the_rest_is_not(
    memory: Mnemic, superuser: psycopg.Connection, caplog: pytest.LogCaptureFixture
) -> None:
    turns: list[tuple[list[Any], int | None, list[str], str]] = [
        ([OURS], 10**6, ["Keep me."], ""),  # a revision that is refused
        ([NOBODYS, OURS, 7, ANSWER], 10**6, ["Keep me.", "I do."], SOME),
        ([NOBODYS, OURS, PICTURE], None, ["Keep me.", "[image]"], ""),
        ([NOBODYS, ANSWER], None, [], NONE),
    ]
    for number, (messages, revision, left, warning) in enumerate(turns):
        nobody = identity(None, session=f"s{number}")
        await observe_turn(memory.resources, nobody, messages, revision=revision, several_speakers=True)
        rows = superuser.execute("select content from mnemic.messages where session_id = %s", (nobody.session_id,))
        assert sorted(content for (content,) in rows) == sorted(left)
        assert warning in caplog.text
    assert "Who said" not in caplog.text


async def test_work_that_ends_with_an_unknown_error_is_told_of_without_its_words(
    caplog: pytest.LogCaptureFixture,
) -> None:
    unseen: list[str] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, problem: unseen.append(problem["message"]))

    async def fail() -> None:
        raise RuntimeError("Ana is in debt")

    async with background() as work:
        work.begin("work", fail)
    gc.collect()
    assert (unseen, "RuntimeError" in caplog.text, "debt" in caplog.text) == ([], True, False)
    assert {record.levelno for record in caplog.records} == {logging.ERROR}


async def test_no_more_works_run_at_once_than_so_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mnemic.memory.runtime.background.MAX_AT_ONCE", 3)
    running, most = 0, 0

    async def count() -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.001)
        running -= 1

    async with background() as work:
        for number in range(20):
            work.begin(number, count)
    assert (running, most) == (0, 3)


async def test_work_asked_for_on_another_loop_is_done_on_the_one_that_opened_it() -> None:
    loops: list[asyncio.AbstractEventLoop] = []

    async def note() -> None:
        loops.append(asyncio.get_running_loop())

    async def elsewhere(work: Background) -> None:
        work.begin("work", note)
        await work.finish("work")

    async with background() as work:
        await asyncio.wait_for(asyncio.to_thread(asyncio.run, elsewhere(work)), 30)
    assert loops == [asyncio.get_running_loop()]
