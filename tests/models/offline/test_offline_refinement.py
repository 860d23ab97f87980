"""The offline refiner shortens a core memory by calls that the refinement tools take, and loses no detail."""

from collections.abc import Iterator, Sequence
from itertools import cycle, product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mnemic.models import offline
from mnemic.models.offline.refine_cuts import remarks
from mnemic.policy.refinement.limits import lost_memories
from mnemic.policy.text.degenerate import is_degenerate
from mnemic.policy.text.hygiene import clean_text
from mnemic.policy.text.retention import missing_details
from mnemic.policy.text.tokens import count_tokens
from mnemic.prompts.refine import RefineInput
from mnemic.state.refinement import Budget, LedgerEntry, ToolCall, Turn
from tests.support.ledgers import entry, ledger, tokens_of

REFUSED = "Refused: it is protected."
ODD = (
    "",
    "x",
    "Ok",
    "🙂🙂 👩‍👩‍👧",
    "Mara\n\n- likes: tea\n- hates: coffee\n",
    "Mara isst keine Nüsse und wohnt in der Stadt, die sie so mag.",
    "Mara va a la playa a las 9 y no come carne.",
    "日本語のメモ。マラは東京に住んでいます。",
    "def run(a, b): return a and b  # the answer is 42",
    'Mara said: "the end is a beginning" and left, laughing.',
    "Mara " * 1600,
    "a" * 8192,
    "Mara: has kayak; plays violin / piano. Mara & Bo sail.",
    "/ ; : & / ; : &",
    "According to plan, the and a an & which is that.",
    "Mara's. Mara's Mara. Mara's sister's cat's.",
    "She left. It broke. Mara never goes there again, making it quiet.",
    "Mara met Bo last Friday and started running three years ago.",
)
VERBS = ("enjoys", "bought", "repaired", "is considering", "painted", "talked about", "is planning")
THINGS = (
    "the red kayak",
    "an old violin",
    "her mother's garden",
    "a new recipe",
    "the house in Bergen",
    "a film by Liv",
)
REMARKS = (
    "which makes her really happy",
    "and finds it very relaxing",
    "making the long days better",
    "and is proud of it",
    "in 2024",
    "with Bo and Ines",
    "but never on Sundays",
)
SAID = [f"Mara {verb} {thing} {remark}." for verb, thing, remark in product(VERBS, THINGS, REMARKS)]
ANY_TEXT = st.one_of(st.sampled_from([*ODD, *SAID[::5]]), st.text(max_size=120)).map(clean_text)
ANY_ENTRY = st.tuples(
    ANY_TEXT,
    st.sampled_from(["core", "reflection", "consolidation", "journal"]),
    st.sampled_from(["mara", "bo", None]),
    st.booleans(),
)


def given_of(entries: Sequence[LedgerEntry], target: int) -> RefineInput:
    return RefineInput(
        persona="",
        scope="agent",
        owner="Mara",
        budget=Budget(
            now=tokens_of(entries),
            target=target,
            protected=tokens_of(one for one in entries if one.protected),
            most_protected=target // 4,
            removable=0,
        ),
        batch=1,
        batches=1,
        ledger=tuple(entries),
    )


def all_turns(told: RefineInput, answer: str = "Done. Now 1 tokens.") -> list[Turn]:
    """Turn after turn until there is none any more; a refiner that loops fails here."""
    turns: list[Turn] = []
    for _ in range(100):
        turn = offline.refine(told._replace(turns=tuple(turns)))
        if not turn.calls:
            return turns
        turns.append(Turn(calls=tuple(call._replace(answer=answer) for call in turn.calls)))
    raise AssertionError("it never ends")


def calls_of(turns: Sequence[Turn]) -> list[ToolCall]:
    return [call for turn in turns for call in turn.calls]


def problems(entries: Sequence[LedgerEntry], calls: Sequence[ToolCall]) -> Iterator[str]:
    """What the tools would refuse, and what nobody would want."""
    held = {one.handle: one for one in entries}
    taken: set[int] = set()
    shielded: set[int] = set()
    for call in calls:
        assert call.arguments is not None
        if call.name == "complete_refinement":
            continue
        one_or_many = call.arguments.get("ids_to_merge", [call.arguments.get("id")])
        if taken.intersection(one_or_many) or not set(one_or_many) <= held.keys():
            yield "a memory that is not there"
            continue
        named = [held[handle] for handle in one_or_many]
        if any(one.protected or one.kind not in ("core", "reflection") or one.handle in shielded for one in named):
            yield "what may not be touched"
        if call.name == "protect_memory":
            shielded.update(one_or_many)
            continue
        taken.update(one_or_many)
        yield from _of_text(named, call)


def _of_text(named: Sequence[LedgerEntry], call: ToolCall) -> Iterator[str]:
    assert call.arguments is not None
    text = call.arguments["new_content"] if call.name == "consolidate_memories" else call.arguments["content"]
    if (call.name == "consolidate_memories") == (len(named) < 2) or len({one.subject_user_id for one in named}) > 1:
        yield "no merge of one person's memories"
    if count_tokens(text) > tokens_of(named):
        yield "longer than before"
    if missing_details([one.content for one in named], text):
        yield "a detail is lost"
    if any(lost_memories([one.content for one in named], text, about=[one.subject for one in named])):
        yield "a memory is taken away"
    if not text or is_degenerate(text) or clean_text(text) != text:
        yield "no text to store"


@settings(max_examples=60)
@given(st.lists(ANY_ENTRY, max_size=25), st.integers(min_value=1, max_value=800))
def test_whatever_stands_in_the_ledger_the_calls_are_ones_the_tools_take(
    rows: list[tuple[str, str, str | None, bool]], target: int
) -> None:
    entries = [
        entry(place, text, kind=kind, subject_user_id=who, protected=protected)
        for place, (text, kind, who, protected) in enumerate(rows, start=1)
    ]
    told = given_of(entries, target)
    turns = all_turns(told)
    assert list(problems(entries, calls_of(turns))) == []
    assert all_turns(told) == turns
    assert all(len(turn.calls) <= 16 for turn in turns)
    ids = [call.id for call in calls_of(turns)]
    assert len(set(ids)) == len(ids)


@pytest.mark.parametrize(
    ("call", "problem"),
    [
        (("update_memory", {"id": 9, "content": "x"}), "a memory that is not there"),
        (("protect_memory", {"id": 2}), "what may not be touched"),
        (("consolidate_memories", {"ids_to_merge": [1, 3], "new_content": "Mara: red."}), "a detail is lost"),
        (("consolidate_memories", {"ids_to_merge": [1, 4], "new_content": "x"}), "no merge of one person's memories"),
        (("update_memory", {"id": 1, "content": "Mara owns a red kayak in Oslo as of 2026."}), "longer than before"),
        (("update_memory", {"id": 3, "content": ""}), "no text to store"),
        (("update_memory", {"id": 5, "content": "Mara rests."}), "a memory is taken away"),
    ],
)
def test_the_check_itself_sees_what_is_wrong(call: tuple[str, dict[str, object]], problem: str) -> None:
    entries = (
        entry(1, "Mara owns a kayak in Oslo."),
        entry(2, "Mara is 7.", protected=True),
        entry(3, "Mara knows Bo."),
        entry(4, "Bo swims.", subject_user_id="bo"),
        entry(5, "Mara paints old boats in the harbour."),
    )
    assert problem in list(problems(entries, [ToolCall(id="1", name=call[0], arguments=call[1])]))


def after(entries: Sequence[LedgerEntry], calls: Sequence[ToolCall]) -> dict[int, str]:
    """The text that each memory's words stand in afterwards."""
    texts = {one.handle: one.content for one in entries}
    for call in calls:
        assert call.arguments is not None
        if call.name in ("consolidate_memories", "update_memory"):
            handles = call.arguments.get("ids_to_merge", [call.arguments.get("id")])
            texts.update(dict.fromkeys(handles, call.arguments.get("new_content", call.arguments.get("content"))))
    return texts


def core_of(count: int) -> tuple[LedgerEntry, ...]:
    """A core memory of remarks on many things, each at a place of its own."""
    return ledger(
        *(
            f"Mara {verb} {thing} at {_name(place)}{',' if remark.startswith('which') else ''} {remark}."
            for place, (remark, thing, verb) in zip(range(count), cycle(product(REMARKS, THINGS, VERBS)), strict=False)
        )
    )


def _name(number: int) -> str:
    return "Kar" + "".join("abdeiklmnoprstuvz"[digit] for digit in (number // 289, number // 17 % 17, number % 17))


def test_a_core_of_more_than_8000_tokens_comes_below_5000_and_keeps_each_detail() -> None:
    entries = core_of(500)
    assert tokens_of(entries) > 8000
    calls = calls_of(all_turns(given_of(entries, 5000)))
    texts = after(entries, calls)
    assert sum(map(count_tokens, set(texts.values()))) < 5000
    assert [one.content for one in entries if missing_details([one.content], texts[one.handle])] == []


def test_it_stops_at_the_target() -> None:
    entries = core_of(120)
    assert [call.name for call in calls_of(all_turns(given_of(entries, tokens_of(entries))))] == ["complete_refinement"]
    calls = calls_of(all_turns(given_of(entries, tokens_of(entries) - 5)))
    assert calls[-1].name == "complete_refinement"
    # a few merges reach it, and a hundredth of it more
    assert 1 <= len(calls) - 1 <= 3
    assert {call.name for call in calls[:-1]} == {"consolidate_memories"}


def test_what_is_refused_is_not_asked_again() -> None:
    entries = core_of(500)
    told = given_of(entries, 1800)
    assert [[call[:3] for call in turn.calls] for turn in all_turns(told, REFUSED)][:-1] == [
        [call[:3] for call in turn.calls] for turn in all_turns(told)
    ][:-1]


def test_only_the_last_batch_completes() -> None:
    entries = core_of(40)
    told = given_of(entries, 100)
    first, second = (calls_of(all_turns(told._replace(batch=batch, batches=2))) for batch in (1, 2))
    assert "complete_refinement" not in [call.name for call in first]
    assert [call.name for call in second].count("complete_refinement") == 1
    assert second[-1].name == "complete_refinement"


@pytest.mark.parametrize(
    ("content", "is_one"),
    [
        ("Mara is allergic to penicillin.", True),
        ("Never tell anybody where Mara lives.", True),
        ("The agent promised Mara to keep the letters.", True),
        ("Mara wants the agent to always answer in metric units.", True),
        ("Orders above 500 euros must be confirmed by Bo.", True),
        ("The agent agreed not to mention the wedding.", True),
        ("Mara is always looking for a good book.", False),
        ("Mara has never been to Japan.", False),
        ("Mara must have left early.", False),
        ("Mara paints boats.", False),
    ],
)
def test_commitments_are_protected_first(content: str, is_one: bool) -> None:
    entries = ledger("Mara enjoys the sea.", content, "Mara enjoys the wind.")
    calls = calls_of(all_turns(given_of(entries, 100)))
    assert (calls[0].name == "protect_memory" and calls[0].arguments == {"id": 2}) == is_one
    reflection = [entry(2, content, kind="reflection")]
    assert not any(call.name == "protect_memory" for call in calls_of(all_turns(given_of(reflection, 100))))


def test_protection_stays_within_its_share_the_gravest_first() -> None:
    entries = ledger(
        *(f"The agent promised Bo boat number {number}." for number in range(20)), "Mara is allergic to nuts."
    )
    calls = calls_of(all_turns(given_of(entries, 100)))
    protected = [call.arguments["id"] for call in calls if call.name == "protect_memory" and call.arguments]
    assert protected[0] == 21
    assert 0 < sum(entries[handle - 1].tokens for handle in protected) <= 25


def merged_text(*contents: str, target: int = 1, **given: Any) -> str:
    """The texts of a refined core memory, one a line."""
    entries = ledger(*contents, **given)
    texts = after(entries, calls_of(all_turns(given_of(entries, target))))
    return "\n".join(dict.fromkeys(texts.values()))


def test_the_subject_is_said_once() -> None:
    assert merged_text("Mara owns a red kayak.", "Mara's cello is from 1920.", "Mara enjoys rowing.") == (
        "Mara: owns red kayak; cello is from 1920; enjoys rowing."
    )


def test_what_another_memory_says_in_more_detail_goes_first() -> None:
    entries = ledger(
        "Mara has a dog.", "Mara has a dog named Rex.", "Mara paints boats in Oslo.", "Mara owns a red kayak."
    )
    calls = calls_of(all_turns(given_of(entries, tokens_of(entries) - 2)))
    assert calls[0].arguments == {"ids_to_merge": [1, 2], "new_content": "Mara has a dog named Rex."}


def test_the_newer_of_two_that_contradict_wins() -> None:
    text = merged_text("Harbor's deadline is 3 March 2026.", "Harbor's deadline is 5 May 2026.", subject="Harbor")
    assert text == "Harbor: deadline is 5 May 2026."


def test_relative_days_become_dates_before_the_day_they_are_counted_from_is_lost() -> None:
    text = merged_text("Mara met Bo in the harbour yesterday.", "Mara will paint the boat tomorrow.")
    assert "on 2 Mar 2026" in text
    assert "on 5 Mar 2026" in text


def test_what_was_put_together_before_is_put_together_again() -> None:
    first = merged_text(
        "Mara began to row three years ago.",
        "Mara enjoys the harbour and the old boats there.",
        "Mara is currently planning a trip to the islands.",
        "Mara met Bo at the museum.",
    )
    assert "began to row three years ago (3 Mar 2026)" in first
    again = merged_text(first, "Mara enjoys the long walks.", "Mara enjoys the harbour.", "Mara owns a red kayak.")
    assert again.count("Mara: ") == 1
    assert again.count("(3 Mar 2026)") == 1
    assert again.count("(") == 1
    for words in ("old boats", "long walks", "owns red kayak", "met Bo"):
        assert words in again


@pytest.mark.parametrize(
    ("body", "kept"),
    [
        ("paints boats & making her home brighter", []),
        ("paints the boats, making her home brighter", ["paints the boats"]),
        ("paints boats for Bo, which makes him happy", ["paints boats for Bo"]),
        ("paints boats at home, which Bo likes", []),
        ("paints boats at sea & never sells the boats", []),
        ("gives the children a safe, loving home", []),
    ],
)
def test_a_remark_is_cut_where_a_sentence_may_end_and_never_with_a_detail(body: str, kept: list[str]) -> None:
    assert list(remarks(body)) == kept


def test_no_negation_and_no_order_is_softened() -> None:
    text = merged_text(
        "Mara does not eat the nuts that Bo brings, which is really important to her.",
        "Mara only ever drinks tea before the long walks, unless it rains.",
        "Mara enjoys the walks a lot, making her really happy.",
    )
    for words in ("does not eat nuts that Bo brings", "only ever drinks tea before long walks, unless it rains"):
        assert words in text


def test_what_nobody_else_says_stays_although_the_target_is_not_reached() -> None:
    text = merged_text("Mara paints boats.", "Mara is pregnant.", "Mara lives alone.", "Bo knits socks.")
    for word in ("boats", "pregnant", "alone", "socks"):
        assert word in text


def test_what_others_say_goes_only_as_far_as_the_tools_take_it_and_that_far() -> None:
    nouns = iter(_name(number)[-3:] * 2 for number in range(48))
    seen = [f"Mara has seen the {a} and the {b} near the {c}." for a, b, c in zip(nouns, nouns, nouns, strict=True)]
    told = [f"{one.removesuffix('.')} at {_name(place)}." for place, one in enumerate(seen)]
    plain = ledger(*seen)
    named = tuple(entry(len(seen) + place, one, category="goals") for place, one in enumerate(told, start=1))
    texts = after((*plain, *named), calls_of(all_turns(given_of((*plain, *named), 1))))
    left = {texts[one.handle] for one in plain}
    assert sum(map(count_tokens, left)) < tokens_of(plain) / 4
    for text in left:
        assert not any(lost_memories([one.content for one in plain if texts[one.handle] == text], text, about=["Mara"]))


def test_people_categories_and_what_is_private_stay_apart() -> None:
    entries = (
        entry(1, "Mara enjoys the long walks."),
        entry(2, "Mara enjoys the short walks.", private=True),
        entry(3, "Mara enjoys the early walks.", category="goals"),
        entry(4, "Mara enjoys the late walks.", subject_user_id="bo"),
    )
    assert "consolidate_memories" not in [call.name for call in calls_of(all_turns(given_of(entries, 1)))]
