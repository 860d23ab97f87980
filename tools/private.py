"""Tools that are traced without their contents."""

import asyncio
from contextlib import suppress
from functools import partial
from typing import Any

from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import ensure_config, var_child_runnable_config
from langchain_core.tools import StructuredTool
from pydantic import PrivateAttr

from mnemic.memory.runtime.background import run_on_loop
from mnemic.memory.runtime.resources import Provider
from mnemic.memory.runtime.tracing import private_callbacks
from mnemic.state.errors import BlockedLoopError


class PrivateTool(StructuredTool):
    """A tool with traces that lack its arguments and answer, unless the settings show them."""

    _provide: Provider = PrivateAttr()
    _loop: asyncio.AbstractEventLoop | None = PrivateAttr()

    def __init__(self, *, provide: Provider, loop: asyncio.AbstractEventLoop | None, **attributes: Any) -> None:
        super().__init__(**attributes)
        self._provide, self._loop = provide, loop

    async def ainvoke(
        self,
        input: Any,  # noqa: A002 - the base class's name
        config: RunnableConfig | None = None,
        **options: Any,
    ) -> Any:
        """Run the tool without tracing its contents."""
        return await super().ainvoke(input, await self._with_private_callbacks(config), **options)

    def invoke(
        self,
        input: Any,  # noqa: A002 - the base class's name
        config: RunnableConfig | None = None,
        **options: Any,
    ) -> Any:
        """Run the tool without tracing its contents, from another thread than that of the event loop."""
        # the tool's own answer is the refusal of a blocked loop
        with suppress(BlockedLoopError):
            config = run_on_loop(self._loop, partial(self._with_private_callbacks, ensure_config(config)))
        return super().invoke(input, config, **options)

    def _to_args_and_kwargs(
        self, tool_input: str | dict[str, Any], tool_call_id: str | None
    ) -> tuple[tuple[str, ...], dict[str, Any]]:
        """Return the arguments of a call with its runtime, which the base class drops for a tool without arguments."""
        args, kwargs = super()._to_args_and_kwargs(tool_input, tool_call_id)
        if isinstance(tool_input, dict) and "runtime" in tool_input:
            kwargs["runtime"] = tool_input["runtime"]
        return args, kwargs

    async def _with_private_callbacks(self, config: RunnableConfig | None) -> RunnableConfig | None:
        private = await private_callbacks(self._provide, config or var_child_runnable_config.get())
        if private is None:
            return config
        return {**(config or {}), "callbacks": private}
