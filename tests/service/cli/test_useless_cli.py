"""What `mnemic form` and `mnemic demo` say of answers that nobody can use, and how they end."""

import json
from pathlib import Path

import pytest
from pydantic import BaseModel

from tests.faults.useless_answers import SAID, Useless, useless_answers
from tests.service.cli.conftest import Command
from tests.support.loopback import LoopbackModel
from tests.support.scripted import (
    CONSOLIDATION,
    FACTS,
    OBSERVATIONS,
    REFLECTIONS,
    consolidation,
    fact,
    facts,
    observation,
    observations,
    reflection,
    reflections,
)

WHO = ("--agent", "guide", "--user", "ana")
BEES = "Ana keeps bees."
GOOD: dict[str, BaseModel] = {
    FACTS: facts(fact(BEES)),
    REFLECTIONS: reflections(user=[reflection("Ana wants short answers.")]),
    OBSERVATIONS: observations(observation(BEES)),
}
STEPS = {FACTS: "extract_facts", REFLECTIONS: "extract_reflections", OBSERVATIONS: "extract_observations"}
#: One of each sort.
SOME = {
    (item.step, item.name.rstrip("0123456789[], -")): item for item in useless_answers() if not item.goes_on
}.values()


@pytest.fixture
def talk(tmp_path: Path, online: dict[str, str], model: LoopbackModel) -> Path:
    """A file of one conversation; everything is answered well."""
    for output, good in GOOD.items():
        model.answer(output, good)
    rows = [
        {
            "session": "monday",
            "role": "assistant" if text.startswith("assistant: ") else "user",
            "content": text.removeprefix("assistant: "),
            "time": f"2026-03-02T09:0{minute}:00Z",
        }
        for minute, text in enumerate(SAID)
    ]
    file = tmp_path / "01-talk.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return file


@pytest.fixture
def of_ana(talk: Path) -> Path:
    """The folder of the conversation, in which the speaker is named as a demo needs it."""
    talk.write_text(talk.read_text("utf-8").replace('"role": "user"', '"role": "user", "author": "ana"'), "utf-8")
    return talk.parent


@pytest.mark.thorough
@pytest.mark.parametrize("useless", [pytest.param(item, id=f"{item.step}, {item.name}") for item in SOME])
def test_a_useless_answer_is_named_and_the_same_command_forms_later(
    mnemic: Command, model: LoopbackModel, talk: Path, monkeypatch: pytest.MonkeyPatch, useless: Useless
) -> None:
    if useless.step == OBSERVATIONS:
        monkeypatch.setenv("MNEMIC_EXTRACTION", "single")
    model.answer(useless.step, useless.answer)
    result = mnemic("form", talk, *WHO)

    assert result.exit_code == 1
    assert f"no usable answer for {STEPS[useless.step]}, twice: " in result.stderr
    assert any(word in result.stderr for word in ("drafts cannot be used (", "no word that there is nothing"))
    assert not any(text.removeprefix("assistant: ") in result.stderr for text in SAID)
    assert "stored: nothing new" in result.stdout

    model.answer(useless.step, GOOD[useless.step])
    again = mnemic("form", talk, *WHO)
    assert (again.exit_code, "stored: nothing new" in again.stdout) == (0, False)
    assert BEES in mnemic("memories", *WHO).stdout


def test_an_answer_without_drafts_forms_nothing_and_refused_drafts_and_unaccounted_messages_are_counted(
    mnemic: Command, model: LoopbackModel, talk: Path
) -> None:
    model.answer(FACTS, facts(nothing_else=False))
    (session,) = json.loads(mnemic("form", talk, *WHO, "--json").stdout)["sessions"]
    assert (session["runs"], "extract_facts" in session["problem"]) == ([], True)

    model.answer(FACTS, facts(fact(BEES), fact("I sell honey.", 2), nothing_else=False))
    again = mnemic("form", talk, *WHO)
    assert again.exit_code == 0
    assert "drafts refused: 1 (1 first_person)" in again.stdout
    assert "messages that no memory accounts for: 3" in again.stdout


def test_nothing_came_of_it_and_nobody_said_that_there_is_nothing(
    mnemic: Command, talk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("RAG", "ALWAYS_IN_CONTEXT"):
        monkeypatch.setenv(f"MNEMIC_{name}", "false")
    result = mnemic("form", talk, *WHO)

    assert result.exit_code == 1
    assert "session monday: nothing came of 4 messages" in result.stderr


def test_a_model_that_says_there_is_nothing_is_believed(mnemic: Command, model: LoopbackModel, talk: Path) -> None:
    model.answer(FACTS, facts())
    model.answer(REFLECTIONS, reflections())
    result = mnemic("form", talk, *WHO)

    assert (result.exit_code, result.stderr.count("\n")) == (0, 1)
    assert "stored: nothing new" in result.stdout


def test_a_refused_consolidation_is_named(
    mnemic: Command, model: LoopbackModel, talk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MNEMIC_USER_THRESHOLD", "1")
    model.answer(CONSOLIDATION, consolidation("bees " * 300))
    result = mnemic("form", talk, *WHO)

    assert result.exit_code == 1
    assert "the consolidation of user:ana ended as: refused (degenerate)" in result.stderr
    assert "stored: 1 facts, 1 reflections" in result.stdout


def test_the_demo_goes_on_and_says_it(mnemic: Command, model: LoopbackModel, of_ana: Path) -> None:
    other = [{"session": "tuesday", "role": "user", "author": "bo", "content": f"Tuesday {n}"} for n in "abcd"]
    (of_ana / "02-tuesday.jsonl").write_text("\n".join(map(json.dumps, other)), encoding="utf-8")
    model.answer(FACTS, lambda request: GOOD[FACTS] if "Tuesday" in str(request) else facts(nothing_else=False))
    result = mnemic("demo", of_ana)

    assert result.exit_code == 1
    shown = " ".join(result.stdout.split())
    assert "monday: openai:gpt-fast gave no usable answer for extract_facts, twice" in shown
    assert BEES in shown


@pytest.mark.parametrize("words", [(), ("--json",)])
def test_the_demo_counts_what_was_refused(
    mnemic: Command, model: LoopbackModel, of_ana: Path, words: tuple[str, ...]
) -> None:
    model.answer(FACTS, facts(fact(BEES), fact("I sell honey.", 2), nothing_else=False))
    shown = mnemic("demo", of_ana, *words).stdout
    if not words:
        assert "drafts refused: 1 (1 first_person)" in shown
        return
    (session,) = json.loads(shown)["sessions"]
    counts = session["counts"]
    assert (counts["refused"], counts["unaccounted"], session["complaints"]) == ({"first_person": 1}, 3, [])
