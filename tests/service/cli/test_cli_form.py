"""`mnemic form` reads what people have in files, names each bad line, and forms nothing twice; and `mnemic demo`."""

import json
import os
import shlex
import threading
import tracemalloc
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from mnemic.service.cli import message_files
from mnemic.service.cli.message_files import FileMessage, read_messages
from tests.service.cli.conftest import Command
from tests.support.loopback import LoopbackModel
from tests.support.scripted import (
    CONSOLIDATION,
    FACTS,
    REFLECTIONS,
    consolidation,
    fact,
    facts,
    reflection,
    reflections,
)

WHO = ("--agent", "guide", "--user", "ana")


def line(content: object, *, session: str = "monday", role: str = "user", **more: Any) -> str:
    return json.dumps({"session": session, "role": role, "content": content, **more})


def write(path: Path, lines: Iterable[str]) -> Path:
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def formed(mnemic: Command, *words: object, user: str = "ana") -> dict[str, Any]:
    """What `form --json` printed, which is one document and nothing else."""
    result = mnemic("form", *words, "--agent", "guide", "--user", user, "--json")
    document: dict[str, Any] = json.loads(result.stdout)
    return document


def accepted(document: dict[str, Any]) -> dict[str, int]:
    return {session["session"]: session["accepted"] for session in document["sessions"]}


def test_the_same_file_again_forms_nothing_twice(mnemic: Command, tmp_path: Path) -> None:
    file = write(tmp_path / "talk.jsonl", map(line, ["My sister Lea is allergic to nuts.", "ok", "ok", "ok"]))
    assert accepted(formed(mnemic, file)) == {"monday": 4}
    before = json.loads(mnemic("memories", *WHO, "--all", "--json").stdout)

    again = mnemic("form", file, *WHO)

    assert (again.exit_code, "4 messages read, 0 of them new" in again.stdout) == (0, True)
    assert json.loads(mnemic("memories", *WHO, "--all", "--json").stdout) == before
    assert accepted(formed(mnemic, file, user="bo")) == {"monday": 4}  # of another person they are theirs


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
    messages: list[Any] = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": [{"type": "text", "text": "My piano teacher is called Ilse."}]},
        {"role": "assistant", "content": None, "tool_calls": [{"id": "1", "type": "function"}]},
        {"role": "assistant", "content": "Noted."},
        {"content": "nobody said this"},
        *(None, 5, []),
    ]
    file = tmp_path / "tuesday.json"
    file.write_text(json.dumps(messages), encoding="utf-8")

    result = mnemic("form", file, *WHO, "--json")

    assert result.exit_code == 1
    document = json.loads(result.stdout)
    assert accepted(document) == {"tuesday": 2}
    assert [found["line"] for found in document["malformed"]] == [5, 6, 7, 8]
    assert document["malformed"][0]["reason"] == "role: is missing"
    assert "Ilse" in mnemic("query", "piano teacher", *WHO).stdout


def test_an_id_that_cannot_be_used_is_one_line(mnemic: Command, tmp_path: Path) -> None:
    file = write(tmp_path / "talk.jsonl", [line("Hello.")])
    for option, bad in (("--user", " ana"), ("--group", "x" * 200)):
        result = mnemic("form", file, *WHO, option, bad)
        assert (result.exit_code, result.stdout, result.stderr.count("\n")) == (2, "", 1)
        assert result.stderr.startswith(f"mnemic: {option}: must be printable text")


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


def test_operator_files_keep_their_authors_and_the_log_names_the_submitter(
    mnemic: Command, online: dict[str, str], model: LoopbackModel, tmp_path: Path
) -> None:
    model.answer(FACTS, facts(fact("Ana keeps bees.", 1), fact("Bo repairs old clocks.", 2)))
    file = write(
        tmp_path / "talk.jsonl",
        [line("I keep bees.", author="ana"), line("I repair old clocks.", user="bo"), line("Hm.")],
    )
    assert mnemic("form", file, *WHO).exit_code == 0
    (operation,) = json.loads(mnemic("audit", "log", "--agent", "guide", "--user", "bo", "--json").stdout)
    assert (operation["events"], operation["actor"], operation["submitted_by"]) == ({"ADD": 1}, "ana", ["ana"])
    assert "messages of others submitted by" in " ".join(
        mnemic("audit", "log", "--agent", "guide", "--user", "bo").stdout.split()
    )


# -- files as they should not be

CANARY = "squeamish ossifrage"


def good(number: int) -> bytes:
    return line(f"Remark {number}.").encode()


def bad(**fields: Any) -> bytes:
    return line(**{"content": CANARY, **fields}).encode()


MALFORMED: dict[str, bytes] = {
    "no JSON": CANARY.encode(),
    "cut off": bad()[:-1],
    "not UTF-8": b'{"session": "monday", "role": "user", "content": "\xff\xfe"}',
    "an array": b'["squeamish ossifrage"]',
    "deep nesting": b"[" * 100_000,
    "a huge line": bad(content="x" * (message_files.MAX_LINE_BYTES + 1)),
    "a key twice": bad()[:-1] + b', "content": "other"}',
    "NaN": bad()[:-1] + b', "importance": NaN}',
    "a number of 5,000 digits": bad()[:-1] + b', "id": ' + b"9" * 5000 + b"}",
    "no session": b'{"role": "user", "content": "squeamish ossifrage"}',
    "a session with a line end": bad(session="a\nb"),
    "an unknown role": bad(role="robot"),
    "a part's text of another type": bad(content=[{"text": {"value": CANARY}}]),
    "a hidden name": bad(author="a\u202eb"),
    "no date": bad(time="yesterday"),
    "a far year": bad(time="294277-01-09T04:00:54Z"),
    "a long id": bad(id="x" * 1001),
    "an unknown field": bad(athor="ana"),
}


def test_every_malformed_line_is_named_by_number_and_the_others_are_kept(mnemic: Command, tmp_path: Path) -> None:
    lines = [row for number, bad_line in enumerate(MALFORMED.values()) for row in (good(number), bad_line)]
    lines = [b"\xef\xbb\xbf" + good(-1) + b"\r", b"", b"   \r", *lines, b'{"session": "monday", "role": "us']
    file = tmp_path / "talk.jsonl"
    file.write_bytes(b"\n".join(lines))

    result = mnemic("form", file, *WHO, "--json")

    document = json.loads(result.stdout)
    assert result.exit_code == 1
    assert [malformed["line"] for malformed in document["malformed"]] == [
        *range(5, 4 + 2 * len(MALFORMED), 2),
        len(lines),
    ]
    assert document["malformed_lines"] == len(MALFORMED) + 1
    assert document["read"] == document["sessions"][0]["accepted"] == len(MALFORMED) + 1
    assert CANARY not in result.stdout + result.stderr

    named = [row.split(":", 2)[1:] for row in result.stderr.splitlines() if row.startswith(str(file))]
    assert [int(number) for number, _ in named] == [malformed["line"] for malformed in document["malformed"]][:20]
    assert named[0][1].strip() == "not JSON"
    (unknown,) = [words for _, words in named if "athor" in words]
    assert "author" in unknown
    again = mnemic("form", file, *WHO)
    assert (again.exit_code, f"{len(MALFORMED) + 1} malformed lines were skipped" in again.stdout) == (1, True)


def test_first_of_many_malformed_lines_are_listed_and_all_are_counted(mnemic: Command, tmp_path: Path) -> None:
    file = tmp_path / "talk.jsonl"
    file.write_bytes(b"x\n" * 5000)

    result = mnemic("form", file, *WHO, "--json")

    document = json.loads(result.stdout)
    assert (result.exit_code, document["malformed_lines"], len(document["malformed"])) == (1, 5000, 1000)
    assert result.stderr.count("not JSON") == 20


def test_a_file_that_cannot_be_read_as_its_name_says_is_one_line(mnemic: Command, tmp_path: Path) -> None:
    file = tmp_path / "talk.json"
    for content in (b"", b"[", b"{}", b"null", b"\xff", b"[" * 100_000, b"NaN"):
        file.write_bytes(content)
        result = mnemic("form", file, *WHO)
        assert (result.exit_code, result.stdout, "one array of messages" in result.stderr) == (2, "", True), content
    with file.open("wb") as sparse:  # too large to be read whole
        sparse.truncate(message_files.MAX_ARRAY_BYTES + 1)
    result = mnemic("form", file, *WHO)
    assert (result.exit_code, "one message a line" in result.stderr) == (2, True)
    for path in (tmp_path, tmp_path / "nowhere.jsonl"):
        assert mnemic("form", path, *WHO).exit_code == 2
    twin = tmp_path / "old" / "talk.json"
    twin.parent.mkdir()
    for each in (file, twin):
        each.write_text('[{"role": "user", "content": "Hello."}]', encoding="utf-8")
    result = mnemic("form", file, twin, *WHO)
    assert (result.exit_code, "talk: rename" in result.stderr) == (2, True)


def test_a_pipe_is_read_to_its_end(mnemic: Command, tmp_path: Path) -> None:
    pipe = tmp_path / "talk.jsonl"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_bytes, args=(good(1) + b"\n" + good(2),))
    writer.start()
    assert formed(mnemic, pipe)["read"] == 2
    writer.join()


@pytest.mark.thorough
def test_ten_times_the_messages_take_no_more_memory(tmp_path: Path) -> None:
    """A dict with the digest of each takes 3.5 MB more, and fails."""
    peaks = []
    for messages in (4_000, 40_000):
        lines = (line(f"Remark {number} of many.", session=f"s{number % 1000}") for number in range(messages))
        file = write(tmp_path / "talk.jsonl", lines)
        tracemalloc.start()
        assert all(isinstance(found, FileMessage) for found in read_messages([file]))
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] - peaks[0] < 1 << 20


# -- answers that nobody can use

BEES = "Ana keeps bees."
GOOD: dict[str, BaseModel] = {
    FACTS: facts(fact(BEES)),
    REFLECTIONS: reflections(user=[reflection("Ana wants short answers.")]),
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


def test_empty_answer_forms_nothing_and_refused_and_uncovered_are_counted(
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
    assert "uncovered messages: 3" in again.stdout


def test_nothing_came_of_it_and_nobody_said_that_there_is_nothing(
    mnemic: Command, talk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("RAG", "ALWAYS_IN_CONTEXT"):
        monkeypatch.setenv(f"MNEMIC_{name}", "false")
    result = mnemic("form", talk, *WHO)

    assert result.exit_code == 1
    assert "session 01-garden: no memory was formed of 4 messages" in result.stderr


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
    assert (result.exit_code, result.stderr) == (0, "")  # no progress bar where nobody watches
    lines = result.stdout.splitlines()
    assert all(words in lines[0] for words in ("8 messages", "2 conversations", "2 people"))
    assert all(words in lines[1] for words in ("offline rules", "hash", "Postgres at"))
    shown = " ".join(result.stdout.split())
    for expected in ("Stored: ", "Ana: What is my sister allergic to?", "walnuts", "4 May"):
        assert expected in shown
    hints = [shlex.split(line)[1:] for line in lines if line.strip().startswith("mnemic ")]
    assert [words[0] for words in hints] == ["memories", "chat"]
    assert [mnemic(*words, typed="").exit_code for words in hints] == [0, 0]

    document = json.loads(mnemic("demo", corpus, "--json").stdout)
    assert document["agent_id"].startswith("demo-")
    assert document["agent_id"] not in hints[0]  # each has its own
    assert accepted(document) == {"01-garden": 4, "02-greenhouse": 4}
    assert document["people"] == ["ana", "bo"]
    assert [answer["question"]["user"] for answer in document["answers"]] == ["ana", "bo"]
    assert all(answer["tokens"] > 0 for answer in document["answers"])
    assert any("walnut" in found["content"] for found in document["answers"][0]["memories"])


def test_demo_continues_and_prints_refused_drafts_and_uncovered_messages(
    mnemic: Command, model: LoopbackModel, talk: Path
) -> None:
    some = facts(fact(BEES), fact("I sell honey.", 2), nothing_else=False)
    model.answer(FACTS, lambda request: some if "greenhouse" in str(request) else facts(nothing_else=False))
    result = mnemic("demo", talk.parent)
    shown = " ".join(result.stdout.split())
    for expected in (
        "01-garden: openai:gpt-fast gave no usable answer for extract_facts, twice",
        BEES,
        "drafts refused: 1 (1 first_person)",
        "uncovered messages: 3",
    ):
        assert (result.exit_code, expected in shown) == (1, True), expected


def test_a_demo_without_conversations_or_questions_is_one_line(mnemic: Command, tmp_path: Path) -> None:
    result = mnemic("demo", tmp_path)
    assert (result.exit_code, result.stdout, "has no conversation" in result.stderr) == (2, "", True)
    (tmp_path / "talk.jsonl").write_bytes(bad(author="ana"))
    for content in ("[", "5", '{"questions": [{"question": 5}]}', "[" * 100_000):
        (tmp_path / "expected.json").write_text(content, encoding="utf-8")
        result = mnemic("demo", tmp_path)
        assert (result.exit_code, result.stdout, "Traceback" in result.stderr) == (2, "", False), content
