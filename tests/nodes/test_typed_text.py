"""Text that a person typed is formed whatever its shape and language; a refused draft costs itself alone."""

import random
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import pytest

from mnemic.prompts.extraction import FactDraft
from mnemic.service.memory import Mnemic
from mnemic.state.graphs import FormationOutput
from mnemic.state.identity import Identity
from tests.support.agents import agent, is_agent
from tests.support.loopback import Answer, LoopbackModel
from tests.support.scripted import (
    FACTS,
    OBSERVATIONS,
    asked,
    contents,
    fact,
    facts,
    last_prompt,
    observation,
    observations,
    scripted_memory,
    scripted_model,
    turns,
)
from tests.support.server import Clone
from tests.support.worlds import identity

ANA = identity("ana", session="s1")

# -- shapes

LINES = (
    "A few things about me:",
    "I am Ana, I live in Porto, in the old house of my grandmother by the river, where I never found a parking place.",
    "I am allergic to walnuts, which I learned at a wedding in the worst way that there is, so please mind that.",
    "I keep bees behind the harbour office, and I sell the honey on Saturdays at the market near the bridge.",
    "I work as a bookbinder, mostly on old registers of parishes that were left in a damp cellar for a hundred years.",
    "My sister Rita teaches physics in Braga, and she calls me every single Sunday evening, whatever happens.",
    "There is much more to tell.",
    "It can wait.",
    "Bye for now!",
)
KNOWN = (
    "Ana lives in Porto.",
    "Ana is allergic to walnuts.",
    "Ana keeps bees behind the harbour office.",
    "Ana works as a bookbinder.",
    "Ana's sister Rita teaches physics in Braga.",
)
SHAPES = {
    "lines": "\n".join(LINES),
    "one paragraph": " ".join(LINES),
    "a list": "\n".join(f"- {line}" for line in LINES),
    "beside code": "\n".join([*LINES, "```", *["rows = hives.read()"] * 12, "```"]),
    "beside quotes": "\n".join([*LINES, *["> You never write to me."] * 12]),
    "very long": "\n".join([*LINES, "The river was high again this morning. " * 110]),
    "forwarded": "\n".join(["-------- Forwarded message", *LINES]),
}


async def test_what_a_user_typed_is_formed_whatever_its_shape(memory: Mnemic, model: LoopbackModel) -> None:
    model.answer(FACTS, facts(*(fact(text, category="profile") for text in KNOWN)))
    for shape, text in SHAPES.items():
        who = identity("ana", agent=shape, session="s1")
        await memory.observe(who, turns(text))
        (run,) = await memory.form(who)
        assert await contents(memory, who) == sorted(KNOWN), shape
        assert run["refused"] == {}, shape


async def test_so_it_is_by_a_single_call(memory: Mnemic, model: LoopbackModel) -> None:
    await memory.configure_agent(ANA, extraction="single", user_threshold=9)
    model.answer(OBSERVATIONS, observations(*map(observation, KNOWN)))
    await memory.observe(ANA, turns(SHAPES["lines"]))
    await memory.form(ANA)

    assert await contents(memory, ANA, "reflection") == sorted(KNOWN)


# -- refused drafts

GOOD = fact("Ana keeps bees.")
REFUSED = [fact("I keep bees."), fact("We moved to Ghent.", 2), fact("Ana lives in Oslo.", 3, category="profile")]
MOVED = "We moved to Ghent over the summer."


async def test_refused_drafts_cost_themselves_alone_and_what_they_cite_stays_searchable(
    memory: Mnemic, model: LoopbackModel
) -> None:
    model.answer(FACTS, facts(GOOD, *REFUSED))
    await memory.observe(ANA, turns("I keep bees.", MOVED, "assistant: You live in Oslo."))
    (run,) = await memory.form(ANA)

    assert asked(model).count(FACTS) == 2  # most of the answer was refused, so that it was repaired once
    assert await contents(memory, ANA) == [GOOD.content]
    assert run["refused"] == {"first_person": 2, "not_own_words": 1}
    assert (run["pending"], run["unaccounted"]) == (0, 2)
    assert MOVED in [result.content for result in await memory.query(ANA, "Who moved to Ghent?")]


async def test_a_repair_that_brings_nothing_leaves_the_good_drafts_of_the_first_answer(
    memory: Mnemic, model: LoopbackModel
) -> None:
    repairs: dict[str, Answer] = {"broken": "{", "all refused": facts(*REFUSED)}
    for name, repair in repairs.items():
        who = identity("ana", agent=name, session="s1")
        model.answer(FACTS, facts(GOOD, *REFUSED), repair)
        await memory.observe(who, turns("I keep bees.", MOVED, "assistant: You live in Oslo."))
        await memory.form(who)
        assert await contents(memory, who) == [GOOD.content], name


async def test_the_log_of_a_formation_in_the_background_counts_refused_drafts(
    memory: Mnemic, model: LoopbackModel, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "mnemic")
    model.answer(FACTS, facts(GOOD, *REFUSED))
    await memory.observe(ANA, turns("I keep bees.", MOVED, "assistant: You live in Oslo.", *["Well."] * 45))
    await memory.form_later(ANA)
    await memory.form(ANA)

    (record,) = [record for record in caplog.records if "2 first_person" in record.getMessage()]
    assert vars(record)["session_id"] == "s1"
    assert "bees" not in record.getMessage()


async def test_drafts_beyond_the_limit_are_counted(memory: Mnemic, model: LoopbackModel) -> None:
    names = ["Nora", "Olaf", "Pia", "Quinn", "Rosa", "Sven"]
    model.answer(FACTS, facts(*(fact(f"Ana knows {name} from school.") for name in names)))
    await memory.observe(ANA, turns(f"I know {', '.join(names)} from school"))
    (run,) = await memory.form(ANA)

    assert (run["stored"], run["refused"]) == ({"fact": 2}, {"over_limit": 4})


# -- names and numbers

PLACE = "The backup is in /srv/harbor since 2019."
TABLE = "Ana has a table at Lumen for 20:30."
#: What was said, the draft with the messages that it cites, and why it is refused.
TAKEN_UP = [
    (["I keep bees.", f"assistant: {PLACE}", "thanks"], fact(PLACE, 3), "not_own_words"),
    (["I keep bees.", f"assistant: {PLACE}", "thank you so much!"], fact(PLACE, 2, 3), "not_own_words"),
    (["我养蜂。", "assistant: 备份自2019年起在 /srv/harbor 中。", "谢谢你"], fact(PLACE, 3), "not_own_words"),
    (["I keep bees.", f"assistant: {PLACE}", "I also keep goats in the hills."], fact(PLACE, 1), "not_own_words"),
    (["Hi.", "assistant: Is the backup in /srv/harbor, since 2019?", "yes, exactly"], fact(PLACE, 2, 3), None),
    (["Hi.", f"assistant: {PLACE}", "ok, then the backup needs a bigger disk"], fact(PLACE, 2, 3), None),
    (["Bye.", "assistant: Soll ich im Lumen für 20:30 reservieren?", "Ja, bitte"], fact(TABLE, 3), None),
    (["A table?", "assistant: Lumen has one at 20:30, the Anker at 19:00.",
      "The first one, near the window, for my mother dislikes noise"], fact(TABLE, 2, 3), None),
    (["I keep bees."], fact("Ana keeps 4471 bees."), "not_in_conversation"),
    (["I pay 1 250,50 € for the flat."], fact("Ana pays €1,250.50 for the flat."), None),
    (["I turned seventy-four; the flat costs ٩٣٥ euros."], fact("Ana is 74 and pays 935 euros for the flat."), None),
    (["I've lived here for seven years; the train leaves at half past five pm."],
     fact("Ana has lived here since 2019, and takes the train at 17:30."), None),
    (["蜂箱花了三百二十五元。"], fact("Ana paid 325 yuan for the hive."), None),
]  # fmt: skip


async def test_what_only_others_said_is_a_users_fact_once_that_user_takes_it_up(
    memory: Mnemic, model: LoopbackModel
) -> None:
    for number, (said, draft, problem) in enumerate(TAKEN_UP):
        who = identity("ana", agent=f"case {number}", session="s1")
        model.answer(FACTS, facts(draft, fact("Ana is a user.")))
        await memory.observe(who, turns(*said))
        (run,) = await memory.form(who)
        assert run["refused"] == ({problem: 1} if problem else {}), said
        assert (draft.content in await contents(memory, who)) == (problem is None), said


async def test_a_repair_names_what_is_wrong_with_a_number(memory: Mnemic, model: LoopbackModel) -> None:
    model.answer(FACTS, facts(fact("Ana keeps 4471 bees.")), facts(GOOD))
    await memory.observe(ANA, turns("I keep bees."))
    await memory.form(ANA)

    assert "number" in last_prompt(model, FACTS).rpartition("could not be used")[2]
    assert await contents(memory, ANA) == [GOOD.content]


# -- two hundred conversations


class Language(NamedTuple):
    """How one language says some facts."""

    #: What is typed, and the fact that follows from it.
    sentences: Sequence[tuple[str, str]]
    places: Sequence[str]
    #: Says nothing that is worth remembering.
    filler: str
    thanks: str


LANGUAGES = {
    "English": Language(
        [
            ("I keep {n} hives in {place}.", "Ana keeps {n} hives in {place}."),
            ("My sister moved to {place} with {n} books.", "Ana's sister moved to {place} with {n} books."),
            ("I paid {n} euros for the boat from {place}.", "Ana paid {n} euros for the boat from {place}."),
            ("I ran {n} kilometres around {place}.", "Ana ran {n} kilometres around {place}."),
        ],
        ["Porto", "Ghent", "Bergen", "Cluj", "Aarhus", "Lyon"],
        "The river was high again and the wind came from the west. ",
        "You are welcome.",
    ),
    "German": Language(
        [
            ("Ich habe {n} Bienenstöcke in {place}.", "Ana hat {n} Bienenstöcke in {place}."),
            ("Meine Schwester zog mit {n} Büchern nach {place}.", "Anas Schwester zog mit {n} Büchern nach {place}."),
            ("Das Boot aus {place} hat {n} Euro gekostet.", "Anas Boot aus {place} hat {n} Euro gekostet."),
            ("Ich bin {n} Kilometer um {place} gelaufen.", "Ana ist {n} Kilometer um {place} gelaufen."),
        ],
        ["München", "Köln", "Gent", "Zürich", "Görlitz", "Wien"],
        "Der Fluss war wieder hoch und der Wind kam von Westen. ",
        "Gern geschehen.",
    ),
    "Portuguese": Language(
        [
            ("Tenho {n} colmeias em {place}.", "Ana tem {n} colmeias em {place}."),
            ("A minha irmã foi para {place} com {n} livros.", "A irmã de Ana foi para {place} com {n} livros."),
            ("O barco de {place} custou {n} euros.", "O barco de Ana, de {place}, custou {n} euros."),
            ("Corri {n} quilómetros à volta de {place}.", "Ana correu {n} quilómetros à volta de {place}."),
        ],
        ["Lisboa", "Évora", "Braga", "São Paulo", "Setúbal", "Faro"],
        "O rio estava alto outra vez e o vento vinha de oeste. ",
        "De nada.",
    ),
    "Chinese": Language(
        [
            ("我在{place}有{n}个蜂箱。", "安娜在{place}有{n}个蜂箱。"),
            ("我妹妹带着{n}本书搬到了{place}。", "安娜的妹妹带着{n}本书搬到了{place}。"),
            ("我花{n}欧元买了{place}的船。", "安娜花{n}欧元买了{place}的船。"),
            ("我绕着{place}跑了{n}公里。", "安娜绕着{place}跑了{n}公里。"),
        ],
        ["上海", "北京", "杭州", "成都", "广州", "西安"],
        "河水又涨了，风从西边吹来。",
        "不客气。",
    ),
    "Arabic": Language(
        [
            ("لدي {n} خلية نحل في {place}.", "لدى آنا {n} خلية نحل في {place}."),
            ("انتقلت أختي إلى {place} مع {n} كتاب.", "انتقلت أخت آنا إلى {place} مع {n} كتاب."),
            ("دفعت {n} يورو ثمن القارب من {place}.", "دفعت آنا {n} يورو ثمن القارب من {place}."),
            ("ركضت {n} كيلومتر حول {place}.", "ركضت آنا {n} كيلومتر حول {place}."),
        ],
        ["القاهرة", "دمشق", "بيروت", "تونس", "الرباط", "عمان"],
        "كان النهر مرتفعا مرة أخرى وجاءت الرياح من الغرب. ",
        "على الرحب والسعة.",
    ),
}


def one_line(said: list[str], _: Language) -> str:
    return " ".join(said)


def ten_lines(said: list[str], language: Language) -> str:
    return "\n".join([*said, *[language.filler] * (10 - len(said))])


def a_list(said: list[str], _: Language) -> str:
    return "\n".join(f"{number}. {text}" for number, text in enumerate(said, start=1))


def beside_code(said: list[str], _: Language) -> str:
    return "\n".join([*said, "```python", *["rows = read(table)"] * 40, "```"])


def beside_quotes(said: list[str], language: Language) -> str:
    return "\n".join([*[f"> {language.filler}"] * 20, "", *said])


def five_thousand_characters(said: list[str], language: Language) -> str:
    before = language.filler * (4000 // len(language.filler))
    behind = language.filler * (1000 // len(language.filler) + 1)
    return f"{before}{' '.join(said)} {behind}"


TYPED = (one_line, ten_lines, a_list, beside_code, beside_quotes, five_thousand_characters)


class Conversation(NamedTuple):
    """What is said, and the facts that a careful reader writes down of it."""

    name: str
    messages: list[str]
    drafts: list[FactDraft]


def conversations(number: int) -> list[Conversation]:
    """Of every shape in every language."""
    chance = random.Random(7)
    return [_conversation(chance, place) for place in range(number)]


def _conversation(chance: random.Random, place: int) -> Conversation:
    name, language = [*LANGUAGES.items()][place % len(LANGUAGES)]
    shape = TYPED[place // len(LANGUAGES) % len(TYPED)]
    messages: list[str] = []
    drafts: list[FactDraft] = []
    numbers = iter(chance.sample(range(13, 9_999), 40))
    for _ in range(chance.randint(1, 3)):
        said = []
        for typed, known in chance.sample(language.sentences, chance.randint(1, 4)):
            values = {"n": next(numbers), "place": chance.choice(language.places)}
            said.append(typed.format(**values))
            drafts.append(fact(known.format(**values), len(messages) + 1, category="profile"))
        messages += [shape(said, language), f"assistant: {language.thanks}"]
    return Conversation(f"{place} {name} {shape.__name__}", messages, drafts)


def lost(talk: Conversation, held: Sequence[str], runs: Sequence[FormationOutput]) -> int:
    """Facts that are neither stored nor named with a reason."""
    missing = [draft.content for draft in talk.drafts if draft.content not in held]
    refused = sum((Counter(run["refused"]) for run in runs), Counter[str]())
    return len(missing) - refused.total()


@pytest.mark.thorough
@pytest.mark.parametrize(("mode", "number"), [("batch", 200), ("per_turn", 60)])
async def test_of_two_hundred_conversations_every_fact_is_stored_or_named(
    clean_db: Clone, mode: str, number: int
) -> None:
    with scripted_model() as model:
        async with scripted_memory(clean_db, model, formation_mode=mode, keep_messages="none") as memory:
            for talk in conversations(number):
                who = identity("ana", agent=talk.name, session=talk.name)
                runs = await formed(memory, model, who, talk, by_turn=mode != "batch")
                held = await contents(memory, who)
                assert lost(talk, held, runs) == 0, talk
                if mode == "batch":
                    assert sorted(held) == sorted(draft.content for draft in talk.drafts), talk


async def formed(
    memory: Mnemic, model: LoopbackModel, who: Identity, talk: Conversation, *, by_turn: bool
) -> list[FormationOutput]:
    """All messages in one run, or each turn in a run of its own, in which the first line is the user's."""
    await memory.observe(who, turns(*talk.messages))
    parts = [talk.drafts]
    if by_turn:
        parts = []
        for number in range(1, len(talk.messages), 2):
            of_turn = [draft for draft in talk.drafts if number in draft.messages]
            parts.append([draft.model_copy(update={"messages": [1]}) for draft in of_turn])
    model.answer(FACTS, *(facts(*drafts) for drafts in parts))
    return await memory.form(who)


@pytest.mark.thorough
async def test_what_is_typed_to_an_agent_with_memory_is_formed_in_every_shape_and_language(
    memory: Mnemic, model: LoopbackModel
) -> None:
    model.answer(is_agent, "Well.")
    host = agent(memory, model)
    for talk in conversations(30):
        who = identity("ana", agent=talk.name, session=talk.name)
        typed = [text for text in talk.messages if not text.startswith("assistant: ")]
        for text in typed:
            thread = {"configurable": {"thread_id": talk.name}}
            await host.ainvoke({"messages": [{"role": "user", "content": text}]}, thread, context=who)
        model.answer(FACTS, facts(*talk.drafts))
        await memory.form(who)
        assert await contents(memory, who) == sorted(draft.content for draft in talk.drafts), talk
