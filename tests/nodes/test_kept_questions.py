"""Kept messages that only ask: stored like any other, and no answer to anything."""

from mnemic import Mnemic
from mnemic.policy.text.questions import folded, is_question
from mnemic.state.records import Found
from tests.support.loopback import LoopbackModel
from tests.support.scripted import say, scripted_memory, turns
from tests.support.server import Clone
from tests.support.worlds import identity

ANA = identity("ana", session="s1")

#: What somebody tells, and how they ask for it later.
TOLD = """
I live in Porto, near the river. | Where do I live?
My sister Rita is a nurse in Braga. | What does my sister do?
I am allergic to walnuts. | What am I allergic to?
I keep my bike in the blue shed. | Where is my bike?
My landlord is called Duarte Pinto. | What's my landlord's name?
The rent is 740 euros a month. | How much rent do I pay?
I take the number 500 bus to work. | Which bus do I take to work?
I work at the maritime museum. | Where do I work?
My boss Helena starts at seven. | When does my boss start?
I play the cello on Wednesdays. | Which instrument do I play?
My cat Bolota turned nine in April. | How old is my cat?
I drink my coffee without sugar. | How do I drink my coffee?
My shoe size is 39. | What is my shoe size?
My dentist is Dr. Faria on Rua das Flores. | Who is my dentist?
I parked the van on level three. | On which level did I park the van?
My passport runs out in November 2027. | When does my passport run out?
I am learning Finnish with an app. | Which language am I learning?
My brother Tiago moved to Oslo. | Where did my brother move?
Our anniversary is on the 14th of June. | When is our anniversary?
I ordered green curtains for the bedroom. | What colour are the bedroom curtains?
The wifi password is on the fridge. | Where do I find the wifi password?
I run ten kilometres every Sunday. | How far do I run on Sundays?
My favourite film is Paterson. | What's my favourite film?
I grow tomatoes and basil on the balcony. | What do I grow on the balcony?
My niece Alba wants to be a pilot. | What does my niece want to be?
I broke my left wrist in 2019. | Which wrist did I break?
My laptop is a refurbished ThinkPad. | What laptop do I have?
We married in Sintra. | Where did we get married?
The plumber comes on Thursday at ten. | When does the plumber come?
I owe Marta forty euros. | How much do I owe Marta?
My doctor told me to avoid salt. | What did my doctor tell me to avoid?
I bought the boat from Einar. | Who did I buy the boat from?
The boat is called Gaivota. | What is the name of my boat?
I studied chemistry in Coimbra. | What did I study?
My mother was born in Mozambique. | Where was my mother born?
I vote at the school on Rua do Sol. | Where do I vote?
My gym closes at half past nine. | When does my gym close?
I read mostly Swedish crime novels. | What kind of books do I read?
The spare key is with the neighbour, Ines. | Who has the spare key?
My car insurance is with Fidelidade. | Who insures my car?
I sleep badly when there is a full moon. | When do I sleep badly?
My grandmother taught me to bake bread. | Who taught me to bake bread?
I gave up smoking in March. | When did I give up smoking?
I am afraid of spiders. | What am I afraid of?
My team is Boavista. | Which team do I support?
The washing machine is under warranty until 2028. | How long is the washing machine under warranty?
I lent my drill to Paulo. | Who has my drill?
My flight to Helsinki leaves at 6:40. | When does my flight leave?
I sing tenor in the parish choir. | What voice do I sing in the choir?
My daughter's teacher is Mrs. Lobo. | Who is my daughter's teacher?
I hide the presents in the attic. | Where do I hide the presents?
My blood type is A negative. | What's my blood type?
I cycle to Matosinhos on Saturdays. | Where do I cycle on Saturdays?
My first job was in a bakery. | What was my first job?
The cleaning lady comes every second Friday. | How often does the cleaning lady come?
I paid 1,200 euros for the sofa. | How much was the sofa?
My uncle Rui repairs clocks. | What does my uncle repair?
I prefer aisle seats on trains. | Which seats do I prefer?
My thesis is about tidal power. | What is my thesis about?
We are painting the kitchen yellow. | What colour are we painting the kitchen?
"""
PAIRS = [(told, asked) for line in TOLD.strip().splitlines() for told, asked in [line.split(" | ")]]


def answers(told: str, question: str, item: Found) -> bool:
    """Whether a result has most of the words that the question lacks: it is what was told, or a fact formed from it."""
    new = {word for word in folded(told) if len(word) > 3 or word.isdigit()} - {*folded(question)}
    return 2 * len(new & {*folded(item.content)}) > len(new)


async def test_the_answer_comes_before_the_questions_that_were_asked_for_it(clean_db: Clone) -> None:
    """With rules and the packaged embedder; a third of them once more without a mark, as people type."""
    asked = [question for _, question in PAIRS]
    weeks = [[told for told, _ in PAIRS], asked, asked, [question.lower().rstrip("?") for question in asked[::3]]]
    async with Mnemic.open(database_url=clean_db.service_dsn, keep_messages="all") as memory:
        for week, texts in enumerate(weeks):
            who = identity("ana", session=f"week {week}")
            await memory.observe(who, turns(*texts, minutes=week * 7 * 24 * 60))
            await memory.form(who)
        found = {question: await memory.query(ANA, question, top_k=3) for question in asked}

    missed = [text for told, text in PAIRS if not any(answers(told, text, item) for item in found[text][:3])]
    assert (len(PAIRS), len(missed)) <= (60, 6)
    for question, items in found.items():
        assert not any(is_question(item.content) or folded(item.content) == folded(question) for item in items)


async def test_a_message_that_also_tells_something_is_found(clean_db: Clone, model: LoopbackModel) -> None:
    async with scripted_memory(clean_db, model, keep_messages="all") as memory:
        boat = "The boat is red. Who paints the boat?"
        await say(memory, ANA, "Where is my boat?", boat, "assistant: Which quay is your boat at?")
        for search_type in ("text", "semantic"):
            found = await memory.query(ANA, "boat", categories=["message"], search_type=search_type)
            assert [item.content for item in found] == [boat]


async def test_a_question_without_a_mark_is_no_answer_to_itself(clean_db: Clone, model: LoopbackModel) -> None:
    async with scripted_memory(clean_db, model, keep_messages="all") as memory:
        stated = {"the boat is at quay nine", "where is the boat", "My boat is red.", "where is my boat 2"}
        await say(memory, ANA, "where is my boat", *sorted(stated))
        for question in ("Where is my boat?", "where IS my boat"):
            assert {item.content for item in await memory.query(ANA, question)} == stated
        assert "My boat is red." in {item.content for item in await memory.query(ANA, "my boat is red")}
