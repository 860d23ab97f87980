"""The limits of a refinement: which memories a text loses, how much may go or be protected, where a merge belongs."""

import string

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mnemic.policy.categories import load_categories
from mnemic.policy.refinement import (
    LEAST_KEPT,
    least_kept,
    lost_memories,
    merged_category,
    protectable,
    removable,
)

TEXTS = st.text(alphabet=string.ascii_letters + string.digits + " .,'äßł東京あก", max_size=60)
COUNTS = st.integers(0, 10_000)
PERCENTS = st.integers(1, 100)
CATEGORIES = load_categories()
NAMES = st.sampled_from(sorted(CATEGORIES.rag_lengths))


# -- what is lost


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (["Ana always wants short answers.", "Ana wants answers in English."], "Ana: short English answers."),
        (["Ana must never be called before nine."], "Never call Ana before nine!"),
        (["Ana pays 4,100 euros for the berth."], "Berth: 4100"),
        (["Ana decided on 3 April to sell."], "3 April: decides to sell"),  # other endings of the same words
        (["安娜喜欢简短的回答", "安娜在波尔图"], "安娜：简短"),
        (["아나는 짧은 대답을 원한다"], "아나 짧은 대답"),
        (["It is. And so on."], "Nothing told."),  # of what told nothing, nothing is lost
        (["!!!"], "..."),
        (["😀"], "😀"),
        (["Ana likes tea.", "Ana loves green tea."], "Ana loves green tea."),  # which the other says in more detail
    ],
)
def test_a_denser_text_keeps_what_it_says(old: list[str], new: str) -> None:
    assert not any(lost_memories(old, new))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (["Ana always wants short answers.", "Ana wants answers in English."], "Fine."),
        (["Ana must never be called before nine."], "I am to be kind and helpful to everyone."),
        (["Ana pays 4,100 euros for the berth."], "..."),
        (["安娜喜欢简短的回答"], "好"),
        (["Ana pays for the berth."], ""),
        (["😀", "It is.", "Ana pays for the berth."], ""),  # what tells nothing is deleted all the same
    ],
)
def test_a_text_about_something_else_loses_it(old: list[str], new: str) -> None:
    assert all(lost_memories(old, new))


@given(st.lists(TEXTS.filter(bool), min_size=1, max_size=5))
@example(["and the of"])
@example(["1"])
def test_nothing_is_lost_by_saying_it_all(old: list[str]) -> None:
    assert not any(lost_memories(old, " ".join(old)))


@given(st.lists(TEXTS, min_size=1, max_size=4), TEXTS, TEXTS)
def test_saying_more_never_loses_more(old: list[str], new: str, more: str) -> None:
    before = lost_memories(old, new)
    assert all(was or not now for was, now in zip(before, lost_memories(old, f"{new} {more}"), strict=True))


@given(st.lists(st.sampled_from(string.ascii_lowercase), min_size=1, unique=True).map(sorted), st.data())
def test_the_share_of_the_words_decides(letters: list[str], data: st.DataObject) -> None:
    words = [letter * 4 for letter in letters]  # none of them a word of the language
    kept = data.draw(st.integers(0, len(words)))

    assert lost_memories([" ".join(words)], " ".join(words[:kept])) == [3 * kept < len(words)]


@pytest.mark.parametrize(("memories", "share"), [(1, 1 / 3), (2, 1 / 4), (8, 1 / 10), (50, LEAST_KEPT)])
def test_many_memories_may_become_a_law_and_one_stays_what_it_is(memories: int, share: float) -> None:
    assert least_kept(memories) == share


def test_whom_they_are_about_is_not_what_they_say() -> None:
    assert lost_memories(["Ana fears dogs.", "Ana sells boats."], "Ana.", about=["Ana", "Ana"]) == [True, True]
    assert lost_memories(["Ana."], "Ana!", about=["Ana"]) == [False]


LONG = "Ana mends sails, paints boats, repairs engines, sells anchors, teaches knots and rents canoes near Bergen."


def test_a_long_text_does_not_stand_in_for_short_ones() -> None:
    old = ["Ana is allergic to peanuts.", LONG, "Ana promised to call her mother."]

    assert lost_memories(old, LONG, about=["Ana"]) == [True, False, True]
    assert lost_memories(old, f"{LONG} Allergic to peanuts.", about=["Ana"]) == [False, False, True]


def test_one_word_that_many_share_does_not_stand_in_for_them() -> None:
    nouns = ("quiet", "tables", "maps", "quotes", "hedges", "figures", "nouns", "verbs", "outlines, summaries")

    assert all(lost_memories([f"Ana wants {noun}." for noun in nouns], "Ana wants.", about=["Ana"]))


@given(st.lists(TEXTS, max_size=4), TEXTS)
def test_neither_order_nor_case_matter(old: list[str], new: str) -> None:
    found = lost_memories(old, new)
    assert found == lost_memories(old[::-1], new)[::-1] == lost_memories([text.swapcase() for text in old], new)


def test_it_hangs_on_no_text(hostile: str) -> None:
    lost_memories([hostile, "Ana"], hostile)


# -- how much


@given(PERCENTS, COUNTS)
def test_of_some_memories_some_but_never_more_than_the_share_rounded_up_may_go(percent: int, memories: int) -> None:
    most = removable(percent, memories)

    assert 0 <= most <= memories
    assert (most == 0) == (memories == 0)
    assert percent * memories / 100 <= most < percent * memories / 100 + 1


@given(PERCENTS, COUNTS)
def test_never_more_than_the_share_of_the_target_is_protected(percent: int, target: int) -> None:
    assert protectable(percent, target) <= percent * target / 100 < protectable(percent, target) + 1


# -- where it belongs


def readers(name: str) -> int:
    return sum(name in allowlist.categories for allowlist in CATEGORIES.allowlists.values())


@given(st.lists(NAMES, min_size=1, max_size=6))
def test_a_merge_is_read_by_no_more_roles_than_any_of_the_merged(names: list[str]) -> None:
    merged = merged_category(names, CATEGORIES)

    assert merged in names
    assert readers(merged) == min(map(readers, names))


@pytest.mark.parametrize(
    ("names", "merged"),
    [
        (["tasks"], "tasks"),
        (["knowledge", "profile", "knowledge"], "profile"),
        (["tasks", "tasks", "goals"], "goals"),
        (["profile", "relationships", "relationships"], "relationships"),
        (["profile", "a_category_of_yesterday"], "a_category_of_yesterday"),  # which nobody reads any more
    ],
)
def test_the_category_of_a_merge(names: list[str], merged: str) -> None:
    assert merged_category(names, CATEGORIES) == merged
