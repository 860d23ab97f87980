"""The harnesses of recall and refinement: their figures on a few lines, and each on a conversation of a minute."""

import json
import sys
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from benchmarks.recall_quality import __main__ as harness
from benchmarks.recall_quality.automatic import described, of_dialogues
from benchmarks.recall_quality.baselines import BM25, grep
from benchmarks.recall_quality.cache import CachedEmbedder
from benchmarks.recall_quality.locomo import Conversation, Observation, Question, Turn, read_conversations
from benchmarks.recall_quality.measuring import measure, opened
from benchmarks.recall_quality.messages import telling_conversation
from benchmarks.recall_quality.metrics import Returned, mean, score
from benchmarks.recall_quality.porter import stem
from benchmarks.refinement import __main__ as refinement
from benchmarks.refinement.cores import OUTGROWN_TOKENS, TARGET_TOKENS, Core, ModelOverrides, of_conversations
from benchmarks.refinement.figures import figures
from benchmarks.refinement.refining import Calls, Refined
from mnemic.models.embedders import HashEmbedder
from tests.support.worlds import remembered

DIALOGUE: dict[str, Any] = {
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
        # of these three, two are put together without a model
        "session_1_observation": {
            "Ines": [[f"Ines {what}.", "D1:1"] for what in ("owns a red kayak", "speaks Danish", "speaks Dutch")]
        },
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


def test_conversation_is_read_with_sources_without_unanswered_questions(data: Path) -> None:
    (read,) = read_conversations(data)
    assert [turn.id for turn in read.turns] == ["D1:1", "D1:2", "D2:1", "D2:2"]
    assert read.turns[1].text == "Lovely! [shares a photo of a kayak]"
    assert read.turns[0].said_at.isoformat() == "2023-05-08T13:56:00+00:00"
    assert read.turns[2].said_at.isoformat() == "2023-06-20T00:05:00+00:00"
    assert [observed.turn_ids for observed in read.observations] == [*[("D1:1",)] * 3, ("D2:1",)]
    assert [question.evidence for question in read.questions] == [{"D1:1", "D1:2"}, {"D2:1"}, {"D2:1"}]
    assert described(of_dialogues([read])) == "1 of 2 turns (50.0%): phrase 1"


def test_recall_counts_turns_and_a_budget_counts_tokens() -> None:
    ranking = returned("a", "x", "a b", "x", "x", "c", tokens=200)
    found = score(ranking, frozenset("abcd"))
    assert (found.recall_5, found.recall_10) == (0.5, 0.75)
    assert found.inside == (0.25, 0.25, 0.5, 0.75, 0.75)
    # each new turn counts by its place
    assert score(returned("a", "b"), frozenset("ab")).ndcg_10 == pytest.approx(1)
    assert score(returned("x", "a"), frozenset("a")).ndcg_10 == pytest.approx(0.6309, abs=1e-4)
    assert score(returned("a", "a"), frozenset("ab")).ndcg_10 == pytest.approx(0.6131, abs=1e-4)
    assert score([], frozenset("a")).ndcg_10 == 0
    both = [score(returned("a"), frozenset("a")), score(returned("x"), frozenset("a"))]
    assert (mean(both).recall_5, mean(both).inside[0]) == (0.5, 0.5)
    assert mean([]).recall_5 == 0


def test_baselines_stem_as_porter_and_rank_by_words_and_by_bm25() -> None:
    words = "caresses ponies agreed hopping falling filing happy relational adjustment adoption rate controll"
    stems = "caress poni agre hop fall file happi relat adjust adopt rate control"
    assert [stem(word) for word in words.split()] == stems.split()
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


@pytest.mark.thorough
def test_the_harness_runs_through_the_product_on_any_such_file(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["--data", str(data.parent), "--embedder", "hash", "--cache", str(tmp_path / "cache")]
    monkeypatch.setattr(sys, "argv", ["recall_quality", *arguments])
    with pytest.raises(SystemExit) as ended:  # the aims of automatic search are those of the embedder minilm
        harness.main()
    assert ended.value.code == 1
    printed = capsys.readouterr().out
    for kept in ("All messages alone", "keep_messages: sources", "keep_messages: all"):
        assert kept in printed
    for way in ("text", "semantic", "rrf", "weighted", "weighted + boosts (as shipped)", "baseline: BM25, stemmed"):
        assert printed.count(f"│ {way} ") >= 6, way
    (first, *_) = [line for line in printed.partition("these dialogues")[2].splitlines() if "as shipped" in line]
    assert first.count("100.0 100.0 100.0") >= 3


@pytest.mark.thorough
def test_without_data_the_harness_says_why_it_skips(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["recall_quality", "--embedder", "hash"])
    with pytest.raises(SystemExit):
        harness.main()
    assert "Skipped: no conversation found in MNEMIC_DATA, which is not set" in capsys.readouterr().out


@pytest.mark.thorough
async def test_messages_that_tell_and_ask_are_found_at_least_as_well_as_by_bm25() -> None:
    """Of 60 in eight languages at least 54 are among the first five; nothing but messages is stored."""
    async with opened("minilm", None) as resources:
        ways = (await measure([telling_conversation()], resources, ["messages"]))["messages"]
    shipped, bm25 = ways["weighted + boosts (as shipped)"], ways["baseline: BM25, stemmed"]
    assert len(shipped) == 60
    assert sum(score.recall_5 for score in shipped) >= 54
    for figure in ("recall_5", "recall_10", "recall_20"):
        assert getattr(mean(shipped), figure) >= getattr(mean(bm25), figure)


# -- refinement

MOMENT = datetime(2023, 5, 8, tzinfo=UTC)
TEXTS = ["Ines owns a red kayak in Bergen.", "Ines is 41.", "Ines promised Bo a violin."]


def refined(merged: str, promise: str) -> Refined:
    question = Question(text="What does Ines own?", evidence=frozenset({"a"}), category=4, answer="a red kayak")
    ines = ModelOverrides(
        text="", subject="Ines", subject_user_id="ines", category="style", dated=MOMENT, turn_ids=frozenset()
    )
    given = (replace(ines, text=text, turn_ids=frozenset(turn)) for text, turn in zip(TEXTS, "abc", strict=True))
    core = Core(name="three", memories=tuple(given), target=1, questions=(question,))
    return Refined(
        core=core,
        calls=Calls(),
        before={UUID(int=number): memory for number, memory in enumerate(core.memories, start=1)},
        after=[remembered(merged, number=9), remembered(promise, number=3, protected=True)],
        taken={UUID(int=9): [UUID(int=1), UUID(int=2)], UUID(int=3): [UUID(int=3)]},
        protected={UUID(int=3): TEXTS[2]},
    )


def test_retained_facts_are_counted_and_lost_or_moved_ones_are_reported() -> None:
    found = figures(refined("Ines: owns red kayak in Bergen; 41.", TEXTS[2]))
    assert (found.memories_before, found.memories_after) == (3, 2)
    assert (found.kept_whole, found.kept_each, found.answers_kept) == (1.0, 1.0, 1.0)
    assert (found.protected, found.protected_changed) == ((TEXTS[2],), 0)
    found = figures(refined("Ines: owns kayak.", "Ines is 41 in Bergen, promised Bo a violin."))
    assert found.kept_whole == 1.0
    assert found.kept_each == pytest.approx(1 - 2 / 6)
    assert found.answers_kept == 0.5
    assert found.protected_changed == 1
    gone = replace(refined(TEXTS[0], TEXTS[2]), protected={UUID(int=2): TEXTS[1]})
    assert figures(gone).protected_changed == 1


@pytest.mark.parametrize(("merged", "kept"), [("since May 2021", 1.0), ("since May 2020", 2 / 3)])
def test_a_span_of_time_that_became_a_date_counts_as_kept(merged: str, kept: float) -> None:
    given = refined(f"Ines owns a red kayak {merged}; 41.", TEXTS[2])
    (question,) = given.core.questions
    core = replace(given.core, questions=(replace(question, answer="a red kayak for two years"),))
    kayak = replace(given.before[UUID(int=1)], text="Ines has owned a red kayak for two years.")
    assert figures(replace(given, core=core, before={**given.before, UUID(int=1): kayak})).answers_kept == kept


def conversation(name: str, count: int) -> Conversation:
    turns = tuple(Turn(id=f"D1:{n}", session=1, speaker="Ines", text="Yes.", said_at=MOMENT) for n in range(count))
    observed = tuple(
        Observation(
            subject="Ines", text=f"Ines told of boat number {n} of the {name}.", turn_ids=(turn.id,), dated=MOMENT
        )
        for n, turn in enumerate(turns)
    )
    asked = (Question(text="Which?", evidence=frozenset({"D1:0", f"D1:{count - 1}"}), category=1),)
    return Conversation(id=name, turns=turns, observations=observed, questions=asked)


def test_a_core_memory_is_taken_when_it_has_outgrown_its_budget() -> None:
    (core,) = of_conversations([conversation("north", 900), conversation("south", 900)])
    assert OUTGROWN_TOKENS < core.tokens < OUTGROWN_TOKENS + 20
    assert core.target == TARGET_TOKENS
    assert [question.evidence for question in core.questions] == [{"north D1:0"}]
    (small,) = of_conversations([conversation("north", 3)])
    assert small.target == small.tokens * TARGET_TOKENS // OUTGROWN_TOKENS
    assert small.questions[0].evidence == {"north D1:0", "north D1:2"}


def test_refinement_harness_runs_through_the_product_on_any_file(
    data: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["refinement", "--data", str(data), "--embedder", "hash"])
    refinement.main()
    printed = capsys.readouterr().out
    (row,) = [line for line in printed.splitlines() if line.startswith("│ tiny ")]
    cells = [cell.strip() for cell in row.strip("│").split("│")]
    counts = ["4 → 3", "25 → 23", "15", "100.0%", "100.0%", "0, 0 changed", "2", "100.0%"]
    assert cells[1:] == [*counts, "100.0 → 100.0", "100.0 → 100.0"]
    assert "│ example conversations │" in printed
    assert "tiny: there is no more than this; the target is lower in the same proportion" in printed
