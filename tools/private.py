"""Tools that are traced without their contents."""

from typing import Any

from langchain_core.callbacks import BaseCallbackManager
from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import ensure_config, var_child_runnable_config
from langchain_core.tools import StructuredTool
from pydantic import PrivateAttr

from mnemic.memory.runtime.resources import Provider
from mnemic.memory.runtime.tracing import private_callbacks, private_callbacks_async


class PrivateTool(StructuredTool):
    """A tool with traces that lack its arguments and answer, unless the settings show them."""

    _provide: Provider = PrivateAttr()

    def __init__(self, *, provide: Provider, **attributes: Any) -> None:
        super().__init__(**attributes)
        self._provide = provide

    async def ainvoke(
        self,
        input: Any,  # noqa: A002 - the base class's name
        config: RunnableConfig | None = None,
        **options: Any,
    ) -> Any:
        """Run the tool without tracing its contents."""
        private = await private_callbacks_async(self._provide, config or var_child_runnable_config.get())
        return await super().ainvoke(input, _with_callbacks(config, private), **options)

    def invoke(
        self,
        input: Any,  # noqa: A002 - the base class's name
        config: RunnableConfig | None = None,
        **options: Any,
    ) -> Any:
        """Run the tool without tracing its contents, from another thread than that of the event loop."""
        private = private_callbacks(self._provide, ensure_config(config))
        return super().invoke(input, _with_callbacks(config, private), **options)

    def _to_args_and_kwargs(
        self, tool_input: str | dict[str, Any], tool_call_id: str | None
    ) -> tuple[tuple[str, ...], dict[str, Any]]:
        """Return the arguments of a call with its runtime, which the base class drops for a tool without arguments."""
        args, kwargs = super()._to_args_and_kwargs(tool_input, tool_call_id)
        if isinstance(tool_input, dict) and "runtime" in tool_input:
            kwargs["runtime"] = tool_input["runtime"]
        return args, kwargs


def _with_callbacks(config: RunnableConfig | None, callbacks: BaseCallbackManager | None) -> RunnableConfig | None:
    if callbacks is None:
        return config
    return {**(config or {}), "callbacks": callbacks}
