"""The supervisor without a key: it quotes what its user told it, keeps what it is asked to, and invents nothing."""

from collections.abc import AsyncIterator

import pytest
from langchain_core.messages import HumanMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver

from mnemic import Identity, Mnemic
from tests.support.server import Clone

FIRST = [
    "Hello!",
    "I work as a bookbinder.",
    "Vasco fixed the boiler on Tuesday.",
    "Please remember that my passport expires in April 2031.",
    "Mein Hund heißt Rex.",
    "I have a sister called Rita.",
]


class Talk:
    """Conversations with one agent; memories are formed after each turn, as `mnemic chat` does."""

    def __init__(self, memory: Mnemic) -> None:
        self._memory = memory
        self._graph = memory.graphs.supervisor(InMemorySaver())

    async def say(self, *lines: str, user: str = "joao", session: str = "monday") -> list[str]:
        """The answer to each line."""
        answers = []
        who = Identity(agent_id="guide", user_id=user, session_id=session)
        for line in lines:
            thread: RunnableConfig = {"configurable": {"thread_id": f"{user}-{session}"}}
            turn = await self._graph.ainvoke({"messages": [HumanMessage(line)]}, thread, context=who)
            answers.append(turn["messages"][-1].text)
            await self._memory.form(who)
        return answers


@pytest.fixture
async def talk(clean_db: Clone) -> AsyncIterator[Talk]:
    async with Mnemic.open(database_url=clean_db.service_dsn, embedder="hash") as memory:
        yield Talk(memory)


async def test_a_second_conversation_quotes_what_the_first_one_told(talk: Talk) -> None:
    first = await talk.say(*FIRST)
    assert ["MNEMIC_API_KEY" in answer for answer in first] == [True] + [False] * 5  # once is enough

    asked = {
        "What is my job?": ["Joao works as a bookbinder."],
        "Who fixed the boiler?": ["You told me on", "Vasco fixed the boiler on Tuesday."],
        "who fixed the boiler": ["Vasco fixed the boiler on Tuesday."],
        "When does my passport expire?": ["April 2031"],
        "Wie heißt mein Hund?": ["Rex"],
        "What is my sister's name?": ["Rita"],
        "Tell me about Rita.": ["sister"],
    }
    for question, parts in asked.items():
        (answer,) = await talk.say(question, session="friday")
        assert [part for part in parts if part not in answer] == [], (question, answer)
        assert question not in answer
    told = ("bookbinder", "Vasco", "passport", "Rex", "Rita")
    for question in ("Which instrument do I play?", "What is my brother called?", "How are you?", "Thanks!"):
        (answer,) = await talk.say(question, session="friday")
        assert not any(word in answer for word in told), (question, answer)


@pytest.mark.parametrize("request_", ["What do you know about me?", "Was weißt du über mich?", "Que sais-tu sur moi ?"])
async def test_asked_for_everything_it_lists_all_that_it_was_told(talk: Talk, request_: str) -> None:
    (nothing,) = await talk.say(request_, session="sunday")
    await talk.say(*FIRST)
    (listed,) = await talk.say(request_, session="friday")
    for known in ("Joao works as a bookbinder.", "Vasco", "April 2031", "Rex", "sister is called Rita"):
        assert (known in listed, known in nothing) == (True, False), (known, listed)
    assert "Hello" not in listed
    (others,) = await talk.say(request_, user="ana")
    assert not any(word in others for word in ("bookbinder", "Vasco", "Rex"))


async def test_what_holds_no_longer_is_quoted_no_more(talk: Talk) -> None:
    await talk.say("I live in Porto.", "I moved to Braga.", "I play the cello.", "Forget that I play the cello.")
    home, hobby = await talk.say("Where do I live?", "Which instrument do I play?", session="friday")
    assert ("Braga" in home, "Porto" in home) == (True, False)
    assert "cello" not in hobby
