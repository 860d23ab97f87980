"""FastAPI: one `Mnemic` for the application, opened by its lifespan. `fastapi run examples/recipes/fastapi_app.py`."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated

from fastapi import Depends, FastAPI, Header, Request
from langchain_core.messages import HumanMessage
from pydantic import BaseModel

from mnemic import Identity, Mnemic


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    """Open the memory on the event loop that serves the requests."""
    async with Mnemic.open() as memory:
        app.state.memory = memory
        app.state.agent = memory.graphs.supervisor(memory.threads.checkpointer())
        yield


app = FastAPI(lifespan=lifespan)


class Message(BaseModel):
    """A message of a user."""

    text: str


def current_user(x_user: Annotated[str, Header()]) -> str:
    """Return the user of the request. Put your own authentication here: memories are selected by this id."""
    return x_user


User = Annotated[str, Depends(current_user)]


@app.post("/sessions/{session_id}/messages")
async def say(session_id: str, message: Message, user: User, request: Request) -> Message:
    """Answer a message with what the agent remembers of this user."""
    identity = Identity(agent_id="guide", user_id=user, session_id=session_id)
    thread = request.app.state.memory.threads.config(identity)
    turn = {"messages": [HumanMessage(message.text)]}
    answered = await request.app.state.agent.ainvoke(turn, thread, context=identity)
    return Message(text=answered["messages"][-1].text)


@app.get("/memories")
async def memories(user: User, request: Request) -> list[str]:
    """List what the agent remembers of this user."""
    identity = Identity(agent_id="guide", user_id=user, role="owner")
    return [memory.content for memory in await request.app.state.memory.memories(identity)]
