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
