"""A function of Mnemic as a tool that an agent may call: whose run it is, both ways of calling, refusals as text."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from langchain_core.tools import StructuredTool, ToolException
from langgraph.prebuilt import ToolRuntime
from pydantic import BaseModel, ValidationError

from mnemic.operations.run.event_loop import on_loop
from mnemic.operations.run.identity import turn_identity
from mnemic.operations.run.resources import Provider, Resources
from mnemic.prompts.refusals import NO_EMBEDDER, NO_LOOP, NO_MEMORY, refused_argument
from mnemic.state.checking import first_problem
from mnemic.state.errors import (
    BlockedLoopError,
    CategoryRefusedError,
    EmbeddingError,
    InvalidInputError,
    MnemicError,
    NotForgottenError,
    NotRememberedError,
)
from mnemic.state.identity import Identity

_LOG = logging.getLogger("mnemic")

#: Models know JSON and the tool's description, not Python.
_PLAIN_WORDS: Final = {"a valid tuple": "a list", "Extra inputs are not permitted": "there is nothing of this name"}

#: What the model reads, and what the host's code gets beside it.
Answer = tuple[str, Any]
#: What a tool does, given the arguments a model sent, checked, and the messages in the host's state.
Act = Callable[[Resources, Identity, dict[str, Any], Sequence[Any]], Awaitable[Answer]]


@dataclass(frozen=True, kw_only=True)
class Caller:
    """For whom tools are made: the role they act in, and where Mnemic's connections live."""

    provide: Provider
    role: str
    #: The event loop that opened Mnemic; None: tools can only be awaited.
    loop: asyncio.AbstractEventLoop | None = None


def make_tool(
    caller: Caller, act: Act, *, name: str, concept: str, description: str, arguments: type[BaseModel]
) -> StructuredTool:
    """The tool.

    The identity is that of the run's context, in the caller's role; a model can neither see nor set it. A refusal is an
    answer that says what to do, with the status `error`; it never ends the agent's run.

    Args:
        caller: for whom it is made.
        act: what it does.
        name: what models call it by; their APIs take letters, digits, `_` and `-`.
        concept: its name in audit and metadata.
        description: what it is for, for the model.
        arguments: what the model may send.
    """

    async def acall(runtime: ToolRuntime[Any, Any], **given: Any) -> Answer:
        try:
            identity = turn_identity(runtime).model_copy(update={"role": caller.role})
            return await act(await caller.provide(), identity, given, _messages(runtime.state))
        except MnemicError as error:
            raise ToolException(_told(name, error)) from None

    def call(runtime: ToolRuntime[Any, Any], **given: Any) -> Answer:
        try:
            return on_loop(caller.loop, lambda: acall(runtime, **given))
        except BlockedLoopError as error:
            raise ToolException(_told(name, error)) from None

    return StructuredTool(
        name=name,
        description=description,
        args_schema=arguments,
        func=call,
        coroutine=acall,
        response_format="content_and_artifact",
        handle_tool_error=True,
        handle_validation_error=told_of_arguments,
        metadata={"concept": concept},
    )


def _messages(state: Any) -> Sequence[Any]:
    """Where LangGraph's own states have them, or none."""
    found = state.get("messages") if isinstance(state, Mapping) else getattr(state, "messages", None)
    return found or ()


def told_of_arguments(error: Exception) -> str:
    """What a model is told of arguments that do not fit."""
    problem = first_problem(error) if isinstance(error, ValidationError) else ""
    for word, plain in _PLAIN_WORDS.items():
        problem = problem.replace(word, plain)
    return refused_argument(problem)


def _told(name: str, error: MnemicError) -> str:
    """What a model may read of an error: its own mistakes as they are, and of all else only what to do now."""
    if isinstance(error, InvalidInputError | CategoryRefusedError | NotForgottenError | NotRememberedError):
        return refused_argument(str(error))
    _LOG.warning("the tool %s failed: %s", name, error)
    if isinstance(error, BlockedLoopError):
        return NO_LOOP
    return NO_EMBEDDER if isinstance(error, EmbeddingError) and name == "memory_query" else NO_MEMORY
