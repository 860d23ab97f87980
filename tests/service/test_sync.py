"""A program without an event loop has all of Mnemic: `with Mnemic.open_sync() as memory:`."""

import asyncio
import inspect
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from mnemic import Administration, Identity, Mnemic, Settings, SyncMnemic
from mnemic.state.errors import ClosedError, InvalidInputError, OtherLoopError
from tests.support.server import Clone

ANA = Identity(agent_id="guide", user_id="ana", session_id="s1", role="owner")
MOORING = "Ana moors at pier 4."
#: Attributes with methods of their own.
NAMESPACES = ("history", "threads", "privacy", "admin", "usage")


@pytest.fixture
def opened(clean_db: Clone) -> Iterator[SyncMnemic]:
    with Mnemic.open_sync(database_url=clean_db.service_dsn, embedder="hash", settings=Settings(pool_size=4)) as memory:
        yield memory


def methods_of(target: object) -> dict[str, Any]:
    names = [name for name in dir(type(target)) if not name.startswith("_")]
    return {name: getattr(type(target), name) for name in names}


def public_names(target: object) -> set[str]:
    return {name for name in {*dir(target)} if not name.startswith("_")}


async def test_every_method_and_namespace_has_a_synchronous_twin(clean_db: Clone) -> None:
    async with Mnemic.open(database_url=clean_db.service_dsn, embedder="hash") as memory:
        twin = SyncMnemic(memory)
        # `open` and the resources are for programs with an event loop
        assert public_names(twin) == public_names(memory) - {"open", "open_sync", "resources"}
        for target, mirrored in ((memory, twin), *((getattr(memory, n), getattr(twin, n)) for n in NAMESPACES)):
            if target is not memory:
                assert public_names(mirrored) == public_names(target)
            asynchronous = methods_of(target)
            for name, method in methods_of(mirrored).items():
                if not callable(method):
                    continue
                assert not inspect.iscoroutinefunction(method), name
                assert inspect.signature(method) == inspect.signature(asynchronous[name]), name
                assert method.__doc__ == asynchronous[name].__doc__, name


def test_a_script_remembers_without_await(opened: SyncMnemic) -> None:
    stored = opened.remember(ANA, MOORING, category="profile")
    assert [row.content for row in opened.memories(ANA)] == [MOORING]
    assert opened.query(ANA, "pier")[0].id == stored.id
    corrected = opened.correct(ANA, stored.id, "Ana moors at pier 5.")
    opened.history.undo(ANA, opened.history.operations(ANA)[0].id)
    assert [row.content for row in opened.memories(ANA)] == [MOORING]
    assert corrected.id not in {row.id for row in opened.memories(ANA)}
    opened.observe(ANA, [{"role": "user", "content": "I live in Porto."}])
    assert sum(run.formed for run in opened.form(ANA)) == 1
    assert "Porto" in opened.recall(ANA, "Where do I live?", search="always").context.turn
    assert opened.settings.pool_size == 4


def test_an_asynchronous_iterator_becomes_a_plain_one(opened: SyncMnemic) -> None:
    opened.remember(ANA, MOORING, category="profile")
    lines = list(opened.privacy.export_audit(ANA))
    assert len(lines) > 1
    assert any("pier 4" in line for line in lines)


async def test_it_is_called_from_inside_a_running_loop(opened: SyncMnemic) -> None:
    opened.remember(ANA, MOORING, category="profile")
    assert len(opened.memories(ANA)) == 1


def test_twenty_threads_call_it_at_once(opened: SyncMnemic) -> None:
    def turn(number: int) -> list[str]:
        user = Identity(agent_id="guide", user_id=f"u{number}", session_id=f"s{number}", role="owner")
        opened.remember(user, f"User {number} has locker {number}.", category="profile")
        opened.recall(user, "Which locker?", search="always")
        return [row.content for row in opened.memories(user)]

    with ThreadPoolExecutor(20) as threads:
        results = list(threads.map(turn, range(20)))
    assert results == [[f"User {number} has locker {number}."] for number in range(20)]


def test_errors_are_those_of_the_asynchronous_method(opened: SyncMnemic) -> None:
    with pytest.raises(InvalidInputError):
        opened.recall(ANA, search="perhaps")  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError):
        opened.privacy.export_audit({"agent_id": "guide", "usr": "ana"})  # type: ignore[arg-type]


def test_it_cannot_be_opened_without_its_database() -> None:
    with pytest.raises(Exception, match="MNEMIC_DATABASE_URL"):
        Mnemic.open_sync(database_url="postgresql://mnemic_app@127.0.0.1:1/none").__enter__()


def test_a_thread_without_an_event_loop_is_an_error_and_no_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> None:
        raise OSError("too many open files")

    monkeypatch.setattr(asyncio.events, "new_event_loop", refuse)
    with pytest.raises(OSError, match="too many open files"):
        Mnemic.open_sync().__enter__()


def test_a_closed_one_refuses_every_call(clean_db: Clone) -> None:
    with Mnemic.open_sync(database_url=clean_db.service_dsn, embedder="hash") as memory:
        export = memory.privacy.export_audit(ANA)
    for call in (
        lambda: memory.memories(ANA),
        lambda: next(export),
        lambda: memory.graphs.recall.invoke({}, context=ANA),
        lambda: asyncio.run(memory.graphs.recall.ainvoke({}, context=ANA)),
    ):
        with pytest.raises(ClosedError):
            call()


async def test_an_asynchronous_one_refuses_calls_after_its_block_and_on_other_loops(clean_db: Clone) -> None:
    async with Mnemic.open(database_url=clean_db.service_dsn, embedder="hash") as memory:
        with pytest.raises(OtherLoopError):
            await asyncio.to_thread(asyncio.run, memory.memories(ANA))
    with pytest.raises(ClosedError):
        await memory.memories(ANA)


def test_an_error_in_the_block_passes_through(clean_db: Clone) -> None:
    with pytest.raises(ZeroDivisionError), Mnemic.open_sync(database_url=clean_db.service_dsn, embedder="hash"):
        raise ZeroDivisionError


#: A call that does not end before its user presses Ctrl-C.
WAITING = """
import asyncio, sys
from langchain_core.embeddings import Embeddings
from mnemic import Identity, Mnemic

ANA = Identity(agent_id="guide", user_id="ana")

class Silent(Embeddings):
    def embed_documents(self, texts):
        raise NotImplementedError

    def embed_query(self, text):
        raise NotImplementedError

    async def aembed_documents(self, texts):
        print("waiting", flush=True)
        try:
            await asyncio.sleep(600)
        except asyncio.CancelledError:
            print("cancelled", flush=True)
            raise

with Mnemic.open_sync(embedder=Silent()) as memory:
    try:
        memory.query(ANA, "pier")
    except KeyboardInterrupt:
        print("interrupted", len(memory.memories(ANA)), flush=True)
"""


@pytest.mark.thorough
def test_an_interrupt_ends_the_call_and_its_work(clean_db: Clone) -> None:
    environment = {**os.environ, "MNEMIC_DATABASE_URL": clean_db.service_dsn}
    command = [sys.executable, "-c", WAITING]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as program:
        assert program.stdout is not None
        assert program.stdout.readline() == "waiting\n"
        program.send_signal(signal.SIGINT)
        out, _ = program.communicate(timeout=60)
    assert out.splitlines() == ["cancelled", "interrupted 0"]
    assert program.returncode == 0


async def test_an_administrator_has_it_too(clean_db: Clone) -> None:
    async with Mnemic.open(database_url=clean_db.service_dsn, embedder="hash") as memory:
        stored = await memory.remember(ANA, MOORING, category="profile")
    assert stored.id
    settings = Settings(admin_url=clean_db.administrator_dsn)
    with Administration.open_sync(settings=settings) as administration:
        assert administration.protect(ANA, stored.id).changed
        assert [row.id for row in administration.history.as_of(ANA, "user:ana", 1)] == [stored.id]
        assert administration.verify(ANA) == []
        names = {name for name in dir(administration) if not name.startswith("_")}
    async with Administration.open(settings=settings) as asynchronous:
        assert names == {name for name in dir(asynchronous) if not name.startswith("_")} - {"open", "open_sync"}
