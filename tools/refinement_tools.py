"""The knife as tools, made for one refinement session: no role has them, and they end with the session (seed C)."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from langchain_core.tools import BaseTool, StructuredTool, ToolException
from pydantic import BaseModel

from mnemic.operations.refinement import edits as knife
from mnemic.operations.refinement.close import complete
from mnemic.operations.refinement.session import Refining
from mnemic.prompts import refinement_tools as told
from mnemic.prompts.refusals import refused_argument
from mnemic.state.errors import (
    ConcurrentChangeError,
    InvalidInputError,
    KnifeRefusedError,
    RefinementOverError,
    RefusedError,
)
from mnemic.tools.calling import told_of_arguments

#: What a model may read of: its own mistakes, what a guard of the database refuses, that somebody else wrote meanwhile,
#: and that the session is over. All else ends the run, and it is resumed.
_TOLD = (KnifeRefusedError, InvalidInputError, RefinementOverError, RefusedError, ConcurrentChangeError)


def make_knife(refining: Refining) -> Sequence[BaseTool]:
    """The six tools of this session."""
    return [
        _tool(
            "search_memories",
            told.SEARCH,
            told.SearchArguments,
            lambda query, after, before: knife.search(refining, query, after, before),
        ),
        _tool(
            "consolidate_memories",
            told.CONSOLIDATE,
            told.ConsolidateArguments,
            lambda ids_to_merge, new_content: knife.consolidate(refining, ids_to_merge, new_content),
        ),
        _tool(
            "update_memory",
            told.UPDATE,
            told.UpdateArguments,
            lambda id, content: knife.update(refining, id, content),  # noqa: A006 - the argument's name (seed C)
        ),
        _tool("delete_memory", told.DELETE, told.OneArgument, lambda id: knife.delete(refining, id)),  # noqa: A006
        _tool("protect_memory", told.PROTECT, told.OneArgument, lambda id: knife.protect(refining, id)),  # noqa: A006
        _tool(
            "complete_refinement",
            told.COMPLETE,
            told.CompleteArguments,
            lambda summary: complete(refining, summary),
        ),
    ]


def _tool(name: str, description: str, arguments: type[BaseModel], act: Callable[..., Awaitable[str]]) -> BaseTool:
    async def acall(**given: Any) -> str:
        try:
            return await act(**given)
        except _TOLD as error:
            raise ToolException(refused_argument(str(error))) from None

    return StructuredTool(
        name=name,
        description=description,
        args_schema=arguments,
        coroutine=acall,
        handle_tool_error=True,
        handle_validation_error=told_of_arguments,
    )
