"""An operation as a tool of an agent: the identity of the run, both ways to call it, refusals as text."""

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from langchain_core.tools import StructuredTool, ToolException
from langgraph.prebuilt import ToolRuntime
from pydantic import BaseModel, ValidationError

from mnemic.memory.runtime.identity import identity_of, log_ids
from mnemic.memory.runtime.resources import Provider, Resources
from mnemic.prompts.tool_calls import NO_EMBEDDER, NO_LOOP, NO_MEMORY, refused_argument
from mnemic.state.checking import first_problem
from mnemic.state.errors import BlockedLoopError, EmbeddingError, MnemicError, RefusedCallError
from mnemic.state.identity import Identity
from mnemic.tools.private import PrivateTool

_LOG = logging.getLogger("mnemic")

#: The text for the model, and the artifact for the host's code.
Answer = tuple[str, Any]


class Call(NamedTuple):
    """One call by a model."""

    resources: Resources
    identity: Identity
    #: Checked arguments.
    arguments: dict[str, Any]
    #: Messages of the host's state.
    messages: Sequence[Any]


class Tool(NamedTuple):
    """A tool as a model sees it, and its operation."""

    #: Letters, digits, `_` and `-`: the APIs of models take no other characters.
    name: str
    description: str
    arguments: type[BaseModel]
    run: Callable[[Call], Awaitable[Answer]]


def make_tool(provide: Provider, role: str, tool: Tool) -> StructuredTool:
    """Return the tool for LangChain; arguments as those of `make_tools`.

    The identity is that of the run's context, in this role; a model can neither see nor set it. A refusal is an answer
    with the status `error` that names a remedy. It never ends the agent's run.
    """

    async def call(runtime: ToolRuntime[Any, Any], arguments: dict[str, Any]) -> Answer:
        ids: dict[str, str | None] = {}
        try:
            identity = identity_of(runtime, in_turn=True).model_copy(update={"role": role})
            ids = log_ids(identity)
            return await tool.run(Call(await provide(), identity, arguments, _messages_of(runtime.state)))
        except RefusedCallError as error:
            raise ToolException(refused_argument(str(error))) from None
        except MnemicError as error:
            _LOG.warning("The tool %s failed: %s", tool.name, error, extra=ids)
            raise ToolException(_advice(error, tool)) from None

    def call_sync(runtime: ToolRuntime[Any, Any], **arguments: Any) -> Answer:
        try:
            return provide.run(partial(call, runtime, arguments))
        except MnemicError as error:
            raise _unreached(tool, error) from None

    async def call_async(runtime: ToolRuntime[Any, Any], **arguments: Any) -> Answer:
        try:
            return await provide.run_async(partial(call, runtime, arguments))
        except MnemicError as error:
            raise _unreached(tool, error) from None

    return PrivateTool(
        provide=provide,
        name=tool.name,
        description=tool.description,
        args_schema=tool.arguments,
        func=call_sync,
        coroutine=call_async,
        response_format="content_and_artifact",
        handle_tool_error=True,
        handle_validation_error=refuse_arguments,
    )


def _messages_of(state: Any) -> Sequence[Any]:
    """Return the messages of a host's state, in the place of LangGraph's own states; none without that place."""
    if isinstance(state, Mapping):
        return state.get("messages") or ()
    return getattr(state, "messages", None) or ()


def _unreached(tool: Tool, error: MnemicError) -> ToolException:
    """Return the answer of a call that did not reach the loop of the resources."""
    _LOG.warning("The tool %s failed: %s", tool.name, error)
    return ToolException(NO_LOOP if isinstance(error, BlockedLoopError) else NO_MEMORY)


def _advice(error: MnemicError, tool: Tool) -> str:
    """Return advice to the model about a failure, without its reason."""
    if isinstance(error, EmbeddingError) and tool.name == "memory_query":
        return NO_EMBEDDER
    return NO_MEMORY


def refuse_arguments(error: Exception) -> str:
    """Return the refusal of arguments that do not fit the schema."""
    if isinstance(error, ValidationError):
        return refused_argument(first_problem(error))
    return refused_argument("")
