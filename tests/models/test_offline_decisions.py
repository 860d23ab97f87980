"""Without a model: what a new fact closes, everyday conversations, the living text, and merges."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.corpus.everyday import Everyday, Held, conversations, held_after
from mnemic import Mnemic
from mnemic.memory.text.kept import missing_details
from mnemic.memory.text.shape import count_tokens
from mnemic.models.offline import steps as offline
from mnemic.prompts.consolidation.write_consolidation import WriteConsolidationInput
from mnemic.prompts.formation.decide import DecideInput, Decision, ShownFact
from mnemic.prompts.refinement.refine import RefineInput
from mnemic.state.records import StaleMemory
from mnemic.state.refinement import MAX_CALLS, Budget, LedgerEntry, ToolCall, Turn
from mnemic.state.settings import Settings
from tests.support.scripted import turns
from tests.support.server import Clone
from tests.support.worlds import entry, identity, ledger, remembered, tokens_of

NOW = datetime(2026, 3, 4, tzinfo=UTC)


def decided(new: str, *known: str, known_later: bool = False) -> Decision:
    dated = NOW + timedelta(days=1 if known_later else -30)
    shown = tuple(ShownFact(number, content, dated) for number, content in enumerate(known, start=2))
    return offline.decide(DecideInput(facts=(ShownFact(1, new, NOW, shown),))).decisions[0]


CLOSING = [
    ("Mara lives in Braga.", "Mara lives in Porto."),
    ("Mara no longer lives in Porto.", "Mara lives in Porto."),
    ("Mara lives in Porto.", "Mara no longer lives in Porto."),
    ("Mara works for Vexa.", "Mara works for Nordlys."),
    ("Mara no longer works for Nordlys.", "Mara works for Nordlys."),
    ("Mara is vegan.", "Mara is vegetarian."),
    ("Mara is 35 years old.", "Mara is 34 years old."),
    ("Mara has three cats.", "Mara has two cats."),
    ("Mara's favourite colour is green.", "Mara's favourite colour is blue."),
    ("Mara no longer plays olives.", "Mara plays olives."),
]


@pytest.mark.parametrize(("new", "old"), CLOSING)
def test_new_value_or_end_of_an_attribute_replaces_the_old_fact(new: str, old: str) -> None:
    assert decided(new, "Mara plays jazz.", old) == Decision(fact=1, reason="", event="DELETE", known=[3], text=new)
    assert decided(new, old, known_later=True).event == "ADD"


BESIDE = [
    ("Mara lives in Braga.", "Mara's sister Rita lives in Lisbon."),
    ("Mara lives in Braga.", "Teo lives in Porto."),
    ("Mara lives in Braga.", "Mara lives in Porto with Teo."),
    ("Mara lives in Braga.", "Mara no longer lives in Porto."),
    ("Mara no longer lives in Braga.", "Mara lives in Porto."),
    ("Mara is allergic to nuts.", "Mara is allergic to cats."),
    ("Mara plays tea.", "Mara plays coffee."),
    ("Mara has three cats.", "Mara has two dogs."),
    ("Mara's favourite food is pasta.", "Mara's favourite colour is blue."),
    ("Mara's sister is called Rita.", "Mara's sister is called Ana."),
    ("Mara works as a nurse.", "Mara works for Vexa."),
    ("The harbor opens at nine.", "The harbor opens at ten."),
]


@pytest.mark.parametrize(("new", "old"), BESIDE)
def test_everything_else_stands_side_by_side(new: str, old: str) -> None:
    assert decided(new, old) == Decision(fact=1, reason="", event="ADD", known=[], text=new)


@pytest.mark.parametrize("text", ["Mara lives in Braga.", "The harbor opens at nine."])
def test_what_is_known_is_not_added_again(text: str) -> None:
    assert decided(text, "Mara plays tea.", text) == Decision(fact=1, reason="", event="NONE", known=[3], text="")


def test_every_contradicted_fact_is_named_and_every_fact_decided_on() -> None:
    assert decided("Mara lives in Braga.", "Mara lives in Oslo.", "Mara lives in Rome.").known == [2, 3]
    facts = tuple(ShownFact(number, f"Mara has {number} cats.", NOW, ()) for number in (5, 3, 9))
    assert [decision.fact for decision in offline.decide(DecideInput(facts=facts)).decisions] == [5, 3, 9]


def written(current: str, *reflections: str, word_limit: int = 400) -> str:
    waiting = [*map(remembered, reflections)]
    given_ = WriteConsolidationInput("user", "Mara", current, waiting, word_limit, guidance="", today=NOW.date())
    return offline.write_consolidation(given_).text


@pytest.mark.parametrize(
    ("current", "reflections", "text"),
    [
        ("", ["Mara is shy."], "Mara is shy."),
        ("Mara is shy.\nMara rows.", ["Mara sees Dr. Lind."], "Mara is shy. Mara rows. Mara sees Dr. Lind."),
        ("Mara is shy.", ["Mara is shy.", "Mara rows."], "Mara is shy. Mara rows."),
        ("Mara is 34 years old. Mara rows.", ["Mara is 35 years old."], "Mara rows. Mara is 35 years old."),
        ("Mara lives in Porto.", ["Rita lives in Rome."], "Mara lives in Porto. Rita lives in Rome."),
    ],
)
def test_a_consolidation_lists_what_holds_each_once(current: str, reflections: list[str], text: str) -> None:
    assert written(current, *reflections) == text


def test_a_consolidation_lists_nothing_that_has_ended() -> None:
    had = remembered("Plans for Mara allow for this: Mara is allergic to peanuts.")
    ended = StaleMemory(had.id, "user:mara", had.content, True, UUID(int=9), "Mara is allergic to peanuts.", NOW, None)
    given_ = WriteConsolidationInput("user", "Mara", "Mara rows.", [had], 400, "", NOW.date(), stale=[ended])
    assert offline.write_consolidation(given_).text == "Mara rows."


@pytest.mark.parametrize(("limit", "text"), [(1, ""), (3, "Mara knits."), (4, "Mara rows. Mara knits."), (6, "all")])
def test_over_the_limit_the_newest_whole_sentences_stay(limit: int, text: str) -> None:
    whole = "Mara sings. Mara rows. Mara knits."
    assert written("Mara sings.", "Mara rows.", "Mara knits.", word_limit=limit) == (whole if text == "all" else text)


@pytest.mark.thorough
@given(st.lists(st.text(max_size=60), max_size=8), st.integers(min_value=1, max_value=60))
def test_a_consolidation_keeps_the_limit_and_invents_nothing(contents: list[str], limit: int) -> None:
    text = written(" ".join(contents[:2]), *contents[2:], word_limit=limit)
    assert len(text.split()) <= limit
    assert set(text.split()) <= set(" ".join(contents).split())


# -- a refinement

GERMAN, FRENCH, GREEK = "Mara speaks German.", "Mara speaks French.", "Mara speaks Greek."


def given_of(entries: Sequence[LedgerEntry], target: int) -> RefineInput:
    budget = Budget(tokens_of(entries), target, protected=0, most_protected=target // 4, removable=0, removed=0)
    return RefineInput("mara", "", NOW.date(), "agent", "mara", budget, batch=1, batches=1, ledger=tuple(entries))


def calls_of(step_input: RefineInput, answer: str = "Done.") -> list[ToolCall]:
    """The calls of turn after turn until there is none any more; a refiner that loops fails here."""
    taken: list[Turn] = []
    for _ in range(100):
        turn = offline.refine(step_input._replace(turns=tuple(taken)))
        assert len(turn.calls) <= MAX_CALLS
        if not turn.calls:
            return [call for turn in taken for call in turn.calls]
        taken.append(Turn(calls=tuple(call._replace(answer=answer) for call in turn.calls)))
    raise AssertionError("it never ends")


def merges_of(*contents: str, target: int = 1) -> list[Any]:
    """The merges of a core memory, and the completion behind them."""
    *merges, last = calls_of(given_of(ledger(*contents), target))
    assert last.name == "complete_refinement"
    assert {call.name for call in merges} <= {"consolidate_memories"}
    return [call.arguments for call in merges]


def test_values_of_one_attribute_become_one_sentence() -> None:
    assert merges_of(GERMAN, "Mara plays jazz.", FRENCH, GREEK) == [
        {"ids_to_merge": [1, 3, 4], "new_content": "Mara speaks German, French and Greek."}
    ]
    assert merges_of(
        "Mara wants the assistant to never use emojis.", "Mara wants the assistant to never mention work."
    ) == [{"ids_to_merge": [1, 2], "new_content": "Mara wants the assistant to never use emojis and mention work."}]


@pytest.mark.parametrize(
    "contents",
    [
        (GERMAN, "Teo speaks French."),
        ("Mara lives in Porto.", "Mara lives in Braga."),
        ("Mara plays tea.", "Mara no longer plays coffee."),
        ("Mara's sister is called Rita.", "Mara's brother is called Teo."),
        ("Mara paints old boats.", "Mara paints old boats in Oslo."),
    ],
)
def test_what_the_table_does_not_put_together_stays(contents: tuple[str, ...]) -> None:
    assert merges_of(*contents) == []


@pytest.mark.parametrize(
    "other", [{"protected": True}, {"private": True}, {"subject_user_id": "teo"}, {"kind": "consolidation"}]
)
def test_what_may_not_be_merged_is_left_alone(other: dict[str, Any]) -> None:
    (call,) = calls_of(given_of([entry(1, GERMAN), entry(2, FRENCH, **other)], 1))
    assert call.name == "complete_refinement"


def test_no_detail_is_lost_and_it_stops_at_the_target() -> None:
    names = [f"K{a}{b}" for a in "aeiou" for b in "lmnrst"]
    contents = [f"Mara's {kin} is called {name}." for name in names for kin in ("aunt", "uncle")]
    merges = merges_of(*contents)
    assert len(merges) == 2
    for merge in merges:
        sources = [contents[handle - 1] for handle in merge["ids_to_merge"]]
        assert missing_details(sources, merge["new_content"]) == ()
        assert count_tokens(merge["new_content"]) < sum(map(count_tokens, sources))
    assert len(merges_of(*contents, target=tokens_of(ledger(*contents)) - 1)) == 1
    assert merges_of(*contents, target=tokens_of(ledger(*contents))) == []


def test_refused_draft_is_not_repeated_and_only_the_last_batch_completes() -> None:
    step_input = given_of(ledger(GERMAN, FRENCH), 1)
    assert [call.name for call in calls_of(step_input, "Refused: it is protected.")] == [
        "consolidate_memories",
        "complete_refinement",
    ]
    assert [call.name for call in calls_of(step_input._replace(batches=2))] == ["consolidate_memories"]


# -- sixty everyday conversations: nothing wrong is held, and nothing right is closed

everyday = pytest.mark.parametrize(
    "conversation", [pytest.param(conversation, id=conversation.id) for conversation in conversations()]
)


@everyday
def test_of_a_whole_conversation_nothing_wrong_is_remembered(conversation: Everyday) -> None:
    held = held_after([conversation.said])
    assert (conversation.wrong(held), conversation.outdated(held)) == ([], [])


@everyday
def test_formation_by_single_messages_remembers_only_facts_that_stay_open(
    conversation: Everyday,
) -> None:
    held = held_after([[text] for text in conversation.said])
    assert set(conversation.wrong(held)) <= set(conversation.outdated(held))


def test_the_check_sees_what_is_wrong() -> None:
    (moved,) = (conversation for conversation in conversations() if conversation.id == "moved-to-braga")
    assert moved.wrong(Held(["Ana lives in Lisbon."], [])) == ["Ana lives in Lisbon."]
    assert moved.wrong(Held(["Ana lives in Braga."], ["Ana works at a dental clinic."])) != []
    assert held_after([[text] for text in moved.said]).closed == ["Ana lives in Lisbon."]


@pytest.mark.parametrize("together", [True, False])
async def test_a_sister_stays_where_she_is_and_a_move_closes_the_home_before(clean_db: Clone, together: bool) -> None:
    texts = ["I live in Porto.", "I have a sister called Rita who lives in Lisbon.", "I moved to Braga."]
    ana = identity("ana", session="s1")
    settings: dict[str, Any] = {"database_url": clean_db.service_dsn}
    async with Mnemic.open(settings=Settings(**settings)) as memory:
        for minutes, batch in enumerate([texts] if together else [[text] for text in texts]):
            await memory.observe(ana, turns(*batch, minutes=10 * minutes))
            await memory.form(ana)
        facts = await memory.memories(ana, ["fact"], with_closed=True)
        found = await memory.query(ana, "Where does Rita live?")
    assert [fact.content for fact in facts if fact.state == "active"] == ["Ana lives in Braga."]
    assert [fact.content for fact in facts if fact.state != "active"] == ([] if together else ["Ana lives in Porto."])
    assert any("Lisbon" in item.content for item in found)
