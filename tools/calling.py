"""An operation as a tool that an agent may call: whose run it is, both ways of calling, refusals as text."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, NamedTuple

from langchain_core.tools import StructuredTool, ToolException
from langgraph.prebuilt import ToolRuntime
from pydantic import BaseModel, ValidationError

from mnemic.memory.runtime.background import run_on_loop
from mnemic.memory.runtime.identity import identity_of
from mnemic.memory.runtime.resources import Provider, Resources
from mnemic.prompts.tools import NO_EMBEDDER, NO_LOOP, NO_MEMORY, refused_argument
from mnemic.state.checking import first_problem
from mnemic.state.errors import BlockedLoopError, EmbeddingError, MnemicError, RefusedCallError
from mnemic.state.identity import Identity
from mnemic.tools.private import PrivateTool

_LOG = logging.getLogger("mnemic")

#: What the model reads, and what the host's code gets beside it.
Answer = tuple[str, Any]


class Call(NamedTuple):
    """One call by a model."""

    resources: Resources
    identity: Identity
    #: As the model sent them, checked.
    arguments: dict[str, Any]
    #: Those of the host's state.
    messages: Sequence[Any]


class Tool(NamedTuple):
    """A tool as a model knows it, and what it does."""

    #: What models call it by; their APIs take letters, digits, `_` and `-`.
    name: str
    description: str
    arguments: type[BaseModel]
    act: Callable[[Call], Awaitable[Answer]]


def make_tool(
    provide: Provider, role: str, tool: Tool, loop: asyncio.AbstractEventLoop | None = None
) -> StructuredTool:
    """The tool, for LangChain; arguments as those of `make_tools`.

    The identity is that of the run's context, in this role; a model can neither see nor set it. A refusal is an answer
    that says what to do, with the status `error`; it never ends the agent's run.
    """

    async def call_async(runtime: ToolRuntime[Any, Any], **arguments: Any) -> Answer:
        try:
            identity = identity_of(runtime, in_turn=True).model_copy(update={"role": role})
            state = runtime.state  # where LangGraph's own have the messages; a host's may have none
            found = state.get("messages") if isinstance(state, Mapping) else getattr(state, "messages", None)
            return await tool.act(Call(await provide(), identity, arguments, found or ()))
        except RefusedCallError as error:
            raise ToolException(refused_argument(str(error))) from None
        except MnemicError as error:  # the model reads no more than what to do now
            _LOG.warning("the tool %s failed: %s", tool.name, error)
            no_embedder = isinstance(error, EmbeddingError) and tool.name == "memory_query"
            raise ToolException(NO_EMBEDDER if no_embedder else NO_MEMORY) from None

    def call_sync(runtime: ToolRuntime[Any, Any], **arguments: Any) -> Answer:
        try:
            return run_on_loop(loop, lambda: call_async(runtime, **arguments))
        except BlockedLoopError as error:
            _LOG.warning("the tool %s failed: %s", tool.name, error)
            raise ToolException(NO_LOOP) from None

    return PrivateTool(
        provide=provide,
        loop=loop,
        name=tool.name,
        description=tool.description,
        args_schema=tool.arguments,
        func=call_sync,
        coroutine=call_async,
        response_format="content_and_artifact",
        handle_tool_error=True,
        handle_validation_error=refused_arguments,
    )


def refused_arguments(error: Exception) -> str:
    """What a model reads about arguments that do not fit."""
    return refused_argument(first_problem(error) if isinstance(error, ValidationError) else "")
