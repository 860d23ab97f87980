"""Flask: one `Mnemic` for each process of the server, opened by its first request.

`flask --app examples/recipes/flask_app.py run`, or gunicorn with `--threads 8`, also with `--preload`.
"""

import atexit
from contextlib import ExitStack
from threading import Lock

from flask import Flask, request
from langchain_core.messages import HumanMessage

from mnemic import Identity, Mnemic, SyncMnemic

app = Flask(__name__)
_opening = Lock()
_opened: list[SyncMnemic] = []


def memory() -> SyncMnemic:
    """Return the memory of this process. All threads share it; a fork opens its own, since it starts with none."""
    with _opening:
        if not _opened:
            stack = ExitStack()
            _opened.append(stack.enter_context(Mnemic.open_sync()))
            atexit.register(stack.close)
        return _opened[0]


def current_user() -> str:
    """Return the user of the request. Put your own authentication here: memories are selected by this id."""
    return request.headers["X-User"]


@app.post("/sessions/<session_id>/messages")
def say(session_id: str) -> dict[str, str]:
    """Answer a message with what the agent remembers of this user."""
    identity = Identity(agent_id="guide", user_id=current_user(), session_id=session_id)
    agent = memory().graphs.supervisor(memory().threads.checkpointer())
    message = HumanMessage(request.get_json()["text"])
    answered = agent.invoke({"messages": [message]}, memory().threads.config(identity), context=identity)
    return {"text": answered["messages"][-1].text}


@app.get("/memories")
def memories() -> list[str]:
    """List what the agent remembers of this user."""
    identity = Identity(agent_id="guide", user_id=current_user(), role="owner")
    return [item.content for item in memory().memories(identity)]
