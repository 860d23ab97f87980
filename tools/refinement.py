"""The tools of a refinement, made for one session: no role has them, and they end with the session.

A new one is a section of `prompts/tools.md`, its arguments in `prompts/refine.py`, an entry here, and a function in
`memory/refinement/edits.py` that takes them.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final

from langchain_core.tools import BaseTool, StructuredTool, ToolException

from mnemic.memory.refinement import edits
from mnemic.memory.refinement.session import RefinementSession
from mnemic.prompts.refine import COMPLETING, TOOLS
from mnemic.prompts.tools import refused_argument
from mnemic.state.errors import ConcurrentChangeError, RefusedCallError, RefusedError
from mnemic.tools.calling import refused_arguments

_OPERATIONS: Final[Mapping[str, Callable[..., Awaitable[str]]]] = {
    "search_memories": edits.search,
    "consolidate_memories": edits.consolidate,
    "update_memory": edits.update,
    "delete_memory": edits.delete,
    "protect_memory": edits.protect,
    COMPLETING: edits.complete,
}


def refinement_tools(session: RefinementSession) -> Sequence[BaseTool]:
    """The tools of this session.

    A model reads of its own mistakes, of what a guard of the database refuses, that somebody else wrote meanwhile, and
    that the session is over. Any other failure ends the run, and the session is resumed.
    """
    return [
        StructuredTool(
            name=name,
            description=description,
            args_schema=arguments,
            coroutine=partial(_call, name, session),
            handle_tool_error=True,
            handle_validation_error=refused_arguments,
        )
        for name, (description, arguments) in TOOLS.items()
    ]


async def _call(name: str, session: RefinementSession, **arguments: Any) -> str:
    try:
        return await _OPERATIONS[name](session, **arguments)
    except (RefusedCallError, RefusedError, ConcurrentChangeError) as error:
        raise ToolException(refused_argument(str(error))) from None
