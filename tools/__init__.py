"""What agents may call: thin tools over operations."""

import asyncio
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final

from langchain_core.tools import BaseTool

from mnemic.operations.run.resources import Provider
from mnemic.tools.calling import Caller, make_tool
from mnemic.tools.explicit import forget_tool, procedure_tool, remember_tool
from mnemic.tools.memory_query import memory_query

#: What roles may call beside `memory_query`; every other role only asks.
WRITING: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {"supervisor": ("remember", "forget", "remember_procedure"), "executor": ("remember_procedure",)}
)


def make_tools(
    provide: Provider,
    role: str,
    *,
    allowed: Sequence[str] = (),
    writable: Sequence[str] = (),
    loop: asyncio.AbstractEventLoop | None = None,
) -> list[BaseTool]:
    """The tools of an agent in this role; each acts for the identity in its run's context, in this role.

    Args:
        provide: what they work with.
        role: the role they act in, whatever the run's identity says.
        allowed: the categories that the role may ask for, named in the tools' descriptions.
        writable: likewise the categories that it may put a memory into.
        loop: the event loop that opened Mnemic, which synchronous calls are handed to; None: they can only be awaited.
    """
    caller = Caller(provide=provide, role=role, loop=loop)
    tools = [memory_query(allowed), remember_tool(writable), forget_tool(), procedure_tool()]
    names = ("memory_query", *WRITING.get(role, ()))
    return [make_tool(caller, tool) for tool in tools if tool.name in names]
