"""Memory in a LangGraph graph of one's own: recall before the answer; afterwards what was said goes in.

`.venv/bin/python -m mnemic.examples.compose` needs no key: the answer quotes what was recalled where a chat model would
use it.
"""

import asyncio

from langchain_core.messages import AIMessage, HumanMessage, SystemMessage
from langgraph.graph import START, MessagesState, StateGraph

from mnemic import Identity, MemoryState, Mnemic, with_memory

PROMPT = "You are a guide."


class Turn(MessagesState, MemoryState):
    """The host's own state: the conversation, and what memory adds to this turn."""


async def answer(state: Turn) -> dict[str, list[AIMessage]]:
    """Answer; a real node calls its model with this request."""
    request = with_memory([SystemMessage(PROMPT), *state["messages"]], state["memory_context"])
    given = "\n".join(message.text for message in request)
    return {"messages": [AIMessage(f"A model would answer here, given\n{given}")]}


def build(memory: Mnemic) -> "StateGraph[Turn, Identity, MessagesState]":
    """`recall -> answer -> observe -> form`, to be compiled with a checkpointer or without."""
    graph = StateGraph(Turn, context_schema=Identity, input_schema=MessagesState)
    graph.add_node("recall", memory.nodes.recall())
    graph.add_node("answer", answer)
    graph.add_node("observe", memory.nodes.observe())
    graph.add_node("form", memory.nodes.form())
    graph.add_edge(START, "recall")
    graph.add_edge("recall", "answer")
    graph.add_edge("answer", "observe")
    graph.add_edge("observe", "form")
    return graph


async def main() -> None:
    """One conversation of two turns, and one question in another."""
    async with Mnemic.open() as memory:
        graph = build(memory).compile()
        ana = Identity(agent_id="example-compose", user_id="ana", session_id="monday")
        for said in ("I moved to Ghent in March.", "My sister Lea is allergic to nuts."):
            print(f"monday, Ana: {said}")
            await graph.ainvoke({"messages": [HumanMessage(said)]}, context=ana)
        await memory.form(ana)  # the rest of the conversation, now that it is over
        later = Identity(agent_id="example-compose", user_id="ana", session_id="friday")
        asked = HumanMessage("Do you remember what my sister is allergic to?")
        turn = await graph.ainvoke({"messages": [asked]}, context=later)
        print(f"friday, Ana: {asked.text}\nAgent: {turn['messages'][-1].text}")


if __name__ == "__main__":
    asyncio.run(main())
