"""Memory in an agent made by LangChain's `create_agent`: one middleware recalls, brings the tools, and observes.

`.venv/bin/python -m mnemic.examples.agent` needs no key: a stand-in plays the chat model.
"""

import asyncio
from typing import Any

from langchain.agents import create_agent
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver

from mnemic import Identity, Mnemic

PROMPT = "You are a guide. Where neither the conversation nor the memory tells you what you need, call memory_query."


class StandIn(BaseChatModel):
    """Where a real model such as `init_chat_model("openai:gpt-5.1")` belongs. It quotes what it was given, no more.

    A question that nothing was recalled for leaves it unsure, and it calls `memory_query`, as a model would.
    """

    @property
    def _llm_type(self) -> str:
        return "stand-in"

    def bind_tools(self, tools: Any, **settings: Any) -> "StandIn":
        """Return a model that takes any tools, and knows one of them."""
        return self

    def _generate(self, messages: list[BaseMessage], *_: Any, **settings: Any) -> ChatResult:
        return ChatResult(generations=[ChatGeneration(message=_answer(messages[-1]))])


def _answer(last: BaseMessage) -> AIMessage:
    if isinstance(last, ToolMessage):
        return AIMessage(f"A model would answer here, having been told\n{last.text}")
    if "<RetrievedMemories>" in last.text:
        return AIMessage(f"A model would answer here, given\n{last.text}")
    if last.text.endswith("?"):
        call = {"name": "memory_query", "args": {"query": last.text}, "id": "call_1", "type": "tool_call"}
        return AIMessage("", tool_calls=[call])
    return AIMessage("Noted.")


async def main() -> None:
    """One conversation of two turns; then two questions in others: one is recalled for, the other asks by the tool."""
    async with Mnemic.open() as memory:
        model = StandIn()
        agent = create_agent(
            model,
            system_prompt=PROMPT,
            middleware=[memory.middleware()],
            context_schema=Identity,
            checkpointer=InMemorySaver(),
        )

        async def say(session: str, said: str) -> None:
            who = Identity(agent_id="example-agent", user_id="ana", session_id=session)
            thread: RunnableConfig = {"configurable": {"thread_id": session}}
            turn = await agent.ainvoke({"messages": [HumanMessage(said)]}, thread, context=who)
            print(f"\n{session}, Ana: {said}\nAgent: {turn['messages'][-1].text}")

        await say("monday", "I moved to Ghent in March.")
        await say("monday", "My sister Lea is allergic to nuts.")
        # the conversation is over
        await memory.form(Identity(agent_id="example-agent", user_id="ana", session_id="monday"))
        await say("friday", "Do you remember what my sister is allergic to?")
        await say("saturday", "Can you suggest a cake?")


if __name__ == "__main__":
    asyncio.run(main())
