"""The tools of a refinement, made for one session: no role has them, and they end with the session.

A new tool is a prompt in `prompts/refinement/tools.py`, and an operation with an entry in `memory/refinement/edits.py`.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

from langchain_core.tools import BaseTool, StructuredTool, ToolException

from mnemic.memory.refinement.edits import OPERATIONS
from mnemic.memory.refinement.session import RefinementSession
from mnemic.prompts.refinement.tools import TOOLS
from mnemic.prompts.tool_calls import refused_argument
from mnemic.state.errors import ConcurrentChangeError, RefusedCallError, RefusedError
from mnemic.tools.calling import refuse_arguments


def refinement_tools(session: RefinementSession) -> Sequence[BaseTool]:
    """Return the tools of this session.

    A mistake of the model, a refusal of a guard of the database, a concurrent change and the end of the session are
    answers. Any other failure ends the run, and the session is resumed.
    """
    made: list[BaseTool] = []
    for name, (description, arguments) in TOOLS.items():
        made.append(
            StructuredTool(
                name=name,
                description=description,
                args_schema=arguments,
                coroutine=partial(_call, name, session),
                handle_tool_error=True,
                handle_validation_error=refuse_arguments,
            )
        )
    return made


async def _call(name: str, session: RefinementSession, **arguments: Any) -> str:
    try:
        return await OPERATIONS[name](session, **arguments)
    except (RefusedCallError, RefusedError, ConcurrentChangeError) as error:
        raise ToolException(refused_argument(str(error))) from None
