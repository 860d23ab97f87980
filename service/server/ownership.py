"""Whose what is on LangGraph Server: its metadata say which user's and which agent's, and its filters go by them."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final

from langgraph.runtime import BaseUser
from langgraph_sdk import Auth, get_client
from langgraph_sdk.errors import NotFoundError

from mnemic.operations.run.authenticated import held_by

OWNER: Final = "owner"
AGENT: Final = "agent_id"
#: The agent of a thread while this module writes it; whatever a client writes there does not count.
_WRITTEN: Final[ContextVar[str | None]] = ContextVar("mnemic_written_agent", default=None)


def owned(user: BaseUser, value: Any) -> Auth.types.FilterType:
    """Writes the owner into what is made or changed, and lets only theirs through, of the agents that a token names."""
    if not isinstance(value.get("metadata"), dict):
        value["metadata"] = {}
    value["metadata"][OWNER] = user.identity  # in its place: the server goes on with this very dict
    theirs: list[Any] = [{AGENT: agent} for agent in held_by(user, "agents")]
    if len(theirs) > 1:  # the server wants two for an `or`
        theirs = [{"$or": theirs}]
    return {OWNER: user.identity, **(theirs[0] if theirs else {})}


def made(user: BaseUser, value: Any) -> Auth.types.FilterType:
    """What a token bound to agents makes is one of theirs: the only one, or which its metadata name.

    Raises:
        HTTPException: it has to be said which.
    """
    copied = "metadata" not in value  # with that of what is copied
    filters, agents = owned(user, value), held_by(user, "agents")
    if agents and not copied and value["metadata"].get(AGENT) not in agents:
        if len(agents) > 1:
            raise Auth.exceptions.HTTPException(403, f"this token names several agents: give one as metadata.{AGENT}")
        value["metadata"][AGENT] = agents[0]
    return filters


def changed(user: BaseUser, value: Any) -> Auth.types.FilterType:
    """Whose agent's something is stays as it is."""
    filters = owned(user, value)
    value["metadata"].pop(AGENT, None)
    if agent := _WRITTEN.get():
        value["metadata"][AGENT] = agent
    return filters


async def run(user: BaseUser, value: Any) -> Auth.types.FilterType:
    """A run is of one agent, which the request or its assistant names, and so is its thread from its first run on.

    Raises:
        HTTPException: it names no agent, one that the token does not name, or another than the thread's.
    """
    filters = owned(user, value)
    if not user.is_authenticated:
        return filters
    agent, agents = await _agent(value), held_by(user, "agents")
    if agents and agent not in agents:
        raise Auth.exceptions.HTTPException(403, f"{AGENT}: the token does not name this agent")
    if value["thread_id"]:
        await _first_run(str(value["thread_id"]), agent)
    value["metadata"][AGENT] = agent
    value["kwargs"]["context"] = {**(value["kwargs"].get("context") or {}), AGENT: agent}  # what was checked, runs
    return {OWNER: user.identity, AGENT: agent}


async def _agent(value: Any) -> str:
    named = (value["kwargs"].get("context") or {}).get(AGENT)
    if named is None:
        try:
            assistant = await get_client(url=None, api_key=None).assistants.get(str(value["assistant_id"]))
        except NotFoundError:
            raise Auth.exceptions.HTTPException(404, "there is no such assistant") from None
        preset: Any = assistant["context"]
        named = (preset or {}).get(AGENT)
    if not isinstance(named, str):
        raise Auth.exceptions.HTTPException(
            422, f"{AGENT}: name it in the run's context, or run an assistant that does"
        )
    return named


async def _first_run(thread_id: str, agent: str) -> None:
    """Writes whose agent's a thread is, as its caller, who may not see it at all."""
    threads = get_client(url=None, api_key=None).threads  # this server itself
    for found in await threads.search(ids=[thread_id], select=["metadata"], limit=1):
        written = (found["metadata"] or {}).get(AGENT)
        if written is None:
            with _writing(agent):
                await threads.update(thread_id, metadata={})
        elif written != agent:
            raise Auth.exceptions.HTTPException(409, "the thread is another agent's: begin a new one")


@contextmanager
def _writing(agent: str) -> Iterator[None]:
    token = _WRITTEN.set(agent)
    try:
        yield
    finally:
        _WRITTEN.reset(token)


def namespace(user: BaseUser, asked: tuple[str, ...]) -> tuple[str, ...]:
    """Where items of the store lie: below their owner, and with a token bound to agents below one of these.

    Raises:
        HTTPException: it has to be said below which.
    """
    own, agents = _label(user.identity), held_by(user, "agents")
    roots: list[tuple[str, ...]] = [(own, f"agent:{_label(agent)}") for agent in agents] or [(own,)]
    if any(asked[: len(root)] == root for root in roots):
        return asked
    if len(roots) > 1:
        raise Auth.exceptions.HTTPException(403, f"this token names several agents: begin the namespace with {roots}")
    return (*roots[0], *asked)


def _label(name: str) -> str:
    """As one label: it has no period, `*` would stand for any, and another name is not made of it."""
    return name.replace("%", "%25").replace(".", "%2E").replace("*", "%2A")
