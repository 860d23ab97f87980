"""Sub-agents as tools: each works alone on one task, with the tools and the allowlist of its own role."""

from collections.abc import Sequence
from typing import Final

from langchain_core.messages import BaseMessage, HumanMessage, SystemMessage
from langchain_core.tools import BaseTool
from langgraph.prebuilt import ToolNode
from pydantic import Field

from mnemic.memory.runtime.agent_settings import agent_settings
from mnemic.memory.runtime.resources import Provider
from mnemic.memory.runtime.usage import track_usage
from mnemic.memory.text.shape import clean_text
from mnemic.models.tool_calls import run_answer
from mnemic.prompts.messages.supervise import TASK, UNFINISHED, subagent_description, subagent_prompt
from mnemic.prompts.tool_calls import Arguments
from mnemic.tools.calling import Answer, Call, Tool, make_tool

#: Maximum number of model calls for one task. A query, a narrower query and an answer take three to five.
MAX_TURNS: Final = 12


class TaskArguments(Arguments):
    """Arguments of a sub-agent."""

    task: str = Field(description=TASK, min_length=1, max_length=20_000)


def subagent(provide: Provider, role: str, tools: Sequence[BaseTool]) -> BaseTool:
    """Return a sub-agent as a tool for a supervisor's model.

    Args:
        provide: opens the resources.
        role: name of the sub-agent, one of `SUBAGENTS`.
        tools: the sub-agent's own tools, which act in its role.
    """
    node = ToolNode(list(tools), name=role)

    async def work(call: Call) -> Answer:
        # the task comes from a model, so nothing of this conversation is observed
        task = clean_text(call.arguments["task"])
        messages: list[BaseMessage] = [SystemMessage(subagent_prompt(role)), HumanMessage(task)]
        models = call.resources.models.with_settings(await agent_settings(call.resources, call.identity))
        for _turn in range(MAX_TURNS):
            running = run_answer(messages, tools, models, role)
            answer = (await track_usage(call.resources, call.identity, running)).output
            if not answer.tool_calls:
                return answer.text, None
            messages.append(answer)
            messages += (await node.ainvoke({"messages": messages}))["messages"]
        return UNFINISHED.format(turns=MAX_TURNS), None

    return make_tool(provide, role, Tool(role, subagent_description(role), TaskArguments, work))
