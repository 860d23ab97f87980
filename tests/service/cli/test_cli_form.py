"""`mnemic form` reads what people have in files, keeps what is good, names each bad line, and forms nothing twice."""

import hashlib
import json
import os
import threading
import tracemalloc
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from mnemic.service.cli import message_files
from mnemic.service.cli.message_files import FileMessage, Reader
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
    texts = ["My sister Lea is allergic to nuts.", "ok", "ok", "ok"]
    file = write(tmp_path / "talk.jsonl", [line(content, author="ana") for content in texts])
    assert accepted(formed(mnemic, file)) == {"monday": 4}
    before = json.loads(mnemic("memories", *WHO, "--all", "--json").stdout)

    again = mnemic("form", file, *WHO, "--json")

    assert again.exit_code == 0
    assert accepted(json.loads(again.stdout)) == {"monday": 0}
    assert json.loads(mnemic("memories", *WHO, "--all", "--json").stdout) == before


def test_the_same_words_of_another_person_are_theirs(mnemic: Command, tmp_path: Path) -> None:
    file = write(tmp_path / "talk.jsonl", [line("My sister Lea is allergic to nuts.")])
    for user in ("ana", "bo"):
        document = json.loads(mnemic("form", file, "--agent", "guide", "--user", user, "--json").stdout)
        assert accepted(document) == {"monday": 1}


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
    assert document["malformed"][0]["reason"] == "role: Field required"
    assert "Ilse" in mnemic("query", "piano teacher", *WHO).stdout


@pytest.mark.parametrize(("option", "bad"), [("--user", " ana"), ("--agent", "guide\n"), ("--group", "x" * 200)])
def test_an_id_that_cannot_be_used_is_one_line(mnemic: Command, tmp_path: Path, option: str, bad: str) -> None:
    result = mnemic("form", write(tmp_path / "talk.jsonl", [line("Hello.")]), *WHO, option, bad)
    assert (result.exit_code, result.stdout, result.stderr.count("\n")) == (2, "", 1)
    assert result.stderr.startswith(f"mnemic: {option}: an id is printable text")


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


# -- files as they should not be

CANARY = "squeamish ossifrage"


def good(number: int) -> bytes:
    return line(f"Remark {number}.").encode()


def bad(**fields: Any) -> bytes:
    return line(**{"content": CANARY, **fields}).encode()


MALFORMED: dict[str, bytes] = {
    "no JSON": CANARY.encode(),
    "cut off": bad()[:-1],
    "two objects": bad() + bad(),
    "not UTF-8": b'{"session": "monday", "role": "user", "content": "\xff\xfe"}',
    "UTF-16": bad().decode().encode("utf-16-le"),
    "nothing but null": b"null",
    "a string": b'"squeamish ossifrage"',
    "an array": b'["squeamish ossifrage"]',
    "deep nesting": b"[" * 100_000,
    "a huge line": bad(content="x" * (message_files.MAX_LINE_BYTES + 1)),
    "a key twice": bad()[:-1] + b', "content": "other"}',
    "NaN": bad()[:-1] + b', "importance": NaN}',
    "a number of 5,000 digits": bad()[:-1] + b', "id": ' + b"9" * 5000 + b"}",
    "no session": b'{"role": "user", "content": "squeamish ossifrage"}',
    "no role": b'{"session": "monday", "content": "squeamish ossifrage"}',
    "no content": b'{"session": "monday", "role": "user"}',
    "a session of another type": bad(session=7),
    "a session with a line end": bad(session="a\nb"),
    "a long session": bad(session="x" * 129),
    "an unknown role": bad(role="robot"),
    "content of another type": bad(content=7),
    "a part's text of another type": bad(content=[{"text": {"value": CANARY}}]),
    "a hidden name": bad(author="a\u202eb"),
    "no date": bad(time="yesterday"),
    "a far year": bad(time="294277-01-09T04:00:54Z"),
    "a long id": bad(id="x" * 1001),
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
    again = mnemic("form", file, *WHO)
    assert (again.exit_code, f"{len(MALFORMED) + 1} malformed lines were left out" in again.stdout) == (1, True)


def test_of_very_many_malformed_lines_the_first_are_named_and_all_are_counted(mnemic: Command, tmp_path: Path) -> None:
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
    assert (result.exit_code, "talk: rename them" in result.stderr) == (2, True)


def test_a_pipe_is_read_to_its_end(mnemic: Command, tmp_path: Path) -> None:
    pipe = tmp_path / "talk.jsonl"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_bytes, args=(good(1) + b"\n" + good(2),))
    writer.start()

    result = mnemic("form", pipe, *WHO, "--json")

    writer.join()
    assert json.loads(result.stdout)["read"] == 2


def test_questions_of_a_demonstration_that_are_none_are_one_line(mnemic: Command, tmp_path: Path) -> None:
    (tmp_path / "talk.jsonl").write_bytes(bad(author="ana"))
    for content in ("[", "5", '{"questions": [{"question": 5}]}', "[" * 100_000):
        (tmp_path / "expected.json").write_text(content, encoding="utf-8")
        result = mnemic("demo", tmp_path)
        assert (result.exit_code, result.stdout) == (2, ""), content
        assert "Traceback" not in result.stderr


# -- files of any length

FEW, MANY = 4_000, 40_000
GROWTH_BYTES = 1 << 20


class InMemory(Reader):
    """What a reader must not do: it keeps every digest."""

    def __init__(self) -> None:
        super().__init__()
        self._counts: Counter[bytes] = Counter()

    def _count(self, text: str) -> int:
        digest = hashlib.sha256(text.encode()).digest()
        self._counts[digest] += 1
        return self._counts[digest]


def many(messages: int) -> list[str]:
    return [line(f"Remark {number} of many.", session=f"s{number % 1000}") for number in range(messages)]


def peak(path: Path, reader: Reader) -> int:
    """Most bytes that Python held while the file was read."""
    tracemalloc.start()
    with closing(reader):
        assert all(isinstance(found, FileMessage) for found in reader.read([path]))
    _, highest = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return highest


@pytest.mark.thorough
@pytest.mark.parametrize("reader", [Reader, pytest.param(InMemory, id="control")])
def test_ten_times_the_messages_take_no_more_memory(tmp_path: Path, reader: type[Reader]) -> None:
    small, large = (peak(write(tmp_path / "talk.jsonl", many(messages)), reader()) for messages in (FEW, MANY))
    assert (large - small < GROWTH_BYTES) == (reader is Reader)
