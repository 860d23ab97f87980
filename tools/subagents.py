"""Sub-agents as tools: each works alone on one task, with the tools and the allowlist of its own role."""

from collections.abc import Sequence
from typing import Any, Final

from langchain_core.messages import BaseMessage, HumanMessage, SystemMessage
from langchain_core.tools import BaseTool
from langgraph.prebuilt import ToolNode
from pydantic import Field

from mnemic.operations.run.model_step import agent_models, perform_answer
from mnemic.operations.run.resources import Provider, Resources
from mnemic.policy.text.hygiene import clean_text
from mnemic.prompts.described import Arguments
from mnemic.prompts.supervise import TASK, UNFINISHED, subagent_description, subagent_prompt
from mnemic.state.identity import Identity
from mnemic.tools.calling import Act, Answer, Caller, make_tool

#: Model calls of one task at most, with tools between them: asking, narrowing and answering takes three to five.
MOST_TURNS: Final = 12


class TaskArguments(Arguments):
    """What is to be done."""

    task: str = Field(description=TASK, min_length=1, max_length=20_000)


def subagent(provide: Provider, role: str, own: Sequence[BaseTool]) -> BaseTool:
    """One of `SUBAGENTS` for a supervisor's model to call.

    Args:
        provide: what it works with.
        role: its name.
        own: its tools, which act in its role.
    """
    return make_tool(
        Caller(provide=provide, role=role),
        _working(role, own),
        name=role,
        concept=role,
        description=subagent_description(role),
        arguments=TaskArguments,
    )


def _working(role: str, own: Sequence[BaseTool]) -> Act:
    node = ToolNode(list(own), name=role)

    async def work(resources: Resources, identity: Identity, given: dict[str, Any], said: Sequence[Any]) -> Answer:
        # what it is told comes from a model, so nothing of it is observed
        messages: list[BaseMessage] = [SystemMessage(subagent_prompt(role)), HumanMessage(clean_text(given["task"]))]
        _, models = await agent_models(resources, identity)
        for _turn in range(MOST_TURNS):
            answer = await perform_answer(resources, identity, models, own, messages, role)
            if not answer.tool_calls:
                return answer.text, None
            messages.append(answer)
            messages += (await node.ainvoke({"messages": messages}))["messages"]
        return UNFINISHED.format(turns=MOST_TURNS), None

    return work
