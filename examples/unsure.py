"""An agent that searches its memory when it is not sure of its answer, and only then answers.

`.venv/bin/python -m mnemic.examples.unsure` needs no key: a rule plays the chat model.
"""

import asyncio
from typing import Any, NamedTuple, NotRequired

from langchain_core.messages import AIMessage, HumanMessage
from langgraph.graph import START, MessagesState, StateGraph

from mnemic import Identity, MemoryState, Mnemic, with_memory


class Turn(MessagesState, MemoryState):
    """The host's own state."""

    unsure: NotRequired[bool]


class Answer(NamedTuple):
    """What a real model gives by `model.with_structured_output(Answer)`."""

    text: str
    sure: bool


def model(state: Turn) -> Answer:
    """Where a chat model belongs: a rule that is sure of what it was told, and of what is no question."""
    request = "\n".join(message.text for message in with_memory(state["messages"], state["memory_context"]))
    is_question = request.endswith("?")
    text = f"A model would answer here, given\n{request}" if is_question else "Noted."
    return Answer(text, sure=not is_question or "<RetrievedMemories>" in request)


async def answer(state: Turn) -> dict[str, Any]:
    """Says nothing yet where the model is unsure, unless this turn has been searched for already."""
    given = model(state)
    if not given.sure and not state["memory_searched"]:
        return {"unsure": True}
    return {"unsure": False, "messages": [AIMessage(given.text)]}


async def answer_again(state: Turn) -> dict[str, Any]:
    """With what the search found; sure or not, this is the answer."""
    return {"messages": [AIMessage(model(state).text)]}


def build(memory: Mnemic) -> "StateGraph[Turn, Identity, MessagesState]":
    """`recall -> answer -> observe`, with a search and a second answer in between where the first one is unsure."""
    graph = StateGraph(Turn, context_schema=Identity, input_schema=MessagesState)
    graph.add_node("recall", memory.nodes.recall())
    graph.add_node("answer", answer)
    graph.add_node("search", memory.nodes.recall(search="always"))
    graph.add_node("answer_again", answer_again)
    graph.add_node("observe", memory.nodes.observe())
    graph.add_edge(START, "recall")
    graph.add_edge("recall", "answer")
    graph.add_conditional_edges(
        "answer", lambda state: "search" if state["unsure"] else "observe", ["search", "observe"]
    )
    graph.add_edge("search", "answer_again")
    graph.add_edge("answer_again", "observe")
    return graph


async def main() -> None:
    """One conversation, a question in another, and how many of the turns searched."""
    turns = [
        ("monday", "My sister Lea is allergic to nuts."),
        ("monday", "We bake every Sunday."),
        ("friday", "Good morning."),
        ("friday", "Can you suggest a cake?"),
    ]
    async with Mnemic.open() as memory:
        graph = build(memory).compile()
        searched = 0
        for session, said in turns:
            who = Identity(agent_id="example-unsure", user_id="ana", session_id=session)
            turn = await graph.ainvoke({"messages": [HumanMessage(said)]}, context=who)
            print(f"{session}, Ana: {said}\nAgent: {turn['messages'][-1].text}")
            await memory.form(who)  # after every turn only here, so that the next one can find it
            searched += turn["memory_searched"] is not None
        print(f"{searched} of {len(turns)} turns searched")


if __name__ == "__main__":
    asyncio.run(main())
