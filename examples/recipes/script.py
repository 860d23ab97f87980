"""A script without an event loop. `.venv/bin/python examples/recipes/script.py` needs no key."""

from langchain_core.messages import HumanMessage

from mnemic import Identity, Mnemic

MONDAY = Identity(agent_id="guide", user_id="ana", session_id="monday")
FRIDAY = Identity(agent_id="guide", user_id="ana", session_id="friday")


def main() -> None:
    """Store a conversation, form memories of it, and talk to an agent that has them."""
    with Mnemic.open_sync() as memory:
        memory.observe(MONDAY, [{"role": "user", "content": "I live in Ghent. My sister Lea is allergic to nuts."}])
        memory.form(MONDAY)
        for result in memory.query(FRIDAY, "What is Lea allergic to?"):
            print(result.content)

        agent = memory.graphs.supervisor(memory.threads.checkpointer())
        question = HumanMessage("Do you remember where I live?")
        turn = agent.invoke({"messages": [question]}, memory.threads.config(FRIDAY), context=FRIDAY)
        print(turn["messages"][-1].text)


if __name__ == "__main__":
    main()
