"""Files as they should not be: each bad line is named by its number, the others are kept, nothing is a traceback."""

import json
import os
import threading
from pathlib import Path

import pytest

from mnemic.service.cli import message_files
from tests.service.cli.conftest import Command

WHO = ("--agent", "guide", "--user", "ana")
CANARY = "squeamish ossifrage"


def good(number: int) -> bytes:
    return json.dumps({"session": "monday", "role": "user", "content": f"Remark {number}."}).encode()


def bad(**fields: object) -> bytes:
    return json.dumps({"session": "monday", "role": "user", "content": CANARY, **fields}).encode()


MALFORMED: dict[str, bytes] = {
    "no JSON": CANARY.encode(),
    "cut off": bad()[:-1],
    "two objects": bad() + bad(),
    "not UTF-8": b'{"session": "monday", "role": "user", "content": "\xff\xfe"}',
    "UTF-16": bad().decode().encode("utf-16-le"),
    "nothing but null": b"null",
    "a number": b"5",
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
    "a part of another type": bad(content=[7]),
    "a part's text of another type": bad(content=[{"text": {"value": CANARY}}]),
    "a hidden name": bad(author="a\u202eb"),
    "no date": bad(time="yesterday"),
    "a far year": bad(time="294277-01-09T04:00:54Z"),
    "the year 1": bad(time="0001-01-01"),
    "a time as a number": bad(time=1e300),
    "a long id": bad(id="x" * 1001),
    "an id of another type": bad(id=[CANARY]),
}


def test_every_malformed_line_is_named_by_number_and_the_others_are_kept(mnemic: Command, tmp_path: Path) -> None:
    lines = [line for number, bad_line in enumerate(MALFORMED.values()) for line in (good(number), bad_line)]
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

    named = [line.split(":", 2)[1:] for line in result.stderr.splitlines() if line.startswith(str(file))]
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


@pytest.mark.parametrize("content", [b"", b"[", b"{}", b"null", b"\xff", b"[" * 100_000, b"NaN"])
def test_a_file_that_is_no_array_is_one_line(mnemic: Command, tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "talk.json"
    file.write_bytes(content)

    result = mnemic("form", file, *WHO)

    assert (result.exit_code, result.stdout) == (2, "")
    assert "one array of messages" in result.stderr


def test_the_items_of_an_array_that_are_no_messages_are_named(mnemic: Command, tmp_path: Path) -> None:
    file = tmp_path / "talk.json"
    file.write_text('[null, 5, {"role": "user", "content": "Hello."}, [], {"role": "user"}]', encoding="utf-8")

    result = mnemic("form", file, *WHO, "--json")

    document = json.loads(result.stdout)
    assert (result.exit_code, document["read"]) == (1, 1)
    assert [malformed["line"] for malformed in document["malformed"]] == [1, 2, 4, 5]


def test_an_array_too_large_to_be_read_whole_is_refused(mnemic: Command, tmp_path: Path) -> None:
    file = tmp_path / "talk.json"
    with file.open("wb") as sparse:
        sparse.truncate(message_files.MAX_ARRAY_BYTES + 1)

    result = mnemic("form", file, *WHO)

    assert result.exit_code == 2
    assert "one message a line" in result.stderr


def test_what_is_no_file_is_refused(mnemic: Command, tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "nowhere.jsonl"):
        assert mnemic("form", path, *WHO).exit_code == 2


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
