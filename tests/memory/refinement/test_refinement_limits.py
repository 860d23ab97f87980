"""Refinement: a long ledger cut into batches, which memories a text loses, how much may go, where a merge belongs."""

import string
from collections import Counter

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mnemic.memory.refinement.batching import batches
from mnemic.memory.refinement.losses import lost_memories, lost_words, max_removals
from mnemic.memory.refinement.merging import merged_category
from mnemic.memory.runtime.categories import load_categories
from mnemic.state.refinement import LedgerEntry
from tests.support.worlds import entry, ledger, tokens_of

TEXTS = st.text(alphabet=string.ascii_letters + string.digits + " .,'äßł東京あก", max_size=60)
COUNTS = st.integers(0, 10_000)
PERCENTS = st.integers(1, 100)
CATEGORIES = load_categories()
NAMES = st.sampled_from(sorted(CATEGORIES.rag_lengths))
WORDS = ("kayak", "fjord", "violin", "bow", "deadline", "release", "garden", "tulip", "the", "of", "Ølen", "日本")
ENTRIES = st.lists(
    st.tuples(st.lists(st.sampled_from(WORDS), max_size=30).map(" ".join), st.sampled_from(["ana", "bo", None])),
    max_size=40,
).map(lambda rows: tuple(entry(place, text, subject_user_id=who) for place, (text, who) in enumerate(rows, start=1)))


# -- batches


def handles(found: list[tuple[LedgerEntry, ...]]) -> list[list[int]]:
    return [[entry.handle for entry in batch] for batch in found]


@given(ENTRIES, st.integers(min_value=0, max_value=200))
def test_every_entry_stands_in_one_batch_and_no_batch_is_too_long(
    entries: tuple[LedgerEntry, ...], tokens: int
) -> None:
    found = batches(entries, max_tokens=tokens)
    assert Counter(entry.handle for batch in found for entry in batch) == Counter(entry.handle for entry in entries)
    assert all(found)
    assert all(tokens_of(batch) <= tokens or len(batch) == 1 for batch in found)
    assert all(batch == sorted(batch) for batch in handles(found))
    assert batches(entries, max_tokens=tokens) == found


def test_what_is_longer_than_a_batch_stands_alone() -> None:
    assert handles(batches(ledger("short", "long " * 100, "short too"), max_tokens=20)) == [[1, 3], [2]]


def test_similar_ones_stand_together_of_the_same_person_first() -> None:
    entries = ledger(
        "Mara paddles a red kayak on the fjord.",
        "Mara plays the violin in a quartet.",
        "Mara bought a second kayak.",
        "Mara had the violin repaired by Bo.",
        "Mara crossed the fjord with the kayak.",
        "Mara tunes the violin before each quartet.",
    )
    assert handles(batches(entries, max_tokens=tokens_of(entries) // 2 + 2)) == [[1, 3, 5], [2, 4, 6]]
    entries = (
        entry(1, "The kayak is red.", subject_user_id="ana"),
        entry(2, "The kayak is red!", subject_user_id="bo"),
        entry(3, "A violin teacher.", subject_user_id="ana"),
        entry(4, "A violin teacher?", subject_user_id="bo"),
    )
    assert handles(batches(entries, max_tokens=10)) == [[1, 3], [2, 4]]


# -- what is lost


#: Texts, what replaces them, and whether that loses all of them or none.
LOST: list[tuple[list[str], str, bool]] = [
    (["Ana always wants short answers.", "Ana wants answers in English."], "Ana: short English answers.", False),
    (["Ana must never be called before nine."], "Never call Ana before nine!", False),
    (["Ana pays 4,100 euros for the berth."], "Berth: 4100", False),
    (["Ana decided on 3 April to sell."], "3 April: decides to sell", False),  # other endings of the same words
    (["安娜喜欢简短的回答", "安娜在波尔图"], "安娜：简短", False),
    (["아나는 짧은 대답을 원한다"], "아나 짧은 대답", False),
    (["It is. And so on."], "Nothing told.", False),  # of what told nothing, nothing is lost
    (["😀"], "😀", False),
    (["Ana likes tea.", "Ana loves green tea."], "Ana loves green tea.", False),  # which says it in more detail
    # denser: the names, numbers, dates and telling words of it
    (["Ana told that she decided to leave the band and felt happy to find three cellos."], "No band, 3 cellos.", False),
    (
        ["Ana went to a school group on 2023-05-07, found it powerful, felt accepted, and took courage to be herself."],
        "School group: 7 May 2023.",
        False,
    ),
    (["Ana always wants short answers.", "Ana wants answers in English."], "Fine.", True),
    (["Ana must never be called before nine."], "I am to be kind and helpful to everyone.", True),
    (["安娜喜欢简短的回答"], "好", True),
    (["Ana is allergic to peanuts; keep them out of every menu."], "A menu.", True),
    (["😀", "It is.", "Ana pays for the berth."], "", True),  # what tells nothing is deleted all the same
]


@pytest.mark.parametrize(("old", "new", "is_lost"), LOST)
def test_denser_text_keeps_its_facts_and_an_unrelated_one_loses_them(old: list[str], new: str, is_lost: bool) -> None:
    assert lost_memories(old, new) == [is_lost] * len(old)


@given(st.lists(TEXTS.filter(bool), min_size=1, max_size=5))
@example(["and the of"])
@example(["1"])
def test_nothing_is_lost_by_saying_it_all(old: list[str]) -> None:
    assert not any(lost_memories(old, " ".join(old)))


@given(st.lists(TEXTS, min_size=1, max_size=4), TEXTS, TEXTS)
@example(["A'S"], "0", "")
def test_saying_more_never_loses_more_and_neither_order_nor_case_matter(old: list[str], new: str, more: str) -> None:
    before = lost_memories(old, new)
    assert all(was or not now for was, now in zip(before, lost_memories(old, f"{new} {more}"), strict=True))
    assert before == lost_memories(old[::-1], new)[::-1] == lost_memories([text.swapcase() for text in old], new)


@given(st.lists(st.sampled_from(string.ascii_lowercase), min_size=1, unique=True).map(sorted), st.data())
def test_word_share_counts_less_the_more_memories_become_one(letters: list[str], data: st.DataObject) -> None:
    words = [letter * 4 for letter in letters]  # none of them a word of the language
    kept = data.draw(st.integers(0, len(words)))

    for memories, share in ((1, 3), (2, 4), (8, 10), (50, 10)):
        lost = lost_memories([" ".join(words)] * memories, " ".join(words[:kept]))
        assert lost == [share * kept < len(words)] * memories


def test_whom_they_are_about_is_not_what_they_say() -> None:
    assert lost_memories(["Ana fears dogs.", "Ana sells boats."], "Ana.", about=["Ana", "Ana"]) == [True, True]
    assert lost_memories(["Ana."], "Ana!", about=["Ana"]) == [False]


def test_a_long_text_or_a_shared_word_does_not_stand_in_for_short_ones() -> None:
    long = "Ana mends sails, paints boats, repairs engines, sells anchors, teaches knots and rents canoes near Bergen."
    old = ["Ana is allergic to peanuts.", long, "Ana promised to call her mother."]
    assert lost_memories(old, long, about=["Ana"]) == [True, False, True]
    assert lost_memories(old, f"{long} Allergic to peanuts.", about=["Ana"]) == [False, False, True]

    nouns = ("quiet", "tables", "maps", "quotes", "hedges", "figures", "nouns", "verbs", "outlines, summaries")
    assert all(lost_memories([f"Ana wants {noun}." for noun in nouns], "Ana wants.", about=["Ana"]))


# -- how much, and where it belongs


@given(PERCENTS, COUNTS)
def test_the_share_that_may_go_is_rounded_up(percent: int, count: int) -> None:
    most = max_removals(percent, count)
    assert percent * count / 100 <= most < percent * count / 100 + 1


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
        (["knowledge", "profile", "knowledge"], "profile"),
        (["tasks", "tasks", "goals"], "goals"),
        (["profile", "relationships", "relationships"], "relationships"),
        (["profile", "a_category_of_yesterday"], "a_category_of_yesterday"),  # which nobody reads any more
    ],
)
def test_the_category_of_a_merge(names: list[str], merged: str) -> None:
    assert merged_category(names, CATEGORIES) == merged


# -- words that nothing says any more


def test_lost_words_are_distinctive_rarest_first_and_listed_once() -> None:
    old = ["Ana thinks the Hammock's ropes are old.", "Ana bought pottery and a hammock at sunset."]

    every, said = [*old, "Bo thinks of old ropes.", "Bo thinks."], ["Ana's pottery classes at SUNSETS"]
    assert lost_words(old, said, among=every) == ("Ana bought pottery", "Ana thinks the Hammock ropes are old")
    assert lost_words(old, ["Ana"], among=every, named=["hammock", "ropes of pottery, old"]) == (
        "Ana bought pottery",
        "at sunset",
        "Ana thinks the",
    )
    assert lost_words(old, old, among=old) == ()
    calm = lost_words(["Ana finds it calming, a collection."], ["Ana, calm, is collecting it."], among=[])
    assert calm == ("Ana finds it",)


def test_a_long_stretch_of_lost_words_is_named_in_parts() -> None:
    words = ["harbour", "lantern", "meadow", "orchard", "pebble", "quarry", "ribbon", "saddle", "thimble", "velvet"]
    assert [len(part.split()) for part in lost_words([" ".join(words)], [], among=[])] == [9, 3]


@pytest.mark.parametrize(
    "text",
    [
        "She has had it with them.",  # function words
        "It is up to us.",  # short ones
        "On 9 March 2026, a Monday in April.",  # dates and numbers are details, and may change their form
        "Two, three or twelve, at 9:30pm in b1234.",
        "日本の陶芸",  # no words are set apart
    ],
)
def test_what_tells_nothing_or_is_a_detail_of_another_form_is_no_lost_word(text: str) -> None:
    assert lost_words([text], [], among=[]) == ()


@given(st.lists(TEXTS, max_size=3), st.lists(TEXTS, max_size=3))
def test_a_lost_word_stands_in_the_old_texts_and_not_in_the_new(old: list[str], new: list[str]) -> None:
    lost = lost_words(old, new, among=old)
    assert lost_words(old, [*new, " ".join(lost)], among=old) == ()
    every = {word for text in old for word in text.split()}
    assert all(any(word in seen for seen in every) for phrase in lost for word in phrase.split())
