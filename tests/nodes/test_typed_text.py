"""Text that a person typed is formed whatever its shape and language; a refused draft costs itself alone."""

import pytest

from mnemic.service.memory import Mnemic
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
    turns,
)
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
        assert run.refused == {}, shape


async def test_so_it_is_by_a_single_call(memory: Mnemic, model: LoopbackModel) -> None:
    await memory.admin.configure_agent(ANA, extraction="single", user_threshold=9)
    model.answer(OBSERVATIONS, observations(*map(observation, KNOWN)))
    await memory.observe(ANA, turns(SHAPES["lines"]))
    await memory.form(ANA)

    assert await contents(memory, ANA, "reflection") == sorted(KNOWN)


# -- refused drafts

GOOD = fact("Ana keeps bees.")
REFUSED = [fact("I keep bees."), fact("We moved to Ghent.", 2), fact("Ana lives in Oslo.", 3, category="profile")]
MOVED = "We moved to Ghent over the summer."


async def test_refused_drafts_cost_themselves_and_their_messages_stay_searchable(
    memory: Mnemic, model: LoopbackModel
) -> None:
    model.answer(FACTS, facts(GOOD, *REFUSED))
    await memory.observe(ANA, turns("I keep bees.", MOVED, "assistant: You live in Oslo."))
    (run,) = await memory.form(ANA)

    assert asked(model).count(FACTS) == 2  # most of the answer was refused, so that it was repaired once
    assert await contents(memory, ANA) == [GOOD.content]
    assert run.refused == {"first_person": 2, "not_own_words": 1}
    assert (run.pending, run.uncovered_messages) == (0, 2)
    assert MOVED in [result.content for result in await memory.query(ANA, "Who moved to Ghent?")]


async def test_empty_repair_keeps_the_good_drafts_of_the_first_answer(memory: Mnemic, model: LoopbackModel) -> None:
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
    await memory.admin.form_later(ANA)
    await memory.form(ANA)

    (record,) = [record for record in caplog.records if "2 first_person" in record.getMessage()]
    assert vars(record)["session_id"] == "s1"
    assert "bees" not in record.getMessage()


async def test_drafts_beyond_the_limit_are_counted(memory: Mnemic, model: LoopbackModel) -> None:
    names = ["Nora", "Olaf", "Pia", "Quinn", "Rosa", "Sven"]
    model.answer(FACTS, facts(*(fact(f"Ana knows {name} from school.") for name in names)))
    await memory.observe(ANA, turns(f"I know {', '.join(names)} from school"))
    (run,) = await memory.form(ANA)

    assert (run.stored, run.refused) == ({"fact": 2}, {"over_limit": 4})


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
        assert run.refused == ({problem: 1} if problem else {}), said
        assert (draft.content in await contents(memory, who)) == (problem is None), said


async def test_a_repair_names_what_is_wrong_with_a_number(memory: Mnemic, model: LoopbackModel) -> None:
    model.answer(FACTS, facts(fact("Ana keeps 4471 bees.")), facts(GOOD))
    await memory.observe(ANA, turns("I keep bees."))
    await memory.form(ANA)

    assert "number" in last_prompt(model, FACTS).rpartition("could not be used")[2]
    assert await contents(memory, ANA) == [GOOD.content]
