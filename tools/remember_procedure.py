"""The tool `remember_procedure`: numbered steps, at a user's request (seed B 12)."""

from collections.abc import Sequence
from typing import Any

from langchain_core.tools import BaseTool

from mnemic.operations.explicit.remember_procedure import remember_procedure as keep
from mnemic.operations.run.resources import Resources
from mnemic.prompts.explicit import REMEMBER_PROCEDURE, procedure_arguments, remember_answer
from mnemic.state.explicit import ProcedureRequest
from mnemic.state.identity import Identity
from mnemic.tools.calling import Answer, Caller, make_tool
from mnemic.tools.conversation import said_to


def remember_procedure(caller: Caller) -> BaseTool:
    """The tool; its artifact says what was stored, and for whom."""
    return make_tool(
        caller,
        _keep,
        name="remember_procedure",
        concept="remember_procedure",
        description=REMEMBER_PROCEDURE,
        arguments=procedure_arguments(),
    )


async def _keep(resources: Resources, identity: Identity, given: dict[str, Any], messages: Sequence[Any]) -> Answer:
    request = ProcedureRequest(**given)
    kept = await keep(resources, identity, request, said=await said_to(identity, request.scope, messages))
    return remember_answer(kept, request.scope), kept.as_row()
