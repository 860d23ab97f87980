"""Threads as methods of `Mnemic`: whose a run's thread is, what is listed, and pruning."""

from types import SimpleNamespace
from typing import Any

import psycopg
import pytest
from langchain_core.runnables import RunnableConfig
from langgraph.types import Command

from mnemic import Mnemic
from mnemic.operations.threads import RUNTIME, owner_of_run
from mnemic.service.server.threads import ServerThreads
from mnemic.state.errors import InvalidInputError, MissingIdentityError, RefusedIdentityError
from mnemic.state.identity import Identity
from mnemic.storage.threads import ThreadOwner
from tests.support.savers import DURABILITIES, Durability
from tests.support.threads import answering, asking, at, counts, misplaced, said, words
from tests.support.worlds import identity

ANA = identity("ana", session="s1")
BO = identity("bo", session="s1")
NOBODY = identity(None, session="s1")


def test_the_config_of_a_run_says_whose_thread_it_is() -> None:
    run = {"thread_id": "t", "agent_id": "harbor"}
    assert owner_of_run({"configurable": {**run, "user_id": "ana"}}) == ("harbor", "ana")
    assert owner_of_run({"configurable": run}) == ThreadOwner("harbor")


@pytest.mark.parametrize("config", [None, {}, {"configurable": {}}, {"configurable": {"user_id": "ana"}}])
def test_a_thread_of_nobody_is_refused_with_what_to_do(config: Any) -> None:
    with pytest.raises(MissingIdentityError, match=r"run the graph with memory\.thread\(identity\) as its config"):
        owner_of_run(config)


@pytest.mark.parametrize("ids", [{"agent_id": " harbor"}, {"agent_id": 7}, {"agent_id": "harbor", "user_id": "a\x00"}])
def test_ids_that_cannot_be_used_are_refused(ids: Any) -> None:
    with pytest.raises(InvalidInputError):
        owner_of_run({"configurable": ids})


async def test_the_same_session_is_another_thread_for_each_of_its_people(memory: Mnemic) -> None:
    host = answering(memory.checkpointer())
    for who in (ANA, BO, NOBODY):
        await host.ainvoke(said(f"I am {who.user_id}"), memory.thread(who))
    for who in (ANA, BO, NOBODY):
        assert words((await host.aget_state(memory.thread(who))).values)[0] == f"I am {who.user_id}"
        assert [item.thread_id for item in await memory.threads(who)] == ["s1"]
    assert memory.thread(ANA, "t") == {"configurable": {"thread_id": "t", "agent_id": "harbor", "user_id": "ana"}}
    with pytest.raises(InvalidInputError, match="thread_id"):
        memory.thread(identity("ana"))


@pytest.mark.parametrize("durability", DURABILITIES)
async def test_the_context_of_a_run_says_whose_thread_it_is(memory: Mnemic, durability: Durability) -> None:
    host = answering(memory.checkpointer())
    for who in (ANA, BO):
        await host.ainvoke(said(f"I am {who.user_id}"), at("t"), context=who, durability=durability)
        await host.ainvoke(said("And now?"), at("t"), context=who, durability=durability)
    for who in (ANA, BO):
        known = words((await host.aget_state(memory.thread(who, "t"))).values)
        assert known == [f"I am {who.user_id}", f"Heard I am {who.user_id}", "And now?", "Heard And now?"]


async def test_without_either_a_run_is_refused_before_anything_happens(
    memory: Mnemic, superuser: psycopg.Connection
) -> None:
    with pytest.raises(MissingIdentityError, match=r"memory\.checkpointer"):
        await answering(memory.checkpointer()).ainvoke(said("one"), at("t"))
    assert {*counts(superuser).values()} == {0}


def named(user_id: str) -> RunnableConfig:
    return {"configurable": {"thread_id": "t", "agent_id": "harbor", "user_id": user_id}}


@pytest.mark.parametrize(("config", "context"), [(named("bo"), None), (at("t"), BO), (named("ana"), BO)], ids=str)
async def test_a_checkpointer_with_an_identity_refuses_a_run_for_anybody_else(
    memory: Mnemic, superuser: psycopg.Connection, config: RunnableConfig, context: Identity | None
) -> None:
    host = answering(memory.checkpointer(ANA))
    with pytest.raises(RefusedIdentityError, match=r"memory\.checkpointer\(\)"):
        await host.ainvoke(said("one"), config, context=context)
    assert {*counts(superuser).values()} == {0}


async def test_a_checkpointer_with_an_identity_keeps_what_names_nobody(memory: Mnemic) -> None:
    await answering(memory.checkpointer(ANA)).ainvoke(said("one"), at("t"))
    assert [item.thread_id for item in await memory.threads(ANA)] == ["t"]


async def test_threads_are_listed_and_deleted_by_their_own_people_alone(
    memory: Mnemic, superuser: psycopg.Connection
) -> None:
    host = answering(memory.checkpointer())
    for name in ("t", "u"):
        await host.ainvoke(said("one"), memory.thread(ANA, name))
    await memory.prune_threads(BO, "t", "u", keep_latest=False)
    assert [item.thread_id for item in await memory.threads(ANA)] == ["u", "t"]
    await memory.prune_threads(ANA, "t", "no such thread", keep_latest=False)
    assert [item.thread_id for item in await memory.threads(ANA)] == ["u"]
    assert (await host.aget_state(memory.thread(ANA, "t"))).values == {}
    await memory.prune_threads(ANA, "u", keep_latest=False)
    assert {*counts(superuser).values()} == {0}
    with pytest.raises(InvalidInputError, match="thread_ids: name the threads; `threads` lists them"):
        await memory.prune_threads(ANA)


async def test_pruning_keeps_the_latest_and_what_waits_for_an_answer(
    memory: Mnemic, superuser: psycopg.Connection
) -> None:
    saver, worked = memory.checkpointer(ANA), list[str]()
    host, config = asking(saver, worked), memory.thread(ANA)
    for text in ("one", "two"):
        await answering(saver).ainvoke(said(text), config)
    await host.ainvoke(said("three"), config)
    before = counts(superuser)
    state = await host.aget_state(config, subgraphs=True)
    for _ in range(2):
        await memory.prune_threads(ANA, "s1")
    after = counts(superuser)
    assert (before["checkpoints"], after["checkpoints"]) == (12, 2)  # the thread's and its waiting subgraph's
    assert after["checkpoint_blobs"] < before["checkpoint_blobs"]
    pruned = await host.aget_state(config, subgraphs=True)
    assert (pruned.values, pruned.next, pruned.interrupts) == (state.values, state.next, state.interrupts)
    assert misplaced(superuser) == []
    done = await host.ainvoke(Command(resume="yes"), config)
    assert words(done)[-1] == "Asked: yes"
    assert worked == ["worked"]


async def test_an_identity_of_nobody_has_no_threads(memory: Mnemic) -> None:
    with pytest.raises(MissingIdentityError):
        await memory.threads(None)  # type: ignore[arg-type]
    with pytest.raises(MissingIdentityError):
        await memory.prune_threads(None, "t")  # type: ignore[arg-type]
    with pytest.raises(MissingIdentityError):
        memory.thread({})  # type: ignore[arg-type]


def test_a_config_that_names_another_person_than_the_context_is_refused() -> None:
    """Such as that of a host which passes a client's own config on."""
    run = SimpleNamespace(context=ANA)
    mine = {"thread_id": "t", "agent_id": "harbor", "user_id": "ana", RUNTIME: run}
    assert owner_of_run({"configurable": mine}) == ThreadOwner("harbor", "ana")
    for other in ({"user_id": "bo"}, {"agent_id": "museum"}, {"user_id": None}):
        with pytest.raises(RefusedIdentityError, match="agent_id and user_id"):
            owner_of_run({"configurable": {**mine, **other}})


async def test_a_run_that_is_nobodys_does_not_take_up_somebodys_thread(memory: Mnemic) -> None:
    await answering(memory.checkpointer()).ainvoke(said("I am Ana"), memory.thread(ANA))
    server = ServerThreads(memory.resources.database)

    async def found(**run: Any) -> bool:
        return await server.aget_tuple({"configurable": {"thread_id": "s1", "checkpoint_ns": "", **run}}) is not None

    assert not await found(**{RUNTIME: SimpleNamespace(context=None, server_info=None)})
    assert not await found(**{RUNTIME: SimpleNamespace(context=identity("bo"), server_info=None)})
    assert await found(**{RUNTIME: SimpleNamespace(context=ANA, server_info=None)})
    assert await found()  # the server itself, which has let its caller at the thread
