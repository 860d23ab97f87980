"""Traces of our graphs and tools without their contents: tracers record names, times and token counts."""

from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing, asynccontextmanager, contextmanager, suppress
from functools import cache, partial
from typing import Any, Generic, cast
from uuid import UUID

from langchain_core.callbacks import AsyncCallbackManager, BaseCallbackHandler, BaseCallbackManager, CallbackManager
from langchain_core.messages import AIMessage
from langchain_core.outputs import ChatGeneration, LLMResult
from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import (
    get_async_callback_manager_for_config,
    get_callback_manager_for_config,
    merge_configs,
    var_child_runnable_config,
)
from langchain_core.tracers.base import BaseTracer
from langchain_core.tracers.log_stream import LogStreamCallbackHandler
from langchain_core.tracers.schemas import Run
from langgraph.graph.state import CompiledStateGraph
from langgraph.types import TracePolicy, omit_payload
from langgraph.typing import ContextT, InputT, OutputT, StateT

from mnemic.memory.runtime.resources import Provider, Resources
from mnemic.state.errors import MnemicError

#: For spans that LangGraph or LangChain makes of a node or a middleware's hook.
WITHOUT_CONTENTS = TracePolicy(process_inputs=omit_payload, process_outputs=omit_payload)


class PrivateGraph(CompiledStateGraph[StateT, ContextT, InputT, OutputT], Generic[StateT, ContextT, InputT, OutputT]):
    """A compiled graph whose run, with all runs inside it, is traced without contents unless the settings show them."""

    def __init__(self, *, provide: Provider, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.provide = provide

    def stream(
        self,
        input: Any,  # noqa: A002 - the base class's name
        config: RunnableConfig | None = None,
        **options: Any,
    ) -> Iterator[Any]:
        """Stream the run as the base class does. `invoke` calls this method, too."""
        private = private_callbacks(self.provide, var_child_runnable_config.get(), self.config, config)
        if private is None:
            yield from super().stream(input, config, **options)
            return
        parts = iter(super().stream(input, {**(config or {}), "callbacks": private}, **options))
        with _no_inherited_callbacks():  # as in `astream`
            part = next(parts, _END)
        while part is not _END:
            yield part
            part = next(parts, _END)

    async def astream(
        self,
        input: Any,  # noqa: A002 - the base class's name
        config: RunnableConfig | None = None,
        **options: Any,
    ) -> AsyncIterator[Any]:
        """Stream the run as the base class does. `ainvoke` and `astream_events` call this method, too."""
        private = await private_callbacks_async(self.provide, var_child_runnable_config.get(), self.config, config)
        if private is None:
            async for part in super().astream(input, config, **options):
                yield part
            return
        stream = super().astream(input, {**(config or {}), "callbacks": private}, **options)
        async with aclosing(stream) as parts:  # type: ignore[type-var]
            with _no_inherited_callbacks():  # LangGraph reads the config before it yields the first part
                part = await anext(parts, _END)
            while part is not _END:
                yield part
                part = await anext(parts, _END)


def trace_without_contents(
    graph: CompiledStateGraph[StateT, ContextT, InputT, OutputT], provide: Provider
) -> PrivateGraph[StateT, ContextT, InputT, OutputT]:
    """Return the graph as one that is traced without contents."""
    return PrivateGraph(provide=provide, **graph.__dict__)


_END = object()


def private_callbacks(provide: Provider, *configs: RunnableConfig | None) -> CallbackManager | None:
    """Return the callbacks of these configs with tracers that record no contents.

    None if there is no such tracer, or if the settings show contents. Settings that cannot be read show none; the run
    itself fails with the reason.
    """
    callbacks = get_callback_manager_for_config(merge_configs(*configs))
    if not _has_tracer(callbacks):
        return None
    with suppress(MnemicError):
        if provide.run(partial(_shows_contents, provide)):
            return None
    _omit_contents(callbacks)
    return callbacks


async def private_callbacks_async(provide: Provider, *configs: RunnableConfig | None) -> AsyncCallbackManager | None:
    """Return the callbacks of a run on an event loop, as `private_callbacks`."""
    callbacks = get_async_callback_manager_for_config(merge_configs(*configs))
    if not _has_tracer(callbacks):
        return None
    with suppress(MnemicError):
        if await provide.run_async(partial(_shows_contents, provide)):
            return None
    _omit_contents(callbacks)
    return callbacks


@asynccontextmanager
async def traced(resources: Resources, name: str, run_id: UUID) -> AsyncIterator[None]:
    """Trace the block and the model calls inside it as a run, without contents unless the settings show them.

    The callbacks of a host receive its start and its end, as those of a graph. Without callbacks nothing happens.
    """
    outer = var_child_runnable_config.get()
    callbacks = get_async_callback_manager_for_config(merge_configs(outer))
    if not callbacks.handlers:
        yield
        return
    if not resources.settings.trace_contents:
        _omit_contents(callbacks)
    run = await callbacks.on_chain_start(None, {}, run_id=run_id, name=name)
    token = var_child_runnable_config.set({**(outer or {}), "callbacks": run.get_child()})
    try:
        yield
    except BaseException as error:
        await run.on_chain_error(error)
        raise
    else:
        await run.on_chain_end({})
    finally:
        var_child_runnable_config.reset(token)


async def _shows_contents(provide: Provider) -> bool:
    return (await provide()).settings.trace_contents


def _has_tracer(callbacks: BaseCallbackManager) -> bool:
    return any(_records_contents(handler) for handler in callbacks.handlers)


def _omit_contents(callbacks: BaseCallbackManager) -> None:
    callbacks.handlers = [_content_free(handler) for handler in callbacks.handlers]
    callbacks.inheritable_handlers = [_content_free(handler) for handler in callbacks.inheritable_handlers]


@contextmanager
def _no_inherited_callbacks() -> Iterator[None]:
    """Hide the callbacks of the run around this one, which LangGraph would add to those of the config."""
    outer = var_child_runnable_config.get()
    token = var_child_runnable_config.set({**outer, "callbacks": None} if outer else None)
    try:
        yield
    finally:
        var_child_runnable_config.reset(token)


def _records_contents(handler: BaseCallbackHandler) -> bool:
    """Return whether this is a tracer. A handler of `astream_log` is one too, but feeds the caller's own stream."""
    return isinstance(handler, BaseTracer) and not isinstance(handler, LogStreamCallbackHandler | _ContentFree)


def _content_free(handler: BaseCallbackHandler) -> BaseCallbackHandler:
    """Return a copy of a tracer that shares its runs and its client, and omits contents; another handler as it is."""
    if not _records_contents(handler):
        return handler
    kind: Any = type(handler)
    private = object.__new__(_content_free_class(kind))
    private.__dict__.update(handler.__dict__)  # a tracer's own `__copy__` returns the tracer itself
    return cast(BaseCallbackHandler, private)


@cache
def _content_free_class(kind: Any) -> Any:
    # a subclass of the tracer's own class: LangChain adds a tracer of LangSmith to every run that has none
    return type(kind.__name__, (_ContentFree, kind), {})


class _ContentFree(BaseTracer):
    """The callbacks of a tracer, called without inputs, outputs and messages of errors."""

    def on_chain_start(self, serialized: dict[str, Any], inputs: Any, **details: Any) -> Run:
        return super().on_chain_start(serialized, {}, **details)

    def on_chain_end(self, outputs: Any, **details: Any) -> Run:
        return super().on_chain_end({}, **_without_inputs(details))

    def on_chain_error(self, error: BaseException, **details: Any) -> Run:
        return super().on_chain_error(_described(error), **_without_inputs(details))

    def on_tool_start(self, serialized: dict[str, Any], input_str: str, **details: Any) -> Run:
        return super().on_tool_start(serialized, "", **_without_inputs(details))

    def on_tool_end(self, output: Any, **details: Any) -> Run:
        return super().on_tool_end("", **details)

    def on_tool_error(self, error: BaseException, **details: Any) -> Run:
        return super().on_tool_error(_described(error), **details)

    def on_llm_start(self, serialized: dict[str, Any], prompts: list[str], **details: Any) -> Run:
        return super().on_llm_start(serialized, [""] * len(prompts), **details)

    def on_chat_model_start(self, serialized: dict[str, Any], messages: list[list[Any]], **details: Any) -> Run:
        return super().on_chat_model_start(serialized, [[] for _ in messages], **details)

    def on_llm_new_token(self, token: Any, **details: Any) -> Run:
        return super().on_llm_new_token("", **{**details, "chunk": None})

    def on_llm_end(self, response: LLMResult, **details: Any) -> Run:
        return super().on_llm_end(_counts_of(response), **details)

    def on_llm_error(self, error: BaseException, **details: Any) -> Run:
        details.pop("response", None)  # the part of the answer that came before the error
        return super().on_llm_error(_described(error), **details)


def _without_inputs(details: dict[str, Any]) -> dict[str, Any]:
    return {**details, "inputs": {}} if details.get("inputs") else details


def _described(error: BaseException) -> Exception:
    """Return an error to record. The message of any but our own may hold contents, and so may the chain behind it."""
    name = type(error).__name__
    return RuntimeError(f"{name}: {error}" if isinstance(error, MnemicError) else name)


def _counts_of(response: LLMResult) -> LLMResult:
    """Return the answer without its text: the tokens that it used."""
    result = LLMResult(generations=[])
    for answers in response.generations:
        generations: list[ChatGeneration] = []
        for answer in answers:
            generations.append(_without_text(answer))
        result.generations.append([*generations])
    return result


def _without_text(answer: object) -> ChatGeneration:
    message = answer.message if isinstance(answer, ChatGeneration) else None
    usage = message.usage_metadata if isinstance(message, AIMessage) else None
    return ChatGeneration(message=AIMessage("", usage_metadata=usage))
