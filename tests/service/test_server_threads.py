"""The server's checkpointer, which is given a thread's id alone: whose run it is decides, and nothing else in a run."""

from types import SimpleNamespace
from typing import Any

from mnemic import Mnemic
from mnemic.service.server.threads import ServerThreads
from mnemic.service.threads import RUNTIME
from tests.support.threads import answering, said
from tests.support.worlds import identity

ANA = identity("ana", session="s1")


async def test_a_run_that_is_nobodys_does_not_take_up_somebodys_thread(memory: Mnemic) -> None:
    await answering(memory.checkpointer()).ainvoke(said("I am Ana"), memory.thread(ANA))
    server = ServerThreads(memory._resources.database)

    async def found(**run: Any) -> bool:
        return await server.aget_tuple({"configurable": {"thread_id": "s1", "checkpoint_ns": "", **run}}) is not None

    assert not await found(**{RUNTIME: SimpleNamespace(context=None, server_info=None)})
    assert not await found(**{RUNTIME: SimpleNamespace(context=identity("bo"), server_info=None)})
    assert await found(**{RUNTIME: SimpleNamespace(context=ANA, server_info=None)})
    assert await found()  # the server itself, which has let its caller at the thread
