"""Recall without a database: which messages are searched for, and the sums behind a result's place."""

import uuid
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnemic.memory.recall.heuristics import search_reason, words_to_count
from mnemic.memory.recall.scoring import RankingContext, ranked, ranking_context, reciprocal
from mnemic.memory.runtime.requests import Phrase, load_requests
from mnemic.state.errors import ConfigurationError
from mnemic.state.query import Candidate, Links, MemoryQuery
from mnemic.state.records import SearchResult, WordCounts
from mnemic.state.search import WEIGHTS, Weights

# -- scores

DAY = datetime(2026, 3, 2, tzinfo=UTC)
PLAINLY = RankingContext(names=frozenset(), self_id=None, top_k=10, rag_lengths={})


def candidate(number: int, **changes: Any) -> Candidate:
    given: dict[str, Any] = dict.fromkeys(Candidate._fields)
    given |= {"id": uuid.UUID(int=number), "content": f"fact {number}", "kind": "fact", "category": "profile"}
    given |= {"scope_key": "user:ana", "subject": "Ana", "dated": DAY, "importance": 2, "similarity": 0.5, "fused": 0.5}
    return Candidate(**{**given, **changes})


def message_at(number: int, place: int, **changes: Any) -> Candidate:
    return candidate(number, kind="message", category="message", session_id="s1", place=place, **changes)


def numbers(found: Sequence[SearchResult]) -> list[int]:
    return [result.id.int for result in found]


def rank(candidates: Sequence[Candidate], links: Links | None = None, **changes: Any) -> list[SearchResult]:
    return ranked(candidates, links or {}, PLAINLY._replace(**changes), WEIGHTS)


def test_ties_go_by_the_raw_cosine_before_the_id() -> None:
    """All that is farther than a right angle has a fused score of nothing."""
    angles: Mapping[int, float | None] = {1: None, 2: -0.9, 3: -0.1, 4: -0.5, 5: -0.1}
    tied = [candidate(number, fused=0.0, similarity=cosine) for number, cosine in angles.items()]
    assert numbers(rank(tied)) == [3, 5, 4, 2, 1]


def test_a_score_is_what_it_was_plus_what_was_added() -> None:
    result = candidate(1, kind="insight", importance=5, subject="Ines Duarte")
    (found,) = rank([result], names=frozenset({"ines"}))
    assert found.explanation.boosts == pytest.approx({"insight": -0.25, "named": 0.1, "important": 0.03})
    assert found.score == pytest.approx(0.5 + sum(found.explanation.boosts.values()))


@pytest.mark.parametrize(
    ("self_id", "user_id", "named"), [("ana", "ana", True), ("ana", "bo", False), (None, None, False)]
)
def test_the_asker_is_meant_by_id(self_id: str | None, user_id: str | None, named: bool) -> None:
    (found,) = rank([candidate(1, user_id=user_id)], self_id=self_id)
    assert ("named" in found.explanation.boosts) is named


def test_neighbours_lie_one_or_two_apart_in_one_session() -> None:
    elsewhere = message_at(4, 2, fused=0.9)._replace(session_id="s2")
    last = message_at(5, 7, fused=0.9)
    found = {
        result.id.int: result
        for result in rank([message_at(1, 1), message_at(2, 2, fused=0.4), message_at(3, 4), elsewhere, last])
    }
    beside = {number: result.explanation.boosts.get("neighbour") for number, result in found.items()}
    direct = {1: 0.4, 2: 0.5 + 0.5 / 2, 3: 0.4 / 2}
    assert beside == {n: pytest.approx(0.15 * share) for n, share in direct.items()} | {4: None, 5: None}


def test_of_a_message_and_its_facts_the_best_tells_it() -> None:
    message = message_at(1, 1, fused=0.6)
    better, worse = (candidate(n, fused=f, sources=[message.id]) for n, f in ((2, 0.7), (3, 0.5)))
    found = {result.id.int: result.explanation.boosts for result in rank([message, better, worse])}
    assert ["repeated" in found[number] for number in (1, 2, 3)] == [True, False, True]


def test_a_long_message_never_speaks_for_its_facts() -> None:
    message = message_at(1, 1, fused=0.9, content="ü" * 501)
    fact = candidate(2, fused=0.3, sources=[message.id])
    found = {result.id.int: result.explanation for result in rank([message, fact])}
    assert found[2].from_source
    assert "repeated" in found[1].boosts
    assert not rank([message._replace(content="ü" * 500), fact])[-1].explanation.from_source


def test_category_contributes_at_most_its_length_and_the_requested_number() -> None:
    tasks = [candidate(number, category="tasks", fused=0.9) for number in range(5)]
    rest = [candidate(number, fused=0.1) for number in range(5, 12)]
    assert numbers(rank([*tasks, *rest], rag_lengths={"tasks": 2}, top_k=4)) == [0, 1, 5, 6]


def test_the_two_closest_come_along_once_each_and_results_do_not() -> None:
    near = [candidate(1, fused=0.9), candidate(2, fused=0.8)]
    others = [candidate(number, fused=None) for number in (3, 3, 4, 5)]
    first, second, third, fourth, fifth, unseen = (uuid.UUID(int=number) for number in range(1, 7))
    links: Links = {
        first: [(second, 0.5), (third, 0.5), (unseen, 1.0)],
        second: [(third, 0.9), (fourth, 0.6), (fifth, 0.1)],
    }
    found = rank([*near, *others], links)
    assert numbers(found) == [1, 2, 3, 4]
    assert [each.related_to for each in found] == [None, None, second, second]
    assert found[0].explanation.boosts == {"related": pytest.approx(0.05 * 0.5)}
    assert numbers(rank([*near, *others], links, rag_lengths={"profile": 2})) == [1, 2]


def test_reciprocal_ranks_count_what_each_branch_has() -> None:
    both = [
        candidate(1, text=0.1, similarity=0.2),
        candidate(2, text=None, similarity=0.9),
        candidate(3, similarity=None),
    ]
    shared = Weights(text=0.5, meaning=0.5)
    fused = [result.fused for result in reciprocal(both, shared, 9)]
    assert fused == pytest.approx([(1 + 10 / 11) / 2, 0.5, 0.0])


@pytest.mark.parametrize(
    ("question", "named", "common"),
    [
        ("What does Mark think of Ines's Frankfurt flat?", {"mark", "ines", "frankfurt"}, {"what", "think"}),
        ("Does Will sing?", {"will"}, {"does"}),
        ("will it rain", set(), {"will"}),
        ("What is my sister's name?", {"ana", "silva"}, {"sister"}),
        ("Is it mythical, in iron?", set(), {"ana"}),
    ],
)
def test_question_names_uncommon_or_capitalised_words_and_its_first_person(
    question: str, named: set[str], common: set[str]
) -> None:
    context = ranking_context(MemoryQuery(query=question), "ana.silva", {})
    assert named <= context.names
    assert not common & context.names
    assert context.self_id == ("ana.silva" if "ana" in named else None)


def test_no_addition_outweighs_what_words_and_meaning_say() -> None:
    """All of them at their most: named, importance 5, neighbour, session, related."""
    assert WEIGHTS.text + WEIGHTS.meaning == 1
    most = WEIGHTS.named + 3 * WEIGHTS.importance + 1.5 * WEIGHTS.neighbour + WEIGHTS.session + WEIGHTS.related
    assert most < WEIGHTS.meaning


# -- which messages are searched for

REQUESTS = load_requests()
SEARCHED = {
    "Remember when we met Einar?": "phrase",
    "do you remember the name of the harbour": "phrase",
    "Do you recall my flight number?": "phrase",
    "don’t you remember?": "phrase",
    "What did I say about Fridays?": "phrase",
    "have I ever told you about Cluj": "phrase",
    "did we book the boat": "phrase",
    "What was that restaurant": "past_question",
    "You told me it closes at ten.": "phrase",
    "We discussed the budget in March.": "phrase",
    "the place we talked about": "phrase",
    "as I said, no meetings": "phrase",
    "Last time we chose the small boat.": "phrase",
    "remind me what the pilot costs": "phrase",
    "In our last conversation it was 310.": "phrase",
    **dict.fromkeys(
        (
            "Recall my sister's address.",
            "Okay. Can you please recall what it cost?",
            "search your memory for the boat",
            "Please look in your notes for the berth number.",
            "Look up what you know about Sintra!",
            "Tell me what you already know about me.",
            "What do you know about Einar?",
            "Look up when my lease ends.",
            "Erinnerst du dich an den Hafen?",
            "was weisst du noch über mich",
            "Durchsuche bitte dein Gedächtnis nach dem Boot.",
            "Habe ich dir schon von Cluj erzählt?",
            "¿Te acuerdas de mi hermana?",
            "que sabes de mi",
            "Busca en tu memoria el nombre del puerto.",
            "Tu te souviens du port ?",
            "Qu’est-ce que tu sais sur moi ?",
            "Cherche dans ta memoire le nom du port.",
            "Você se lembra do porto?",
            "o que você sabe sobre mim",
            "Pesquise na sua memória o nome do barco.",
        ),
        "phrase",
    ),
    "where did teodor move": "past_question",
    "Who said Tuesdays only?": "past_question",
    "Which of the two restaurants was it?": "past_question",
    "Thanks. And what was the price": "past_question",
    "do you know what the plan was?": "past_question",
    "Why didn't Einar answer?": "past_question",
    "where do I live?": "own_question",
    "What’s my name?": "own_question",
    "Do I drink coffee?": "own_question",
    "On which days do we deploy?": "own_question",
    "Hi! When is our next race?": "own_question",
    "do you know my shoe size?": "own_question",
}


@pytest.mark.parametrize(("message", "reason"), SEARCHED.items(), ids=SEARCHED)
def test_recall_phrase_or_question_about_the_past_or_own_affairs_is_enough(message: str, reason: str) -> None:
    assert search_reason(message, requests=REQUESTS) == reason


@pytest.mark.parametrize(
    "message",
    [
        "",
        "What should I cook for my mother?",
        "How do I install it?",
        "what do you think of my poem?",
        "I know where my keys are.",
        "What is the capital of Ghana?",
        "When I was young I had a dog.",
        "I was at the place where he had lunch.",
        "Somewhat late, the hadron washed ashore, whatever.",
        "Remember that I like tea.",
        "Please remember to send the minutes.",
        "What if the server was down?",
        "It explains the phone",
        "Translate this from English to French.",
        "CAN YOU WRITE SQL AND JSON?",
        "Tuesdays it is. Fridays I'm in the studio.",
        "Marit left. Teodor stayed. Nkechi slept.",
        "Precision, recall and F1 are all you need.",
        "The recall of the cars costs a fortune.",
        "My laptop has no memory left.",
        "Merk dir, dass ich Tee mag.",
        "Was soll ich heute kochen?",
        "Recuerda que me gusta el té.",
        "¿Qué tiempo hace hoy?",
        "Rappelle-moi d'acheter du lait.",
        "Lembra-me de comprar leite amanhã, sim?",
    ],
)
def test_advice_the_world_and_ordinary_messages_are_not_searched_for(message: str) -> None:
    assert search_reason(message, requests=REQUESTS) is None


def of_file(tmp_path: Path, text: str) -> Sequence[Phrase]:
    file = tmp_path / "requests.yaml"
    file.write_text(text, encoding="utf-8")
    return load_requests(file)


@pytest.mark.parametrize(
    ("phrase", "fitting", "other"),
    [
        ("fetch", ["Fetch it!", "Well. fetch..."], ["please fetch it", "fetching it"]),
        ("... fetch/get it", ["Now GET IT", "fetch  it"], ["get that it", "get. It"]),
        ("fetch ... now ...", ["Fetch now", "fetch all of it NOW, please"], ["now fetch", "fetch it"]),
        ("... hämta minnet", ["kan du hamta Minnet?"], ["hämta"]),
    ],
)
def test_a_phrase_is_whole_words_with_alternatives_and_gaps(
    tmp_path: Path, phrase: str, fitting: list[str], other: list[str]
) -> None:
    requests = of_file(tmp_path, f"sv: [{phrase}]")
    assert [search_reason(message, requests=requests) for message in fitting] == ["phrase"] * len(fitting)
    assert [search_reason(message, requests=requests) for message in other] == [None] * len(other)


def test_a_file_replaces_the_languages_it_names(tmp_path: Path) -> None:
    requests = of_file(tmp_path, "de: [... hol das]\nfr: []")
    asked = ("Recall it.", "Bitte hol das.", "Erinnerst du dich?", "Tu te souviens ?")
    assert [search_reason(message, requests=requests) for message in asked] == ["phrase", "phrase", None, None]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("en: [...]", "en.0: .*has no word"),
        ("en: [recall, do-it now]", "en.1: .*must consist of words"),
        ("en: ['a / b']", "en.0: .*must consist of words"),
        ("en: [{recall: it}]", "en.0: .*must be text"),
        ("en: recall", "en: .*tuple"),
        ("[recall]", "the whole: "),
        ("en: [recall]\nen: []", "a repeated key"),
    ],
)
def test_a_file_of_another_form_is_refused_by_the_name_of_what_is_wrong(tmp_path: Path, text: str, told: str) -> None:
    with pytest.raises(ConfigurationError, match=f"^the recall requests file does not fit: .*{told}"):
        of_file(tmp_path, text)


# -- words that the memory knows


def counts(*entries: str, language: bool = True, **by_word: int) -> WordCounts:
    """Counts of words, of which each of the entries has some."""
    rare = [frozenset(entry.split()) for entry in entries]
    for words in rare:
        by_word |= dict.fromkeys(words, 1)
    return WordCounts(is_indexed_language=language, by_word=by_word, rare_by_entry=rare)


LONG = (
    "Please rewrite this paragraph in a friendly tone: members of a committee asked questions about budgets, benches, "
    "lanterns, fountains, hedges and a kiosk, and others about bridges and swings."
)


@pytest.mark.parametrize(
    ("message", "known", "reason"),
    [
        ("Tell me about Lua", counts("lua", tell=0), "known_word"),
        ("who fixed the boiler", counts("boiler"), "known_word"),
        ("who fixed the boiler", counts(boiler=80), None),  # most entries have it
        ("who fixed the boiler", None, None),
        ("Is the car ready?", counts("car"), "known_word"),
        ("Wash my old car", counts("car"), "known_word"),
        ("Their car broke down.", counts("car"), "known_word"),
        ("Are cars expensive?", counts("cars"), None),
        ("How does a car engine work?", counts("car"), None),
        ("What is the price of bread?", counts("price"), None),
        ("Which seat should I take?", counts("seat"), "known_word"),
        ("I like mornings.", counts("mornings"), None),
        ("Which bread for breakfast?", counts("bread breakfast"), "known_word"),
        ("Which bread for breakfast?", counts("bread", "breakfast"), None),
        (LONG, counts("kiosk"), None),
        (LONG, counts("kiosk fountains"), "known_word"),
        ("Wie heißt der Hund?", counts("hund", language=False, wie=-1), "known_word"),
        ("Wie heißt der Hund?", counts(language=False, wie=-1, der=-1), None),
        ("When was the zeppelin launched?", counts(zeppelin=0), None),  # about something else
        ("When was the zeppelin launched?", counts("zeppelin"), "known_word"),
        ("What was the price?", counts(), "past_question"),
        ("When should I renew my passport?", None, "own_question"),
    ],
)
def test_a_name_or_telling_word_that_the_memory_knows_is_a_reason(
    message: str, known: WordCounts | None, reason: str | None
) -> None:
    assert search_reason(message, counts=known, requests=REQUESTS) == reason


@pytest.mark.parametrize(
    ("message", "previous", "words"),
    [
        ("Good morning!", "", None),
        ("How are you today?", "Who fixed the boiler?", {"fixed", "boiler"}),
        ("Where is the boiler's manual, Rose?", "", {"boiler", "manual", "rose"}),
        ("L’appartement de Bo ?", "", {"appartement", "bo"}),
        ("where do I live?", "", None),  # searched whatever the memory has
        ("A longer message that needs no other turn, about lanterns.", "Who fixed the boiler?", {"lanterns"}),
    ],
)
def test_few_words_are_looked_up(message: str, previous: str, words: set[str] | None) -> None:
    turn = words_to_count(message, previous, REQUESTS)
    assert (turn is None) == (words is None)
    assert turn is None or words is None or words <= {*turn.content}
    assert turn is None or "boiler" in turn.content or not previous or len(message) > 40


@pytest.mark.parametrize(
    ("question", "previous", "reason"),
    [
        ("and the dog?", "What does Lua eat?", "follow_up"),
        ("What about her?", "What does Lua eat?", "follow_up"),
        ("¿Y el perro?", "What does Lua eat?", "follow_up"),
        ("and the dog?", "Where do I live?", "follow_up"),
        ("and the dog?", "Why is the sky blue?", None),
        ("How many planets have rings?", "What does Lua eat?", None),
        ("Thanks a lot.", "What does Lua eat?", None),
        ("Who is she?", "What does Lua eat?", "follow_up"),
        ("Nice weather today, isn't it?", "What does Lua eat?", None),
    ],
)
def test_a_short_turn_without_content_leans_on_the_one_before(question: str, previous: str, reason: str | None) -> None:
    assert search_reason(question, previous, counts("lua", planets=0, rings=0), REQUESTS) == reason


@given(st.text(), st.text())
def test_any_turn_is_decided(message: str, previous: str) -> None:
    words_to_count(message, previous, REQUESTS)
    assert search_reason(message, previous, counts(), REQUESTS) != "asked"
