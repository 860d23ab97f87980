"""The quality harness: its figures and baselines on a few lines, and all of it on a conversation of a minute."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks.recall_quality import __main__ as harness
from benchmarks.recall_quality.automatic import described, of_dialogues
from benchmarks.recall_quality.baselines import BM25, grep
from benchmarks.recall_quality.cache import CachedEmbedder
from benchmarks.recall_quality.locomo import read_conversations
from benchmarks.recall_quality.metrics import Returned, mean, score
from benchmarks.recall_quality.porter import stem
from mnemic.models.embedders.base import HashEmbedder

DIALOGUE = {
    "sample_id": "tiny",
    "conversation": {
        "speaker_a": "Ines",
        "speaker_b": "Bo",
        "session_1_date_time": "1:56 pm on 8 May, 2023",
        "session_1": [
            {"speaker": "Ines", "dia_id": "D1:1", "text": "I bought a red kayak for the fjord."},
            {"speaker": "Bo", "dia_id": "D1:2", "text": "Lovely!", "blip_caption": "a photo of a kayak"},
        ],
        "session_2_date_time": "12:05 am on 20 June, 2023",
        "session_2": [
            {"speaker": "Bo", "dia_id": "D2:1", "text": "My violin teacher moved to Bergen."},
            {"speaker": "Ines", "dia_id": "D2:2", "text": "Do you remember what she played?"},
        ],
    },
    "observation": {
        "session_1_observation": {"Ines": [["Ines owns a red kayak.", "D1:1"]]},
        "session_2_observation": {"Bo": [["Bo's violin teacher lives in Bergen.", ["D2:01", "D9:9"]]]},
    },
    "qa": [
        {"question": "Which boat does Ines own?", "answer": "kayak", "evidence": ["D1:1; D1:02"], "category": 1},
        {"question": "Who moved to Bergen?", "answer": "a teacher", "evidence": ["D2:1"], "category": 4},
        {"question": "Who moved to Oslo?", "answer": "", "evidence": ["D2:1"], "category": 5},
        {"question": "No such turn?", "answer": "", "evidence": ["D7:1"], "category": 2},
    ],
}


@pytest.fixture
def data(tmp_path: Path) -> Path:
    path = tmp_path / "tiny.json"
    path.write_text(json.dumps([DIALOGUE]), encoding="utf-8")
    return path


def returned(*turns: str, tokens: int = 100) -> list[Returned]:
    return [Returned(turn_ids=frozenset(turn.split()), tokens=tokens) for turn in turns]


def test_a_conversation_is_read_with_its_sources_and_without_questions_that_nothing_answers(data: Path) -> None:
    (read,) = read_conversations(data)
    assert [turn.id for turn in read.turns] == ["D1:1", "D1:2", "D2:1", "D2:2"]
    assert read.turns[1].text == "Lovely! [shares a photo of a kayak]"
    assert read.turns[0].said_at.isoformat() == "2023-05-08T13:56:00+00:00"
    assert read.turns[2].said_at.isoformat() == "2023-06-20T00:05:00+00:00"
    assert [observed.turn_ids for observed in read.observations] == [("D1:1",), ("D2:1",)]
    assert [question.evidence for question in read.questions] == [
        frozenset({"D1:1", "D1:2"}),
        frozenset({"D2:1"}),
        frozenset({"D2:1"}),
    ]


def test_recall_counts_turns_and_a_budget_counts_tokens() -> None:
    ranking = returned("a", "x", "a b", "x", "x", "c", tokens=200)
    found = score(ranking, frozenset("abcd"))
    assert (found.recall_5, found.recall_10) == (0.5, 0.75)
    assert found.inside == (0.25, 0.25, 0.5, 0.75, 0.75)


def test_ndcg_pays_for_each_new_turn_by_its_place() -> None:
    assert score(returned("a", "b"), frozenset("ab")).ndcg_10 == pytest.approx(1)
    assert score(returned("x", "a"), frozenset("a")).ndcg_10 == pytest.approx(0.6309, abs=1e-4)
    assert score(returned("a", "a"), frozenset("ab")).ndcg_10 == pytest.approx(0.6131, abs=1e-4)
    assert score([], frozenset("a")).ndcg_10 == 0


def test_a_mean_is_over_questions() -> None:
    both = [score(returned("a"), frozenset("a")), score(returned("x"), frozenset("a"))]
    assert (mean(both).recall_5, mean(both).inside[0]) == (0.5, 0.5)
    assert mean([]).recall_5 == 0


@pytest.mark.parametrize(
    ("word", "stemmed"),
    [
        ("caresses", "caress"),
        ("ponies", "poni"),
        ("agreed", "agre"),
        ("hopping", "hop"),
        ("falling", "fall"),
        ("filing", "file"),
        ("happy", "happi"),
        ("relational", "relat"),
        ("adjustment", "adjust"),
        ("adoption", "adopt"),
        ("rate", "rate"),
        ("controll", "control"),
    ],
)
def test_words_are_stemmed_as_porter_does(word: str, stemmed: str) -> None:
    assert stem(word) == stemmed


def test_the_baselines_rank_by_words_and_bm25_by_how_rare_they_are() -> None:
    texts = ["The painting of a lake", "She paints the lake and the boats", "A boat", "A boat", "A boat"]
    assert grep("paint a boat", texts) == [0, 0, 1, 1, 1]
    scores = BM25(texts).scores("paint a boat")
    assert scores[1] > scores[0] > scores[2] == scores[3]


async def test_a_cache_gives_back_what_the_embedder_made(tmp_path: Path) -> None:
    class Counting(HashEmbedder):
        asked = 0

        async def embed(self, texts: Any) -> Any:
            Counting.asked += len(texts)
            return await super().embed(texts)

    first = await CachedEmbedder(Counting(), tmp_path).embed(["one", "two", "one"])
    assert await CachedEmbedder(Counting(), tmp_path).embed(["two", "one"]) == [first[1], first[0]]
    assert Counting.asked == 2


def test_the_share_of_automatic_searches_says_why(data: Path) -> None:
    assert described(of_dialogues(read_conversations(data))) == "1 of 2 turns (50.0%): phrase 1"


def test_the_harness_runs_through_the_product_on_any_such_file(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["--data", str(data.parent), "--embedder", "hash", "--cache", str(tmp_path / "cache")]
    monkeypatch.setattr(sys, "argv", ["recall_quality", *arguments])
    harness.main()
    printed = capsys.readouterr().out
    for kept in ("All messages alone", "keep_messages: sources", "keep_messages: all"):
        assert kept in printed
    for way in ("text", "semantic", "rrf", "weighted", "weighted + boosts (as shipped)", "baseline: BM25, stemmed"):
        assert printed.count(f"│ {way} ") >= 6, way
    (first, *_) = [line for line in printed.splitlines() if "as shipped" in line]
    assert first.count("100.0 100.0 100.0") >= 3


def test_without_data_the_harness_says_why_it_skips(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["recall_quality"])
    harness.main()
    assert "Skipped: no conversation found in MNEMIC_DATA, which is not set" in capsys.readouterr().out
