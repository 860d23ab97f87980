"""The tool `remember`: one fact, or one core memory, at a user's request."""

from collections.abc import Sequence
from typing import Any

from langchain_core.tools import BaseTool

from mnemic.operations.explicit.remember import remember as keep
from mnemic.operations.run.resources import Resources
from mnemic.prompts.explicit import REMEMBER, remember_answer, remember_arguments
from mnemic.state.explicit import RememberRequest
from mnemic.state.identity import Identity
from mnemic.tools.calling import Answer, Caller, make_tool
from mnemic.tools.conversation import said_to


def remember(caller: Caller, writable: Sequence[str] = ()) -> BaseTool:
    """The tool; its artifact says what was stored, and for whom.

    Args:
        caller: for whom it is made.
        writable: the categories that its description names.
    """
    return make_tool(
        caller,
        _keep,
        name="remember",
        concept="remember",
        description=REMEMBER,
        arguments=remember_arguments(writable),
    )


async def _keep(resources: Resources, identity: Identity, given: dict[str, Any], messages: Sequence[Any]) -> Answer:
    request = RememberRequest(**given)
    kept = await keep(resources, identity, request, said=await said_to(identity, request.scope, messages))
    return remember_answer(kept, request.scope), kept.as_row()
