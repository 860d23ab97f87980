"""The tool `forget`: one memory of the user or the session, at a user's request."""

from collections.abc import Sequence
from typing import Any

from langchain_core.tools import BaseTool

from mnemic.operations.explicit.forget import forget as soft_delete
from mnemic.operations.run.resources import Resources
from mnemic.prompts.explicit import FORGET, ForgetArguments, forget_answer
from mnemic.state.identity import Identity
from mnemic.tools.calling import Answer, Caller, make_tool


def forget(caller: Caller) -> BaseTool:
    """The tool; its artifact says whether the memory was still there."""
    return make_tool(caller, _forget, name="forget", concept="forget", description=FORGET, arguments=ForgetArguments)


async def _forget(resources: Resources, identity: Identity, given: dict[str, Any], _: Sequence[Any]) -> Answer:
    was_there = await soft_delete(resources, identity, given["id"], by_model=True)
    return forget_answer(given["id"], was_there), {"id": str(given["id"]), "forgotten": was_there}
