"""Threads as methods of `Mnemic`: whose a run's thread is, what is listed, and pruning."""

from types import SimpleNamespace
from typing import Any

import psycopg
import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from mnemic import Mnemic
from mnemic.service.server.threads import ServerThreads
from mnemic.state.errors import InvalidInputError, MissingIdentityError, RefusedIdentityError
from mnemic.storage.threads import RUNTIME, ThreadOwner, owner_of_run
from tests.support.server import Clone
from tests.support.threads import (
    DURABILITIES,
    Durability,
    Savers,
    answering,
    asking,
    at,
    both_savers,
    counts,
    everything,
    misplaced,
    said,
    words,
)
from tests.support.worlds import identity

ANA = identity("ana", session="s1")
BO = identity("bo", session="s1")
NOBODY = identity(None, session="s1")


def test_the_config_of_a_run_says_whose_thread_it_is() -> None:
    """One that names another person than the context is refused, such as a client's own that a host passes on."""
    run = {"thread_id": "t", "agent_id": "harbor"}
    mine = {**run, "user_id": "ana", RUNTIME: SimpleNamespace(context=ANA)}
    for config, user in ((run, ""), ({**run, "user_id": "ana"}, "ana"), (mine, "ana")):
        assert owner_of_run({"configurable": config}) == ThreadOwner("harbor", user)
    for other in ({"user_id": "bo"}, {"agent_id": "museum"}, {"user_id": None}):
        with pytest.raises(RefusedIdentityError, match="agent_id and user_id"):
            owner_of_run({"configurable": {**mine, **other}})
    nobodys: list[Any] = [None, {}, {"configurable": {}}, {"configurable": {"user_id": "ana"}}]
    for config in nobodys:
        with pytest.raises(MissingIdentityError, match=r"memory\.threads\.config\(identity\)"):
            owner_of_run(config)


@pytest.mark.parametrize("durability", DURABILITIES)
async def test_session_is_a_separate_thread_for_each_person_by_config_or_context(
    memory: Mnemic, durability: Durability
) -> None:
    host = answering(memory.threads.checkpointer())
    for who in (ANA, BO, NOBODY):
        await host.ainvoke(said(f"I am {who.user_id}"), memory.threads.config(who), durability=durability)
        await host.ainvoke(said("And now?"), at("s1"), context=who, durability=durability)
    for who in (ANA, BO, NOBODY):
        known = words((await host.aget_state(memory.threads.config(who))).values)
        assert known == [f"I am {who.user_id}", f"Heard I am {who.user_id}", "And now?", "Heard And now?"]
        assert [item.id for item in await memory.threads.list(who)] == ["s1"]
    assert memory.threads.config(ANA, "t") == {
        "configurable": {"thread_id": "t", "agent_id": "harbor", "user_id": "ana"}
    }
    with pytest.raises(InvalidInputError, match=r"^id: "):
        memory.threads.config(identity("ana"))


async def test_run_for_another_person_than_the_checkpointer_is_refused_at_start(
    memory: Mnemic, superuser: psycopg.Connection
) -> None:
    for config, context in ((memory.threads.config(BO), None), (at("t"), BO), (memory.threads.config(ANA), BO)):
        with pytest.raises(RefusedIdentityError, match=r"memory\.threads\.checkpointer\(\)"):
            await answering(memory.threads.checkpointer(ANA)).ainvoke(said("one"), config, context=context)
    with pytest.raises(MissingIdentityError, match=r"memory\.threads\.checkpointer"):
        await answering(memory.threads.checkpointer()).ainvoke(said("one"), at("t"))
    assert {*counts(superuser).values()} == {0}


async def test_threads_are_listed_and_deleted_by_their_own_people_alone(
    memory: Mnemic, superuser: psycopg.Connection
) -> None:
    host = answering(memory.threads.checkpointer())
    for name in ("t", "u"):
        await host.ainvoke(said("one"), memory.threads.config(ANA, name))
    await memory.threads.delete(BO, "t", "u")
    assert [item.id for item in await memory.threads.list(ANA)] == ["u", "t"]
    await memory.threads.delete(ANA, "t", "no such thread")
    assert [item.id for item in await memory.threads.list(ANA)] == ["u"]
    assert (await host.aget_state(memory.threads.config(ANA, "t"))).values == {}
    await memory.threads.delete(ANA, "u")
    assert {*counts(superuser).values()} == {0}
    with pytest.raises(InvalidInputError, match=r"ids: name the threads; `threads.list` lists them"):
        await memory.threads.prune(ANA)


async def test_pruning_keeps_the_latest_and_what_waits_for_an_answer(
    memory: Mnemic, superuser: psycopg.Connection
) -> None:
    saver, worked = memory.threads.checkpointer(ANA), list[str]()
    host, config = asking(saver, worked), memory.threads.config(ANA)
    for text in ("one", "two"):
        await answering(saver).ainvoke(said(text), config)
    await host.ainvoke(said("three"), config)
    before = counts(superuser)
    state = await host.aget_state(config, subgraphs=True)
    for _ in range(2):
        await memory.threads.prune(ANA, "s1")
    after = counts(superuser)
    assert (before["checkpoints"], after["checkpoints"]) == (12, 2)  # the thread's and its waiting subgraph's
    assert after["checkpoint_blobs"] < before["checkpoint_blobs"]
    pruned = await host.aget_state(config, subgraphs=True)
    assert (pruned.values, pruned.next, pruned.interrupts) == (state.values, state.next, state.interrupts)
    assert misplaced(superuser) == []
    done = await host.ainvoke(Command(resume="yes"), config)
    assert words(done)[-1] == "Asked: yes"
    assert worked == ["worked"]


async def test_a_run_that_is_nobodys_does_not_take_up_somebodys_thread(memory: Mnemic) -> None:
    await answering(memory.threads.checkpointer()).ainvoke(said("I am Ana"), memory.threads.config(ANA))
    server = ServerThreads(memory.resources.database)

    async def found(**run: Any) -> bool:
        return await server.aget_tuple({"configurable": {"thread_id": "s1", "checkpoint_ns": "", **run}}) is not None

    assert not await found(**{RUNTIME: SimpleNamespace(context=None, server_info=None)})
    assert not await found(**{RUNTIME: SimpleNamespace(context=identity("bo"), server_info=None)})
    assert await found(**{RUNTIME: SimpleNamespace(context=ANA, server_info=None)})
    assert await found()  # the server itself, which has let its caller at the thread


# -- threads that move in from memory and from plain Postgres tables


@both_savers
async def test_a_thread_moves_in_whole_and_goes_on(
    memory: Mnemic, clean_db: Clone, superuser: psycopg.Connection, savers: Savers
) -> None:
    worked: list[str] = []
    async with savers(clean_db) as (source, _):
        for text in ("one", "two"):
            await answering(source).ainvoke(said(text), at("t"))
        await asking(source, worked).ainvoke(said("three"), at("t"))  # and waits in a subgraph
        await answering(source).ainvoke(said("other"), at("u"))
        ours = memory.threads.checkpointer(ANA)
        assert await memory.threads.copy(ANA, source) == 15
        for thread in ("t", "u"):
            assert await everything(ours, thread) == await everything(source, thread)
        assert len({row[0] for row in await everything(ours, "t")}) == 2  # namespaces
        before = counts(superuser)
        assert await memory.threads.copy(ANA, source) == 15
        assert counts(superuser) == before
        assert misplaced(superuser) == []

        results = [await asking(saver, worked).ainvoke(Command(resume="yes"), at("t")) for saver in (source, ours)]
    told = [word for text in ("one", "two", "three") for word in (text, f"Heard {text}")]
    assert [words(result) for result in results] == [[*told, "Asked: yes"]] * 2
    assert worked == ["worked"]  # before it moved, and by neither again


async def test_messages_after_a_move_stay_when_it_is_redone_and_moves_on(memory: Mnemic) -> None:
    source, ours = InMemorySaver(), memory.threads.checkpointer(ANA)
    for thread in ("t", "u"):
        await answering(source).ainvoke(said("one"), at(thread))
    await memory.threads.copy(ANA, source, ["u"])
    await answering(ours).ainvoke(said("since"), at("u"))
    assert await memory.threads.copy(ANA, source, ["u", "no such thread"]) == 3
    assert [item.id for item in await memory.threads.list(ANA)] == ["u"]
    told = ["one", "Heard one", "since", "Heard since"]
    assert words((await answering(ours).aget_state(at("u"))).values) == told
    # to whom they are said to belong, of any source's
    assert await memory.threads.copy(BO, ours) == await memory.threads.copy(BO, memory.threads.checkpointer(BO)) == 6
    assert words((await answering(memory.threads.checkpointer(BO)).aget_state(at("u"))).values) == told
