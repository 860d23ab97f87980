"""The refinement harness: its figures on a core memory of three, and all of it on a conversation of a minute."""

import json
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from benchmarks.recall_quality.locomo import Conversation, Observation, Question, Turn
from benchmarks.refinement import __main__ as harness
from benchmarks.refinement.cores import OUTGROWN_TOKENS, TARGET_TOKENS, Core, Given, of_conversations
from benchmarks.refinement.figures import figures
from benchmarks.refinement.refining import Refined
from mnemic.policy.text.shape import count_tokens
from mnemic.state.records import Memory

MOMENT = datetime(2023, 5, 8, tzinfo=UTC)
TEXTS = ["Ines owns a red kayak in Bergen.", "Ines is 41.", "Ines promised Bo a violin."]


def given(text: str, *turns: str) -> Given:
    return Given(
        text=text, subject="Ines", subject_user_id="ines", category="knowledge", dated=MOMENT, turn_ids=frozenset(turns)
    )


def living(number: int, content: str, *, protected: bool = False) -> Memory:
    return Memory(
        id=UUID(int=number),
        kind="core",
        scope_key="agent:x",
        category="knowledge",
        content=content,
        subject="Ines",
        subject_user_id="ines",
        importance=2,
        pinned=False,
        protected=protected,
        private=False,
        provenance="consolidated",
        state="active",
        tokens=count_tokens(content),
        version=1,
        valid_from=MOMENT,
        valid_until=None,
        superseded_by=None,
        source_session_id=None,
        created_at=MOMENT,
        updated_at=MOMENT,
    )


def refined(merged: str, promise: str) -> Refined:
    question = Question(text="What does Ines own?", evidence=frozenset({"a"}), category=4, answer="a red kayak")
    core = Core(
        name="three",
        memories=tuple(given(text, turn) for text, turn in zip(TEXTS, "abc", strict=True)),
        target=1,
        questions=(question,),
    )
    return Refined(
        core=core,
        result={},
        before={UUID(int=number): memory for number, memory in enumerate(core.memories, start=1)},
        after=[living(9, merged), living(3, promise, protected=True)],
        taken={UUID(int=9): [UUID(int=1), UUID(int=2)], UUID(int=3): [UUID(int=3)]},
    )


def test_what_is_kept_is_counted_over_all_and_in_the_memory_that_took_it_in() -> None:
    found = figures(refined("Ines: owns red kayak in Bergen; 41.", TEXTS[2]))
    assert (found.memories_before, found.memories_after) == (3, 2)
    assert (found.kept_whole, found.kept_each, found.answers_kept) == (1.0, 1.0, 1.0)
    assert (found.protected, found.protected_changed) == (1, 0)


def test_what_is_lost_or_moved_or_touched_shows() -> None:
    found = figures(refined("Ines: owns kayak.", "Ines is 41 in Bergen, promised Bo a violin."))
    assert found.kept_whole == 1.0
    assert found.kept_each == pytest.approx(1 - 2 / 6)
    assert found.answers_kept == 0.5
    assert found.protected_changed == 1


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


#: Two of them are put together without a model.
SPOKEN = ["Ines owns a red kayak in Bergen.", "Ines speaks Danish.", "Ines speaks Dutch."]
DIALOGUE: dict[str, Any] = {
    "sample_id": "tiny",
    "conversation": {
        "speaker_a": "Ines",
        "speaker_b": "Bo",
        "session_1_date_time": "1:56 pm on 8 May, 2023",
        "session_1": [
            {"speaker": "Ines", "dia_id": f"D1:{number}", "text": text} for number, text in enumerate(SPOKEN, start=1)
        ],
    },
    "observation": {
        "session_1_observation": {"Ines": [[text, f"D1:{number}"] for number, text in enumerate(SPOKEN, start=1)]}
    },
    "qa": [{"question": "Which boat does Ines own?", "answer": "a red kayak", "evidence": ["D1:1"], "category": 1}],
}


def test_the_harness_runs_through_the_product_on_any_such_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "tiny.json"
    path.write_text(json.dumps([DIALOGUE]), encoding="utf-8")
    monkeypatch.setattr(sys, "argv", ["refinement", "--data", str(path), "--embedder", "hash"])
    harness.main()
    printed = capsys.readouterr().out
    (row,) = [line for line in printed.splitlines() if line.startswith("│ tiny ")]
    cells = [cell.strip() for cell in row.strip("│").split("│")]
    assert cells[1:] == [
        "3 → 2",
        "18 → 16",
        "11",
        "100.0%",
        "100.0%",
        "0, 0 changed",
        "1",
        "100.0%",
        "100.0 → 100.0",
        "100.0 → 100.0",
    ]
    assert "│ example conversations │" in printed
    assert "tiny: there is no more than this; the target is lower in the same proportion" in printed


def test_without_data_the_harness_says_what_it_skips(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["refinement", "--embedder", "hash"])
    harness.main()
    printed = capsys.readouterr().out
    assert "Skipped: no conversation found in MNEMIC_DATA, which is not set" in printed
    assert "│ example conversations │" in printed
