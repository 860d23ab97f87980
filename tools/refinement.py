"""The tools of a refinement, made for one session: no role has them, and they end with the session.

A new one is an entry in `TOOLS`, and a function in `operations/refinement/edits.py` that takes its arguments.
"""

from collections.abc import Awaitable, Callable, Sequence
from datetime import date
from typing import Annotated, Any, Final, NamedTuple

from langchain_core.tools import BaseTool, StructuredTool, ToolException
from pydantic import BaseModel, Field

from mnemic.operations.refinement import edits
from mnemic.operations.refinement.close import complete
from mnemic.operations.refinement.session import RefinementSession
from mnemic.prompts.described import Arguments
from mnemic.prompts.refusals import refused_argument
from mnemic.state.errors import ConcurrentChangeError, RefusedCallError, RefusedError
from mnemic.tools.calling import refused_arguments

Handle = Annotated[int, Field(ge=1, lt=2**31, description="Its number in the ledger.")]
#: Longer ones are refused before they are read; what a memory may hold is far less.
_Text = Field(max_length=100_000)


class _Search(Arguments):
    query: Annotated[str, Field(max_length=2000, description="Words to look for; empty for all memories.")] = ""
    after: Annotated[date | None, Field(description="Only memories since this day or later, as 2026-03-02.")] = None
    before: Annotated[date | None, Field(description="Only memories since before this day.")] = None


class _Merge(Arguments):
    ids_to_merge: Annotated[list[Handle], Field(description="The numbers of the memories.", max_length=500)]
    new_content: Annotated[str, _Text, Field(description="The one text that replaces them.")]


class _Update(Arguments):
    id: Handle
    content: Annotated[str, _Text, Field(description="The new text.")]


class _Memory(Arguments):
    id: Handle


class _Summary(Arguments):
    summary: Annotated[str, _Text, Field(description="One or two sentences on what you did.")]


class _Tool(NamedTuple):
    """A tool as a model reads it, and the operation that does it."""

    description: str
    arguments: type[BaseModel]
    operation: Callable[..., Awaitable[str]]


TOOLS: Final = {
    "search_memories": _Tool(
        "Find memories by words, and by the day since which they hold. Shows each with its number.",
        _Search,
        edits.search,
    ),
    "consolidate_memories": _Tool(
        "Replace two or more memories by one text that is no longer than they are together. It keeps their earliest "
        "date. The answer names the details that the new text lacks.",
        _Merge,
        edits.consolidate,
    ),
    "update_memory": _Tool(
        "Rewrite one memory in no more words than it has. The answer names the details that the new text lacks.",
        _Update,
        edits.update,
    ),
    "delete_memory": _Tool(
        "Delete one obsolete memory. Only a few may be deleted in a session; merge what is merely long.",
        _Memory,
        edits.delete,
    ),
    "protect_memory": _Tool(
        "Protect a memory for good: afterwards only an administrator can change, merge or delete it. For promises, "
        "laws of your own, and what would do harm if it were lost.",
        _Memory,
        edits.protect,
    ),
    "complete_refinement": _Tool("End the refinement.", _Summary, complete),
}


def refinement_tools(session: RefinementSession) -> Sequence[BaseTool]:
    """The tools of this session.

    A model reads of its own mistakes, of what a guard of the database refuses, that somebody else wrote meanwhile, and
    that the session is over. Any other failure ends the run, and the session is resumed.
    """
    return [_bound(name, tool, session) for name, tool in TOOLS.items()]


def _bound(name: str, tool: _Tool, session: RefinementSession) -> BaseTool:
    async def call(**arguments: Any) -> str:
        try:
            return await tool.operation(session, **arguments)
        except (RefusedCallError, RefusedError, ConcurrentChangeError) as error:
            raise ToolException(refused_argument(str(error))) from None

    return StructuredTool(
        name=name,
        description=tool.description,
        args_schema=tool.arguments,
        coroutine=call,
        handle_tool_error=True,
        handle_validation_error=refused_arguments,
    )
