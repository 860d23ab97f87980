"""`mnemic form` reads what people have in files, keeps what is good, and forms nothing twice."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.service.cli.conftest import Command
from tests.support.loopback import LoopbackModel
from tests.support.scripted import FACTS, fact, facts

WHO = ("--agent", "guide", "--user", "ana")


def line(content: object, *, session: str = "monday", role: str = "user", **more: Any) -> str:
    return json.dumps({"session": session, "role": role, "content": content, **more})


def write(path: Path, lines: Sequence[str]) -> Path:
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def formed(mnemic: Command, *words: object) -> dict[str, Any]:
    """What `form --json` printed, which is one document and nothing else."""
    document: dict[str, Any] = json.loads(mnemic("form", *words, *WHO, "--json").stdout)
    return document


def accepted(document: dict[str, Any]) -> dict[str, int]:
    return {session["session"]: session["accepted"] for session in document["sessions"]}


def test_the_same_file_again_forms_nothing_twice(mnemic: Command, tmp_path: Path) -> None:
    said = ["My sister Lea is allergic to nuts.", "ok", "ok", "ok"]
    file = write(tmp_path / "talk.jsonl", [line(content, author="ana") for content in said])
    assert accepted(formed(mnemic, file)) == {"monday": 4}
    before = json.loads(mnemic("memories", *WHO, "--all", "--json").stdout)

    again = mnemic("form", file, *WHO, "--json")

    assert again.exit_code == 0
    assert accepted(json.loads(again.stdout)) == {"monday": 0}
    assert json.loads(mnemic("memories", *WHO, "--all", "--json").stdout) == before


def test_a_mended_and_continued_file_brings_only_what_is_new(mnemic: Command, tmp_path: Path) -> None:
    lines = [line("I keep bees."), line("I keep bees.")[:-1], line("My cat is called Miso.")]
    file = write(tmp_path / "talk.jsonl", lines)
    assert accepted(formed(mnemic, file)) == {"monday": 2}

    write(file, [lines[0], line("I moved to Ghent."), lines[2], line("I sold the car.")])

    assert accepted(formed(mnemic, file)) == {"monday": 2}


def test_sessions_may_alternate_and_each_is_formed(
    mnemic: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mnemic.service.cli.form.HELD_MESSAGES", 500)  # so that both sessions are stored in parts
    lines = [line(f"Remark {number}.", session=f"s{number % 2}") for number in range(520)]
    document = formed(mnemic, write(tmp_path / "talk.jsonl", lines))
    assert accepted(document) == {"s0": 260, "s1": 260}
    for session in document["sessions"]:
        assert sum(run["formed"] for run in session["runs"]) == 260
        assert session["runs"][-1]["pending"] == 0


def test_an_array_of_messages_is_one_session_named_after_its_file(mnemic: Command, tmp_path: Path) -> None:
    messages = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": [{"type": "text", "text": "My piano teacher is called Ilse."}]},
        {"role": "assistant", "content": None, "tool_calls": [{"id": "1", "type": "function"}]},
        {"role": "assistant", "content": "Noted."},
        {"content": "nobody said this"},
    ]
    file = tmp_path / "tuesday.json"
    file.write_text(json.dumps(messages), encoding="utf-8")

    result = mnemic("form", file, *WHO, "--json")

    assert result.exit_code == 1
    document = json.loads(result.stdout)
    assert accepted(document) == {"tuesday": 2}
    assert [(found["line"], found["reason"]) for found in document["malformed"]] == [(5, "role: Field required")]
    assert "Ilse" in mnemic("query", "piano teacher", *WHO).stdout


def test_two_arrays_of_one_name_are_refused_before_anything_is_read(mnemic: Command, tmp_path: Path) -> None:
    files = [tmp_path / folder / "chat.json" for folder in ("old", "new")]
    for file in files:
        file.parent.mkdir()
        file.write_text('[{"role": "user", "content": "Hello."}]', encoding="utf-8")
    result = mnemic("form", *files, *WHO)
    assert result.exit_code == 2
    assert "chat" in result.stderr
    assert json.loads(mnemic("memories", *WHO, "--json").stdout) == []


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (("--agent", "guide", "--user", " ana"), "--user"),
        (("--agent", "guide\n", "--user", "ana"), "--agent"),
        (("--agent", "guide", "--user", "ana", "--group", "x" * 200), "--group"),
    ],
)
def test_an_id_that_cannot_be_used_is_one_line(
    mnemic: Command, tmp_path: Path, words: tuple[str, ...], named: str
) -> None:
    result = mnemic("form", write(tmp_path / "talk.jsonl", [line("Hello.")]), *words)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr.startswith(f"mnemic: {named}: an id is printable text")
    assert result.stderr.count("\n") == 1


@pytest.mark.thorough
def test_a_session_without_a_usable_answer_keeps_no_other_waiting(
    mnemic: Command, online: dict[str, str], model: LoopbackModel, tmp_path: Path
) -> None:
    model.answer(FACTS, lambda request: "no JSON" if "POISON" in str(request) else facts(fact("Ana keeps bees.")))
    file = write(tmp_path / "talk.jsonl", [line("POISON"), line("I keep bees.", session="tuesday")])
    for _ in range(5):
        result = mnemic("form", file, *WHO)
        assert result.exit_code == 1
        assert "session monday: openai:gpt-fast gave no usable answer" in result.stderr
    assert "Ana keeps bees." in mnemic("memories", *WHO).stdout

    result = mnemic("form", file, *WHO)
    assert result.exit_code == 1
    assert "session monday: no usable answer to 1 messages; they stay pending" in result.stderr


def test_words_of_others_in_the_operators_files_are_theirs_and_the_log_says_who_brought_them(
    mnemic: Command, online: dict[str, str], model: LoopbackModel, tmp_path: Path
) -> None:
    model.answer(FACTS, facts(fact("Ana keeps bees.", 1), fact("Bo repairs old clocks.", 2)))
    file = write(
        tmp_path / "talk.jsonl",
        [line("I keep bees.", author="ana"), line("I repair old clocks.", user="bo"), line("Hm.")],
    )
    assert mnemic("form", file, *WHO).exit_code == 0
    (operation,) = json.loads(mnemic("audit", "log", "--agent", "guide", "--user", "bo", "--json").stdout)
    assert (operation["events"], operation["actor"], operation["brought_by"]) == ({"ADD": 1}, "ana", ["ana"])
    assert "brought by ana" in " ".join(mnemic("audit", "log", "--agent", "guide", "--user", "bo").stdout.split())


def test_the_same_words_of_another_person_are_theirs(mnemic: Command, tmp_path: Path) -> None:
    file = write(tmp_path / "talk.jsonl", [line("My sister Lea is allergic to nuts.")])
    formed(mnemic, file)
    document: dict[str, Any] = json.loads(mnemic("form", file, "--agent", "guide", "--user", "bo", "--json").stdout)
    assert accepted(document) == {"monday": 1}
