"""The supervisor graph: `recall -> agent <-> (confirm ->) tools -> observe`, to use or to copy."""

from functools import partial

from langchain_core.messages import AIMessage
from langgraph.graph import START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.prebuilt import ToolNode
from langgraph.types import Checkpointer

from mnemic.graphs.formation import graph as formation_graph
from mnemic.graphs.recall import graph as recall_graph
from mnemic.memory.runtime.categories import Categories
from mnemic.memory.runtime.graph import AnyGraph, as_node, as_route, hide_untracked, shown, with_resources
from mnemic.memory.runtime.resources import ENVIRONMENT, Provider
from mnemic.memory.runtime.tracing import trace_without_contents
from mnemic.nodes.supervisor import answer, confirm, observe, recall, use_tools
from mnemic.prompts.messages.supervise import SUBAGENTS
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
    """Return the compiled graph, with the supervisor's tools and a sub-agent for each other role with its tools.

    Args:
        provide: opens the resources of the nodes.
        recalls: the recall graph, whose steps are drawn in the node that calls them.
        formation: the formation graph, whose steps are drawn in the node that calls them.
        categories: named in the descriptions of the tools; None for descriptions without names.
        checkpointer: the store of its threads; None for that of the host or server, if it has one.
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
    builder.add_node("recall", with_resources(provide, recall))
    builder.add_node("agent", with_resources(provide, partial(answer, tools=tools)))
    builder.add_node("confirm", as_node(provide, confirm))
    # not under the name of its node, under which its messages would be streamed
    builder.add_node("tools", as_node(provide, partial(use_tools, node=ToolNode(tools, name="calls"))))
    builder.add_node("observe", with_resources(provide, observe))
    builder.add_edge(START, "recall")
    builder.add_edge("recall", "agent")
    builder.add_conditional_edges("agent", as_route(_after_answer), ["confirm", "tools", "observe"])
    builder.add_edge("confirm", "tools")
    builder.add_edge("tools", "agent")
    supervisor = hide_untracked(builder.compile(name="supervisor", checkpointer=checkpointer))
    supervisor.nodes["recall"].subgraphs = [shown(recalls)]
    supervisor.nodes["observe"].subgraphs = [shown(formation)]
    return trace_without_contents(supervisor, provide)


def _after_answer(state: SupervisorState) -> str:
    """Return the next node: the calls, the question of consent, or the end of the turn."""
    last = state["messages"][-1]
    if not isinstance(last, AIMessage) or not last.tool_calls:
        return "observe"
    return "confirm" if state.get("questions") else "tools"  # a client may have put the answer into a new thread


graph = build_supervisor(ENVIRONMENT, recall_graph, formation_graph)
