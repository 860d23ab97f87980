"""An operation as a tool of an agent, called with and without arguments."""

import asyncio
from typing import Any

from langchain_core.messages import AIMessage

from mnemic.prompts.tool_calls import Arguments
from mnemic.service.memory import Mnemic
from mnemic.tools.calling import Answer, Call, Tool, make_tool
from tests.support.agents import called, host
from tests.support.worlds import identity

ANA = identity("ana", session="s1")


async def _own_name(call: Call) -> Answer:
    return f"{call.identity.user_id} as {call.identity.role}", call.arguments


async def test_a_tool_without_arguments_gets_the_identity_of_its_run(memory: Mnemic) -> None:
    tool = make_tool(memory._provide, "planner", Tool("whoami", "Returns the user.", Arguments, _own_name))
    for arguments in ({}, {"user_id": "bo"}):
        message = await called(host([tool]), ANA, "whoami", arguments)
        assert (message.status, message.content, message.artifact) == ("success", "ana as planner", {})


async def test_so_does_one_that_is_invoked_synchronously(memory: Mnemic) -> None:
    tool = make_tool(memory._provide, "planner", Tool("whoami", "Returns the user.", Arguments, _own_name))
    call: dict[str, Any] = {"name": "whoami", "args": {}, "id": "call_1", "type": "tool_call"}
    turn = await asyncio.to_thread(host([tool]).invoke, {"messages": [AIMessage("", tool_calls=[call])]}, context=ANA)
    assert turn["messages"][-1].content == "ana as planner"
