"""The supervisor: `recall -> agent <-> (confirm ->) tools -> observe`, the agent to begin with and to copy."""

from functools import partial

from langchain_core.messages import AIMessage
from langgraph.graph import START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.prebuilt import ToolNode
from langgraph.types import Checkpointer

from mnemic.graphs.formation import graph as formation_graph
from mnemic.graphs.recall import graph as recall_graph
from mnemic.nodes.supervisor import answer, confirm, observe, recall, use_tools
from mnemic.operations.run.graph import AnyGraph, hide_untracked, shown, with_resources
from mnemic.operations.run.resources import Provider, from_environment
from mnemic.operations.run.tracing import trace_without_contents
from mnemic.policy.categories import Categories
from mnemic.prompts.supervise import SUBAGENTS
from mnemic.state.identity import Identity
from mnemic.state.supervisor import SupervisorInput, SupervisorState
from mnemic.tools.memory import make_tools
from mnemic.tools.subagents import subagent

SupervisorGraph = CompiledStateGraph[SupervisorState, Identity, SupervisorInput, SupervisorInput]


def build_supervisor(
    provide: Provider,
    recalls: AnyGraph,
    formation: AnyGraph,
    *,
    categories: Categories | None = None,
    checkpointer: Checkpointer = None,
) -> SupervisorGraph:
    """The compiled graph, with the supervisor's own tools and a sub-agent for each other role with those of that role.

    Args:
        provide: what the nodes work with.
        recalls: made for the same resources.
        formation: likewise.
        categories: those that the tools' descriptions name; None: they name none.
        checkpointer: where its threads are kept; None: that of the host or server, if it has one.
    """
    # a categories file may leave roles out
    helpers = [role for role in SUBAGENTS if categories is None or role in categories.allowlists]
    tools = [
        *make_tools(provide, "supervisor", categories),
        *(subagent(provide, role, make_tools(provide, role, categories)) for role in helpers),
    ]
    builder = StateGraph(
        SupervisorState, context_schema=Identity, input_schema=SupervisorInput, output_schema=SupervisorInput
    )
    builder.add_node("recall", with_resources(provide, partial(recall, recalls=recalls)))
    builder.add_node("agent", with_resources(provide, partial(answer, recalls=recalls, tools=tools)))
    builder.add_node("confirm", confirm)
    # not by the name of its node, as which its messages would be streamed
    builder.add_node("tools", partial(use_tools, node=ToolNode(tools, name="calls")))
    builder.add_node("observe", with_resources(provide, partial(observe, formation=formation)))
    builder.add_edge(START, "recall")
    builder.add_edge("recall", "agent")
    builder.add_conditional_edges("agent", _after_answer, ["confirm", "tools", "observe"])
    builder.add_edge("confirm", "tools")
    builder.add_edge("tools", "agent")
    supervisor = hide_untracked(builder.compile(name="supervisor", checkpointer=checkpointer))
    supervisor.nodes["recall"].subgraphs = [shown(recalls)]
    supervisor.nodes["observe"].subgraphs = [shown(formation)]
    return trace_without_contents(supervisor, provide)


def _after_answer(state: SupervisorState) -> str:
    """Calls are to be done, some of them only if the user agrees; or the turn is over."""
    last = state["messages"][-1]
    if not isinstance(last, AIMessage) or not last.tool_calls:
        return "observe"
    return "confirm" if state.get("questions") else "tools"  # a client may have put the answer into a new thread


graph = build_supervisor(from_environment, recall_graph, formation_graph)
