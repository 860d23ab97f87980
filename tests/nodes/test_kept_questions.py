"""Kept messages that ask: which are found again, and which only repeat the question."""

import pytest

from benchmarks.recall_quality.messages import plain_pairs
from mnemic import Mnemic
from mnemic.memory.text.questions import folded
from mnemic.state.records import SearchResult
from mnemic.state.settings import Settings
from tests.support.loopback import LoopbackModel
from tests.support.scripted import say, scripted_memory, turns
from tests.support.server import Clone
from tests.support.worlds import identity

ANA = identity("ana", session="s1")

PAIRS = plain_pairs()


def answers(told: str, question: str, item: SearchResult) -> bool:
    """Whether a result has most of the words that the question lacks: it is what was told, or a fact formed from it."""
    new = {word for word in folded(told) if len(word) > 3 or word.isdigit()} - {*folded(question)}
    return 2 * len(new & {*folded(item.content)}) > len(new)


async def test_the_answer_comes_before_the_questions_that_were_asked_for_it(clean_db: Clone) -> None:
    """With rules and the packaged embedder; a third of them once more without a mark, as people type."""
    asked = [question for _, question in PAIRS]
    weeks = [[told for told, _ in PAIRS], asked, asked, [question.lower().rstrip("?") for question in asked[::3]]]
    async with Mnemic.open(database_url=clean_db.service_dsn, settings=Settings(keep_messages="all")) as memory:
        for week, texts in enumerate(weeks):
            who = identity("ana", session=f"week {week}")
            await memory.observe(who, turns(*texts, minutes=week * 7 * 24 * 60))
            await memory.form(who)
        found = {question: await memory.query(ANA, question, top_k=3) for question in asked}

    missed = [text for told, text in PAIRS if not any(answers(told, text, item) for item in found[text][:3])]
    assert (len(PAIRS), len(missed)) <= (60, 6)
    for question, items in found.items():
        assert not any(folded(item.content) == folded(question) for item in items)


@pytest.mark.parametrize("ending", ["", ".", "!", ";", "?", " 🙂"])
async def test_a_statement_is_found_by_its_own_words_however_it_ends(
    clean_db: Clone, model: LoopbackModel, ending: str
) -> None:
    async with scripted_memory(clean_db, model, keep_messages="all") as memory:
        stated = f"my pin is 4471{ending}"
        await say(memory, ANA, stated, "What is my pin?", "what is my pin", "ok", "I like the sea.")
        for question in ("my pin is 4471", stated, '"my pin is 4471"', "What is my pin?"):
            assert stated in [item.content for item in (await memory.query(ANA, question))[:2]]
        assert "4471" in (await memory.recall(ANA, "my pin is 4471", search="always")).context.turn


async def test_a_message_that_tells_and_asks_is_found(clean_db: Clone, model: LoopbackModel) -> None:
    async with scripted_memory(clean_db, model, keep_messages="all") as memory:
        flight = "My flight LH 1234 leaves on 3 May at 7:10, can you remind me what to pack?"
        await say(memory, ANA, flight, "assistant: Sure, here is a list.", "When does my flight leave?", "Thanks!")
        found = [item.content for item in await memory.query(ANA, "When does my flight leave?")]
        assert found[0] == flight
        assert "When does my flight leave?" not in found


async def test_a_quoted_phrase_finds_questions_too(clean_db: Clone, model: LoopbackModel) -> None:
    async with scripted_memory(clean_db, model, keep_messages="all") as memory:
        await say(memory, ANA, "Where is my boat?", "I like the sea.")
        found = await memory.query(ANA, '"Where is my boat?"')
        assert [item.content for item in found] == ["Where is my boat?"]


async def test_only_the_question_that_is_asked_again_is_left_out(clean_db: Clone, model: LoopbackModel) -> None:
    async with scripted_memory(clean_db, model, keep_messages="all") as memory:
        stated = {"the boat is at quay nine", "where is the boat", "My boat is red.", "where is my boat 2"}
        await say(memory, ANA, "where is my boat", "Hi! Where is my boat?", *sorted(stated))
        assert {item.content for item in await memory.query(ANA, "Where is my boat?")} == stated
        # without any mark it may be a statement: it comes behind the message that tells more
        found = [item.content for item in await memory.query(ANA, "where IS my boat")]
        assert found.index("where is my boat") > found.index("My boat is red.")
        assert "My boat is red." in {item.content for item in await memory.query(ANA, "my boat is red")}


@pytest.mark.parametrize(
    "stated",
    [
        "I am vegan, what can I cook?",
        "我对花生过敏，你能推荐一道菜吗？",
        "ich bin Veganer, was kann ich kochen",
        "my pin is 4471, ok?",
    ],
)
async def test_a_message_with_a_second_clause_is_found_by_its_own_words(
    clean_db: Clone, model: LoopbackModel, stated: str
) -> None:
    async with scripted_memory(clean_db, model, keep_messages="all") as memory:
        await say(memory, ANA, stated, "I like the sea.", "Where do I live?")
        assert (await memory.query(ANA, stated))[0].content == stated


@pytest.mark.parametrize("question", ["Where do I live?", "¿Dónde vivo?", "我住在哪里？", "Πού μένω;", "Wo wohne ich?"])
async def test_a_question_in_any_language_is_no_answer_to_itself(
    clean_db: Clone, model: LoopbackModel, question: str
) -> None:
    async with scripted_memory(clean_db, model, keep_messages="all") as memory:
        await say(memory, ANA, question, question.rstrip("?;？"), "I like the sea.")
        assert [item.content for item in await memory.query(ANA, question)] == ["I like the sea."]
