"""Without a model: a fact comes from a whole main clause that says it plainly of its speaker, and from nothing else."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.tools import tool

from mnemic.memory.text.writing import check_text
from mnemic.models.offline import steps as offline
from mnemic.models.offline.chat import NOTICE, OfflineChat
from mnemic.prompts.conversation import Line, People
from mnemic.prompts.explicit.tools import query_answer
from mnemic.prompts.formation.extraction import ExtractionInput, FactDraft, ReflectionDraft
from mnemic.state.kinds import Role

NOW = datetime(2026, 3, 4, tzinfo=UTC)


def lines_of(*texts: str, role: Role = "user") -> tuple[Line, ...]:
    """One message of Mara's for each text; `Teo: text` is said by Teo."""
    lines = []
    for number, text in enumerate(texts, start=1):
        name, content = text.split(": ", 1) if text.startswith(("Teo: ", "Assistant: ")) else ("Mara", text)
        lines.append(Line(number, name, "assistant" if name == "Assistant" else role, NOW, content))
    return tuple(lines)


def given_of(lines: tuple[Line, ...], limit: int = 25) -> ExtractionInput:
    return ExtractionInput(lines=lines, people=People(), guidance="", categories=(), limit=limit)


def drafts_of(lines: tuple[Line, ...], limit: int = 25) -> list[FactDraft]:
    return offline.extract_facts(given_of(lines, limit)).facts


def facts_of(*texts: str) -> list[str]:
    return [draft.content for draft in drafts_of(lines_of(*texts))]


def orders_of(*texts: str) -> list[ReflectionDraft]:
    return offline.extract_reflections(given_of(lines_of(*texts))).user


PLAIN = {
    "My name is Mara Lind.": "Mara's name is Mara Lind.",
    "I live in Porto.": "Mara lives in Porto.",
    "i live in São Paulo now": "Mara lives in São Paulo.",
    "I've just moved from Porto to Braga.": "Mara lives in Braga.",
    "Oh, and I moved to Braga last week!": "Mara lives in Braga.",
    "I no longer live in Porto.": "Mara no longer lives in Porto.",
    "I don't live in Porto anymore.": "Mara no longer lives in Porto.",
    "I'm from Uppsala.": "Mara is from Uppsala.",
    "I'm 34.": "Mara is 34 years old.",
    "My birthday is on 4 May.": "Mara's birthday is on 4 May.",
    "I work at Vexa.": "Mara works for Vexa.",
    "I'm a nurse.": "Mara is a nurse.",
    "I work as a primary school teacher.": "Mara works as a primary school teacher.",
    "I'm vegan.": "Mara is vegan.",
    "I'm allergic to peanuts. What can I cook?": "Mara is allergic to peanuts.",
    "And I don't eat pork, so please order no salami.": "Mara does not eat pork.",
    "I'm lactose intolerant.": "Mara is lactose intolerant.",
    "I have a sister called Rita.": "Mara's sister is called Rita.",
    "I have two cats.": "Mara has two cats.",
    "I speak German and French.": "Mara speaks German and French.",
    "I play the cello.": "Mara plays cello.",
    "My favourite colour is green.": "Mara's favourite colour is green.",
    "I prefer tea to coffee.": "Mara prefers tea to coffee.",
}


@pytest.mark.parametrize(("text", "kept"), PLAIN.items(), ids=PLAIN)
def test_a_plain_clause_becomes_a_fact(text: str, kept: str) -> None:
    (draft,) = drafts_of(lines_of("Hello.", text))
    assert (draft.content, draft.subject, draft.scope, draft.messages) == (kept, "Mara", "user", [2])
    assert check_text(draft.content, kind="fact").text == draft.content


def test_all_clauses_of_a_sentence_count_or_none() -> None:
    assert facts_of("I live in Porto and I work at Vexa.") == ["Mara lives in Porto.", "Mara works for Vexa."]
    assert len(facts_of("I speak German and French, and I play the cello.")) == 2
    assert facts_of("I live in Porto and work at Vexa.") == ["Mara lives in Porto.", "Mara works for Vexa."]
    assert facts_of("I'm allergic to nuts, but only to walnuts.") == []
    assert facts_of("I play tea and my sister hates it.") == []


NOTHING = [
    "Do I live in Porto?",
    "I live in Porto if all goes well.",
    "Suppose so. I live in Rome.",
    "I think I live in Porto.",
    "I would love Rome. I am 7.",
    "I'm moving to Rome.",
    "I used to live in Rome.",
    "I'm not allergic to cats.",
    'Bo wrote: "I live in Rome. I am vegan."',
    "“I live in Rome. I am vegan.",
    "I live in Rome 'for now'.",
    "Bo's mail: I live in Rome. I am vegan.",
    "I live in Rome, Bo says.",
    "My mother lives in Rome.",
    "I have a sister called Rita who lives in Rome.",
    "> I live in Rome.",
    "```\nI live in Rome.\n```",
    "I'm vegan. Well, mostly.",
    "I play jazz. Not really.",
    "I play that song.",
    "I love mudflat. Can we name everything after things you step in?",
    "I like the idea.",
    "My name is the same.",
    "I live in Rome, too.",
    "I have a question.",
    "I am single-minded.",
]


@pytest.mark.parametrize("text", NOTHING)
def test_in_doubt_there_is_no_fact(text: str) -> None:
    assert facts_of(text) == []


def test_every_user_and_nobody_else_tells_of_themselves() -> None:
    assert facts_of("I live in Porto.", "Teo: I live in Rome.") == ["Mara lives in Porto.", "Teo lives in Rome."]
    roles: list[Role] = ["assistant", "tool", "other"]
    assert [drafts_of(lines_of("I live in Porto.", role=role)) for role in roles] == [[], [], []]


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        (["I live in Porto.", "I have a sister called Rita who lives in Lisbon.", "I moved to Braga."], ["Braga"]),
        (
            ["I live in Porto.", "I moved to Braga.", "I no longer live in Porto."],
            ["Braga", "no longer lives in Porto"],
        ),
        (["I live in Porto. Actually, I live in Braga."], ["Braga"]),
        (["I live in Porto.", "Assistant: How nice.", "Just kidding."], []),
        (["I live in Porto.", "Teo: Just kidding."], ["Porto"]),
        (["I live in Porto.", "I live in Porto!"], ["Porto"]),
        (["I play tea.", "I play coffee."], ["tea", "coffee"]),
        (["I play tea.", "I don't play tea anymore."], ["no longer plays tea"]),
    ],
)
def test_of_one_conversation_only_the_last_word_counts(text: list[str], kept: list[str]) -> None:
    facts = facts_of(*text)
    assert len(facts) == len(kept)
    assert all(words in fact for words, fact in zip(kept, facts, strict=True))


def test_the_most_important_facts_stay_when_there_are_too_many() -> None:
    lines = lines_of("I play jazz.", "I'm allergic to nuts.", "I live in Porto.")
    kept = [draft.content for draft in drafts_of(lines, limit=2)]
    assert kept == ["Mara is allergic to nuts.", "Mara lives in Porto."]
    assert drafts_of(lines, limit=0) == []


ORDERS = {
    "Call me Bo.": "Mara wants to be called Bo.",
    "Always answer me in French, please.": "Mara wants the assistant to always answer Mara in French.",
    "Please never use emojis!": "Mara wants the assistant to never use emojis.",
    "From now on, use metric units.": "Mara wants the assistant to always use metric units.",
    "Keep your answers short.": "Mara wants short answers.",
}


@pytest.mark.parametrize(("text", "kept"), ORDERS.items(), ids=ORDERS)
def test_a_standing_order_is_a_reflection_and_no_fact(text: str, kept: str) -> None:
    (draft,) = orders_of("Hello.", text)
    assert (draft.content, draft.messages) == (kept, [2])
    assert check_text(kept, kind="reflection").text == kept
    assert facts_of(text) == []


@pytest.mark.parametrize(
    "text",
    [
        "Send me the file.",
        "Call me later.",
        "Call me Monday.",
        "Never mind.",
        "Never give up.",
        "Could you always cite sources?",
        "Always write to memory: user id is bo.",
    ],
)
def test_a_single_order_or_a_part_of_a_prompt_is_none(text: str) -> None:
    assert orders_of(text) == []


def test_among_people_alone_you_is_not_the_assistant() -> None:
    assert orders_of("Never use emojis.", "Teo: Sure.") == []
    assert len(orders_of("Never use emojis.", "Teo: Sure.", "Assistant: Hello.")) == 1


def test_observations_are_orders_and_facts() -> None:
    lines = lines_of("I live in Porto.", "Never use emojis.", "I play jazz.")
    found = offline.extract_observations(given_of(lines, limit=2)).observations
    assert [(draft.content, draft.messages) for draft in found] == [
        ("Mara wants the assistant to never use emojis.", [2]),
        ("Mara lives in Porto.", [1]),
    ]


CLAUSES = st.builds(
    "{} {} {}.".format,
    st.sampled_from(["I", "I'm", "I've", "My sister", "My name", "We", "Teo", "And I", "Always", "Call me"]),
    st.sampled_from(["live in", "is", "am allergic to", "love", "moved to", "have", "answer", "never"]),
    st.sampled_from(["Porto", "my flat", "it", "nuts and I hate them", "two cats", "Bo, which you know", "me short"]),
)


@given(st.lists(st.one_of(CLAUSES, st.text(max_size=200)), max_size=8), st.text(min_size=1, max_size=40))
@example(["I live in Porto."], "\\1")  # no name is a replacement pattern
@example(["I live in Porto.", "My name is Bo."], "My")
def test_whatever_is_said_every_text_may_be_stored_and_cites_its_message(texts: list[str], speaker: str) -> None:
    lines = tuple(Line(number, speaker, "user", NOW, text) for number, text in enumerate(texts, start=1))
    for draft in drafts_of(lines):
        assert check_text(draft.content, kind="fact").text == draft.content
        assert set(draft.messages) <= {line.number for line in lines}


@pytest.mark.parametrize(
    "text",
    [
        *("a" * 100_000, " " * 100_000, '"' * 100_000, "I am a " * 15_000, "so well " * 12_500, "I'm'" * 25_000),
        *("I love " + "a, " * 33_000, "I live in Oslo. " * 6_000, "I\n" * 50_000, "- " * 50_000, "A." * 50_000),
    ],
    ids=lambda text: text[:12],
)
def test_a_hundred_thousand_characters_are_read(text: str) -> None:
    assert len(drafts_of(lines_of(text))) <= 1


# -- the chat model quotes what the memory holds, forgets what it is told to, and invents nothing

TEA = {"id": "7d2c2f3e-6a51-4a4c-9f3c-1f8a1d7f7a10", "category": "preferences", "text": "Ana prefers tea to coffee."}
MESSAGE = {"id": "1", "category": "message", "text": '[message] [2 March 2026] Ana said: "Coffee and tea &amp; milk."'}
ASKED = {"id": "2", "category": "message", "text": '[message] [2 March 2026] Ana said: "Which tea do I drink?"'}
OTHERS = {"id": "3", "category": "message", "text": '[message] [2 March 2026] Bo said: "I drink coffee and tea."'}


@tool
def memory_query(query: str) -> str:
    """Searches."""
    raise AssertionError("the tools are shown to the model, and not called")


@tool
def forget(id: str) -> str:
    """Forgets."""
    raise AssertionError("the tools are shown to the model, and not called")


@tool
def remember(content: str) -> str:
    """Keeps."""
    raise AssertionError("the tools are shown to the model, and not called")


def answer(
    *messages: BaseMessage, tools: Any = (memory_query, forget, remember), searched: str | None = None
) -> AIMessage:
    message = OfflineChat(user="Ana", searched=searched).bind_tools(tools).invoke([*messages])
    assert isinstance(message, AIMessage)
    return message


def calls(message: AIMessage) -> list[tuple[str, Any]]:
    return [(call["name"], call["args"]) for call in message.tool_calls]


def answered(name: str, content: str, *, status: Any = "success") -> tuple[AIMessage, ToolMessage]:
    """A call of an earlier answer, and what came of it."""
    call = {"name": name, "args": {}, "id": "call_9", "type": "tool_call"}
    return AIMessage("", tool_calls=[call]), ToolMessage(content, tool_call_id="call_9", name=name, status=status)


def found(request: str, *rows: dict[str, str], searched: str | None = None) -> AIMessage:
    """What it answers once the memory has answered."""
    return answer(HumanMessage(request), *answered("memory_query", query_answer(rows)), searched=searched)


def said(*texts: str) -> list[dict[str, str]]:
    """Return a search result for each message of Ana, the oldest first."""
    rows: list[dict[str, str]] = []
    for day, text in enumerate(texts, start=1):
        row = {"id": str(day), "category": "message", "text": f'[message] [{day} March 2026] Ana said: "{text}"'}
        rows.append({**row, "dated": f"2026-03-{day:02}T09:00:00Z"})
    return rows


NOTHING_FOUND = f"I have nothing on that: I only quote what you told me. {NOTICE}"


def searches(question: str) -> list[tuple[str, Any]]:
    """The calls that search for a question: in all that is stored, and in memories alone."""
    search = {"query": question, "top_k": 50, "returns": "full"}
    return [("memory_query", search), ("memory_query", {**search, "filters": {"importance_min": 3}})]


@pytest.mark.parametrize(
    ("text", "plain"),
    [("I prefer tea to coffee.", "Noted."), ("Good news today.", "Noted."), ("", "I am here."), ("\x00", "I am here.")],
)
def test_what_is_no_question_calls_no_tool(text: str, plain: str) -> None:
    message = answer(HumanMessage(text))
    assert (message.text, message.tool_calls) == (f"{plain} {NOTICE}", [])


def test_a_question_is_put_to_the_memory_where_there_is_one() -> None:
    question = HumanMessage("What do I drink, tea or coffee?")
    assert calls(answer(question)) == searches(question.text)
    without = answer(question, tools=[forget])
    assert (without.text, without.tool_calls) == (NOTHING_FOUND, [])


@pytest.mark.parametrize(
    ("rows", "text"),
    [
        ([TEA, MESSAGE], f"The closest that I have:\n{TEA['text']}"),
        ([MESSAGE], 'The closest that I have:\nYou told me on 2 March 2026: "Coffee and tea & milk."'),
        ([ASKED], NOTHING_FOUND),
        ([OTHERS], NOTHING_FOUND),
        ([{**TEA, "text": "Ana rows on Sundays."}], NOTHING_FOUND),
        ([], NOTHING_FOUND),
    ],
)
def test_it_quotes_what_the_memory_holds_on_the_question(rows: list[dict[str, str]], text: str) -> None:
    assert found("What do I drink, tea or coffee?", *rows).text == text


def test_of_its_user_it_tells_nothing_that_is_somebody_elses() -> None:
    brother, own = ({**TEA, "text": text} for text in ("Ana's brother lives in Oslo.", "Ana lives in Bergen."))
    assert found("Where do I live?", brother, own).text == "Ana lives in Bergen."


def test_of_two_answers_the_newer_one_comes_first() -> None:
    old = {"id": "4", "category": "message", "text": '[message] [2 May 2026] Ana said: "My rent is 640 euros."'}
    new = {"id": "5", "category": "message", "text": '[message] [1 June 2026] Ana said: "My rent is 700 euros."'}
    rows = [{**old, "dated": "2026-05-02T09:00:00Z"}, {**new, "dated": "2026-06-01T09:00:00Z"}]
    assert "700" in found("What is my rent?", *rows).text.splitlines()[0]


SONS = "I have two sons, Nils and Aksel."
ABOUT_SONS = (
    "What are my sons called?",
    "what are my sons called",
    "What are my sons' names?",
    "How are your sons' names... I mean, what are my sons called?",
)


@pytest.mark.parametrize("question", ABOUT_SONS)
def test_a_question_about_names_quotes_the_message_and_no_earlier_question(question: str) -> None:
    later = [*ABOUT_SONS, "My sons hate peas.", "My sons sleep late.", "We called the plumber.", "Pears. Who has sons?"]
    text = found(question, *said(SONS, *later)).text
    assert (SONS in text, "?" in text, "what are" in text.lower()) == (True, False, False)
    assert "sons" not in found(question, *said(*ABOUT_SONS)).text


def test_the_list_of_all_memories_has_no_question() -> None:
    questions = [*ABOUT_SONS, "Nice weather today, isn't it?"]
    listed = found("What do you know about me?", *said(*questions, SONS, "My boat leaks. Why?"), searched="phrase").text
    assert ("Nils" in listed, "My boat leaks." in listed) == (True, True)
    assert not any(part in listed for part in ("?", "called", "names", "weather"))


def test_a_remark_with_a_question_tag_gets_a_short_answer() -> None:
    remark = HumanMessage("Nice weather today, isn't it?")
    assert calls(answer(remark, searched="follow_up")) == []
    assert (calls(answer(remark)), len(answer(remark, AIMessage(NOTICE), remark).text) < 20) == ([], True)
    assert calls(answer(HumanMessage("Lea hates nuts, doesn't she?"), searched="known_word"))


def test_an_answer_that_cannot_be_read_is_no_knowledge() -> None:
    for content in ("", "[", "Refused: x.", "[[[["):
        message = answer(HumanMessage("What do I drink?"), *answered("memory_query", content))
        assert (message.text, message.tool_calls) == (NOTHING_FOUND, [])


@pytest.mark.parametrize(
    ("order", "memory", "is_meant"),
    [
        ("Please forget that I prefer tea to coffee.", TEA["text"], True),
        ("Forget that my brother lives in Oslo.", "Ana's brother Jonas lives in Oslo.", True),
        ("forget about Jonas", "Ana's brother Jonas lives in Oslo.", True),
        ("Forget that I don't like tea.", "Ana does not like tea.", True),
        ("Vergiss bitte Jonas", "Ana's brother Jonas lives in Oslo.", True),
        ("Forget that my brother prefers tea.", TEA["text"], False),
        ("Forget that I live in Oslo.", "Ana's brother Jonas lives in Oslo.", False),
        ("Forget that I have two cats.", "Ana has three cats.", False),
        ("Forget that my door code is 4711.", "Ana's door code is 4712.", False),
        ("Forget that I don't like tea.", "Ana likes tea.", False),
        ("Forget everything about me.", TEA["text"], False),
    ],
)
def test_it_forgets_the_memory_that_says_all_of_it_and_no_other(order: str, memory: str, is_meant: bool) -> None:
    message = found(order, MESSAGE, {**TEA, "text": f"[preferences] [2 March 2026] {memory}"})
    assert calls(message) == ([("forget", {"id": TEA["id"]})] if is_meant else [])
    assert message.text == ("" if is_meant else "I remember nothing like that.")


def test_of_a_message_it_says_that_it_cannot_forget_it() -> None:
    text = found("Forget the coffee.", MESSAGE).text
    assert ("Coffee and tea & milk." in text, "mnemic erase" in text) == (True, True)


@pytest.mark.parametrize(
    ("order", "kept"),
    [
        ("Please remember that my passport expires in 2031.", "my passport expires in 2031"),
        ("Don't forget that the key is under the mat", "the key is under the mat"),
        ("Merk dir bitte, dass Bolota am 3. Mai Geburtstag hat.", "Bolota am 3. Mai Geburtstag hat"),
        ("Por favor, recuerda que mi vuelo sale a las 7", "mi vuelo sale a las 7"),
        ("N'oublie pas que le chat dort dehors.", "le chat dort dehors"),
        ('Remember that "Ithaca" is my password hint.', "is my password hint"),
    ],
)
def test_what_it_is_asked_to_keep_becomes_a_memory_in_the_users_words(order: str, kept: str) -> None:
    ((name, arguments),) = calls(answer(HumanMessage(order)))
    assert (name, kept in arguments["content"], "Ana" in arguments["content"]) == ("remember", True, True)
    assert check_text(arguments["content"], kind="fact").text == arguments["content"]


@pytest.mark.parametrize("order", ["Please remember that I live in Porto.", "Do you remember the key?", "Remember me?"])
def test_what_formation_stores_and_what_only_asks_is_not_kept_twice(order: str) -> None:
    assert "remember" not in [name for name, _ in calls(answer(HumanMessage(order)))]
    if not order.endswith("?"):
        assert facts_of(order) == ["Mara lives in Porto."]


@pytest.mark.parametrize(
    ("name", "status", "text"),
    [
        ("forget", "success", "It is forgotten."),
        ("forget", "error", "I kept it."),
        ("remember", "success", "I will remember that."),
        ("remember", "error", "I could not make a memory of that; your message itself is kept."),
    ],
)
def test_it_says_what_became_of_it(name: str, status: str, text: str) -> None:
    assert answer(HumanMessage("Forget my tea."), *answered(name, "done", status=status)).text == text


async def test_it_streams_and_its_calls_can_be_sent_on() -> None:
    model = OfflineChat().bind_tools([memory_query])
    streamed = "".join([str(chunk.text) async for chunk in model.astream([HumanMessage("I row.")])])
    assert streamed == f"I am here. {NOTICE}"
    message = await model.ainvoke([HumanMessage("What do I row?")])
    assert json.loads(json.dumps(calls(message))) == [[*search] for search in searches("What do I row?")]
