"""Memory in a LangGraph graph of one's own: recall before the answer, formation after it.

`.venv/bin/python -m mnemic.examples.compose` needs no key: the answer quotes what was recalled where a chat model would
use it.
"""

import asyncio
from contextlib import suppress

from langchain_core.messages import AIMessage, HumanMessage
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.runtime import Runtime

from mnemic import Identity, Mnemic, MnemicError


class Turn(MessagesState):
    """The host's own state: the conversation, and what memory adds to this turn."""

    context: str


async def answer(state: Turn) -> dict[str, list[AIMessage]]:
    """The host's own node."""
    return {"messages": [AIMessage(f"A model would answer here, given\n{state['context']}")]}


def build(memory: Mnemic) -> "StateGraph[Turn, Identity]":
    """`recall -> answer -> remember`, to be compiled with a checkpointer or without."""

    async def recall(state: Turn, runtime: Runtime[Identity]) -> dict[str, str]:
        return {"context": await memory.recall_text(runtime.context, state["messages"][-1].text)}

    async def remember(state: Turn, runtime: Runtime[Identity]) -> None:
        await memory.observe(runtime.context, state["messages"])
        with suppress(MnemicError):  # what cannot be formed now stays pending
            await memory.form(runtime.context, force=False)  # only once enough was said; a worker may do it instead

    graph = StateGraph(Turn, context_schema=Identity)
    graph.add_node(recall)
    graph.add_node(answer)
    graph.add_node(remember)
    graph.add_edge(START, "recall")
    graph.add_edge("recall", "answer")
    graph.add_edge("answer", "remember")
    return graph


def _turn(said: str) -> Turn:
    return {"messages": [HumanMessage(said)], "context": ""}


async def main() -> None:
    """One conversation of two turns, and one question in another."""
    async with Mnemic.open() as memory:
        graph = build(memory).compile()
        ana = Identity(agent_id="guide", user_id="ana", session_id="monday")
        for said in ("I moved to Ghent in March.", "My sister Lea is allergic to nuts."):
            await graph.ainvoke(_turn(said), context=ana)
        await memory.form(ana)  # the rest of the conversation, now that it is over
        later = Identity(agent_id="guide", user_id="ana", session_id="friday")
        turn = await graph.ainvoke(_turn("Do you remember what my sister is allergic to?"), context=later)
        print(turn["messages"][-1].text)  # noqa: T201  # an example's whole purpose


if __name__ == "__main__":
    asyncio.run(main())
