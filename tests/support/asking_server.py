"""What a person's client asks of LangGraph Server, and how that is refused."""

from collections.abc import Coroutine
from typing import Any

from langgraph_sdk.client import LangGraphClient

from tests.support.dev_server import status_of

GUIDE: Any = {"agent_id": "guide"}


def said(text: str) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": text}]}


async def refusal(asked: Coroutine[Any, Any, Any]) -> int:
    """The status of the server's refusal; 200 where it does as it is asked."""
    try:
        await asked
    except Exception as error:  # noqa: BLE001 - the SDK raises one kind for each status
        return status_of(error)
    return 200


async def talk(client: LangGraphClient, text: str = "Good morning.", **context: Any) -> str:
    """A thread with one turn in it."""
    thread = (await client.threads.create())["thread_id"]
    await client.runs.wait(thread, "supervisor", input=said(text), context={**GUIDE, **context})
    return thread


def attempts(client: LangGraphClient, thread: str, run: str) -> dict[str, Coroutine[Any, Any, Any]]:
    """Everything that can be asked of a thread."""
    return {
        "get": client.threads.get(thread),
        "state": client.threads.get_state(thread),
        "history": client.threads.get_history(thread),
        "update": client.threads.update(thread, metadata={"owner": "bea"}),
        "update state": client.threads.update_state(thread, said("It was me.")),
        "copy": client.threads.copy(thread),
        "delete": client.threads.delete(thread),
        "runs": client.runs.list(thread),
        "a run": client.runs.get(thread, run),
        "delete run": client.runs.delete(thread, run),
        "cancel": client.runs.cancel(thread, run),
        "join": client.runs.join(thread, run),
        "new run": client.runs.create(thread, "supervisor", input=said("It was me."), context=GUIDE),
    }


async def ids(client: LangGraphClient, **asked: Any) -> set[str]:
    """The threads that a client finds; as many are counted."""
    found = {one["thread_id"] for one in await client.threads.search(limit=1000, **asked)}
    assert await client.threads.count(**asked) == len(found)
    return found


async def metadata(client: LangGraphClient, thread: str) -> dict[str, Any]:
    return dict((await client.threads.get(thread))["metadata"] or {})


async def words(client: LangGraphClient, thread: str) -> list[Any]:
    state: Any = await client.threads.get_state(thread)
    return list(state["values"]["messages"])


async def item(client: LangGraphClient, namespace: list[str], key: str) -> Any:
    return await client.store.get_item(namespace, key)


async def run_of(client: LangGraphClient, thread: str) -> str:
    (run,) = await client.runs.list(thread)
    return str(run["run_id"])


def everything(client: LangGraphClient, thread: str, run: str, checkpoint: str) -> dict[str, Any]:
    """All that can be asked of a thread, and a little more."""

    return {
        **attempts(client, thread, run),
        "state of then": client.threads.get_state(thread, checkpoint_id=checkpoint),
        "new answer": client.runs.create(thread, "supervisor", command={"resume": "yes"}, context=GUIDE),
        "stateless": client.http.post("/runs/cancel", json={"thread_id": thread, "run_ids": [run]}),
        "prune": client.http.post("/threads/prune", json={"thread_ids": [thread]}),
    }


async def streamed(client: LangGraphClient, thread: str, run: str) -> list[tuple[str, Any]]:
    """What comes when a run and its thread are joined: the server answers first, and refuses within the stream."""
    parts = [(part.event, part.data) async for part in client.runs.join_stream(thread, run)]
    return parts + [(part.event, part.data) async for part in await client.threads.join_stream(thread)]
