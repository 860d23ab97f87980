"""What `mnemic form` says of answers that nobody can use, and how it ends; and `mnemic demo`."""

import json
import shlex
from pathlib import Path

import pytest
from pydantic import BaseModel

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
TALKS = {
    "01-garden": [
        ("ana", "Hello, I need a plan for the garden."),
        ("assistant", "Tell me about it."),
        ("ana", "My sister Lea is allergic to walnuts, so no walnut tree."),
        ("ana", "thanks, that is all"),
    ],
    "02-greenhouse": [
        ("ana", "Bo, when do we open the greenhouse?"),
        ("bo", "We open it on 4 May, I asked the town."),
        ("ana", "good"),
        ("bo", "see you there"),
    ],
}
QUESTIONS = [
    {"question": "What is my sister allergic to?", "user": "ana", "group": None, "answer": [["walnuts"]]},
    {"question": "When does the greenhouse open?", "user": "bo", "group": "harbor", "answer": [["4 May"]]},
]


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    for name, talk in TALKS.items():
        rows = [
            {"session": name, "role": "assistant" if author == "assistant" else "user", "author": author}
            | {"content": content, "time": f"2026-03-02T09:{minute:02}:00Z"}
            for minute, (author, content) in enumerate(talk)
        ]
        (tmp_path / f"{name}.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    (tmp_path / "expected.json").write_text(json.dumps({"questions": QUESTIONS}), encoding="utf-8")
    return tmp_path


@pytest.fixture
def talk(corpus: Path, online: dict[str, str], model: LoopbackModel) -> Path:
    """The file of the first conversation; everything is answered well."""
    for output, good in GOOD.items():
        model.answer(output, good)
    return corpus / "01-garden.jsonl"


def test_an_answer_without_drafts_forms_nothing_and_refused_drafts_and_unaccounted_messages_are_counted(
    mnemic: Command, model: LoopbackModel, talk: Path
) -> None:
    model.answer(FACTS, facts(nothing_else=False))
    shown, document = mnemic("form", talk, *WHO), mnemic("form", talk, *WHO, "--json")
    assert (shown.exit_code, "stored: nothing new" in shown.stdout) == (1, True)
    assert "no usable answer for extract_facts, twice: " in shown.stderr
    assert not any(text in shown.stderr for _, text in TALKS["01-garden"])
    (session,) = json.loads(document.stdout)["sessions"]
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
    assert "session 01-garden: nothing came of 4 messages" in result.stderr


def test_a_refused_consolidation_is_named(
    mnemic: Command, model: LoopbackModel, talk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MNEMIC_USER_THRESHOLD", "1")
    model.answer(CONSOLIDATION, consolidation("bees " * 300))
    result = mnemic("form", talk, *WHO)

    assert result.exit_code == 1
    assert "the consolidation of user:ana ended as: refused (degenerate)" in result.stderr
    assert "stored: 1 facts, 1 reflections" in result.stdout


# -- `mnemic demo`


def test_the_demo_shows_what_it_ran_on_what_was_formed_and_what_is_found(mnemic: Command, corpus: Path) -> None:
    result = mnemic("demo", corpus)
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert "offline rules" in lines[0]
    assert "hash" in lines[0]
    assert "Postgres at" in lines[0]
    assert "8 messages, 2 conversations, 2 people" in lines[1]
    shown = " ".join(result.stdout.split())
    for expected in ("01-garden", "02-greenhouse", "Ana: What is my sister allergic to?", "walnuts", "4 May"):
        assert expected in shown
    assert result.stderr == ""  # no progress bar where nobody watches
    hints = [shlex.split(line)[1:] for line in lines if line.strip().startswith("mnemic ")]
    assert [words[0] for words in hints] == ["memories", "recall"]
    for words in hints:
        assert mnemic(*words).exit_code == 0


def test_every_demo_has_an_agent_and_one_document_of_its_own(mnemic: Command, corpus: Path) -> None:
    document = json.loads(mnemic("demo", corpus, "--json").stdout)
    assert document["agent_id"].startswith("demo-")
    assert [session["accepted"] for session in document["sessions"]] == [4, 4]
    assert document["people"] == ["ana", "bo"]
    assert [answer["question"]["user"] for answer in document["answers"]] == ["ana", "bo"]
    assert all(answer["tokens"] > 0 for answer in document["answers"])
    assert any("walnut" in found["content"] for found in document["answers"][0]["memories"])


def test_the_demo_goes_on_and_says_what_was_refused_and_what_nothing_came_of(
    mnemic: Command, model: LoopbackModel, talk: Path
) -> None:
    some = facts(fact(BEES), fact("I sell honey.", 2), nothing_else=False)
    model.answer(FACTS, lambda request: some if "greenhouse" in str(request) else facts(nothing_else=False))
    result = mnemic("demo", talk.parent)

    assert result.exit_code == 1
    shown = " ".join(result.stdout.split())
    assert "01-garden: openai:gpt-fast gave no usable answer for extract_facts, twice" in shown
    assert BEES in shown
    assert "drafts refused: 1 (1 first_person)" in shown
    garden, greenhouse = json.loads(mnemic("demo", talk.parent, "--json").stdout)["sessions"]
    assert (garden["runs"], "extract_facts" in garden["problem"]) == ([], True)
    assert (greenhouse["runs"][0]["refused"], greenhouse["runs"][0]["unaccounted"]) == ({"first_person": 1}, 3)


def test_a_directory_without_conversations_is_one_line(mnemic: Command, tmp_path: Path) -> None:
    result = mnemic("demo", tmp_path)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "holds no conversation" in result.stderr
