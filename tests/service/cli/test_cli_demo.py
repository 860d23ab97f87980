"""`mnemic demo` on two small conversations."""

import json
import shlex
from pathlib import Path

import pytest

from tests.service.cli.conftest import Command

SOLO = [
    ("ana", "Hello, I need a plan for the garden."),
    ("assistant", "Tell me about it."),
    ("ana", "My sister Lea is allergic to walnuts, so no walnut tree."),
    ("ana", "thanks, that is all"),
]
TEAM = [
    ("ana", "Bo, when do we open the greenhouse?"),
    ("bo", "We open it on 4 May, I asked the town."),
    ("ana", "good"),
    ("bo", "see you there"),
]


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    for name, talk in (("01-garden", SOLO), ("02-greenhouse", TEAM)):
        lines = [
            {
                "session": name,
                "role": "assistant" if author == "assistant" else "user",
                "author": author,
                "content": content,
                "time": f"2026-03-02T09:{minute:02}:00Z",
            }
            for minute, (author, content) in enumerate(talk)
        ]
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    questions = [
        {"question": "What is my sister allergic to?", "user": "ana", "group": None, "answer": [["walnuts"]]},
        {"question": "When does the greenhouse open?", "user": "bo", "group": "harbor", "answer": [["4 May"]]},
    ]
    (tmp_path / "expected.json").write_text(json.dumps({"questions": questions}), encoding="utf-8")
    return tmp_path


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
    assert [session["messages"] for session in document["sessions"]] == [4, 4]
    assert document["sessions"][1]["people"] == ["ana", "bo"]
    assert [answer["question"]["user"] for answer in document["answers"]] == ["ana", "bo"]
    assert all(answer["tokens"] > 0 for answer in document["answers"])
    assert any("walnut" in found["content"] for found in document["answers"][0]["memories"])


def test_a_directory_without_conversations_is_one_line(mnemic: Command, tmp_path: Path) -> None:
    result = mnemic("demo", tmp_path)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "holds no conversation" in result.stderr
