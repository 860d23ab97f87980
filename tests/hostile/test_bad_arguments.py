"""Bad arguments of every command: one message and exit code 2, or the command's own answer; never a traceback."""

import json
import re
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import psycopg
import pytest
from typer.main import get_command

from mnemic.service.cli.app import app
from tests.hostile.bad_values import BLANKS, TEXTS, counts, stored_texts, unclean
from tests.support.commands import invoke
from tests.support.matrix import mostly_thorough
from tests.support.server import Clone

_ID = "7d2c2f3e-6a51-4a4c-9f3c-1f8a1d7f7a10"
_KINDS = ("a lone surrogate", "terminal controls", "two lines", "SQL", "an empty string")
WORDS: dict[str, Callable[[], str]] = {kind: {**TEXTS, **BLANKS}[kind] for kind in _KINDS} | {"a number": lambda: "-1"}
#: What a command needs where another argument is the bad one.
_NEEDED = {
    "agent": "harbor",
    "user": "ana",
    "question": "bees",
    "files": "talk.jsonl",
    "file": "nowhere/file",
    "at": "0",
}
_NEEDED |= {"scope_key": "user:ana", "memory_id": _ID, "memory_ids": _ID, "ops": _ID}
#: An undoing names operations, or what else it goes by.
_UNDOING = {"since": {"session": "s1"}, "session": {"since": "2026-03-02T09:14:00Z"}, "refinement": {}}
#: They would do a great deal of work.
_NOWHERE = {"directory", "dump: file"}


def _commands(group: Any, *names: str) -> Iterator[tuple[str, tuple[str, ...], list[Any]]]:
    """Every command with its words and its arguments."""
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from _commands(command, *names, name)
        else:
            yield name, (*names, name), command.params


COMMANDS = {name: (words, parameters) for name, words, parameters in _commands(get_command(app))}


def _calls(name: str, word: str) -> Iterator[list[str]]:
    """The command with the word in the place of each of its arguments, as a person and as an administrator."""
    words, parameters = COMMANDS[name]
    flags = [flag.opts[0] for flag in parameters if flag.name in ("yes", "force")]
    for bad in parameters:
        if getattr(bad, "is_flag", False):
            continue
        value = f"{word}/nowhere" if {bad.name, f"{name}: {bad.name}"} & _NOWHERE else word
        needed = {"question", "memory_ids"} | ({"ops"} if bad.name not in _UNDOING else set())
        given = {each.name: _NEEDED[each.name] for each in parameters if each.required or each.name in needed}
        given |= _UNDOING.get(bad.name, {}) if name == "undo" else {}
        users = [{}, {"user": "ana"}] if any(each.name == "user" and not each.required for each in parameters) else [{}]
        for user in users:
            filled = {**user, **given, bad.name: value}
            used = [each for each in parameters if each.name in filled]
            pairs = [(each.opts[0], filled[each.name]) for each in used if each.param_type_name == "option"]
            arguments = [filled[each.name] for each in used if each.param_type_name == "argument"]
            yield [*words, *flags, *chain(*pairs), "--", *arguments]


@pytest.mark.parametrize("command", mostly_thorough(COMMANDS.keys(), "history"))
def test_a_bad_argument_is_one_message_or_an_answer(
    clean_db: Clone, superuser: psycopg.Connection, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, command: str
) -> None:
    dsns = {"DATABASE": clean_db.service_dsn, "MIGRATION": clean_db.superuser_dsn, "ADMIN": clean_db.administrator_dsn}
    for name, dsn in dsns.items():
        monkeypatch.setenv(f"MNEMIC_{name}_URL", dsn)
    for name in ("ANCHOR", "SERVER"):
        monkeypatch.setenv(f"MNEMIC_{name}_KEY", "a key of sixteen characters")
    monkeypatch.setenv("MNEMIC_EMBEDDER", "hash")
    monkeypatch.chdir(tmp_path)
    line = {"session": "s1", "role": "user", "content": "I keep bees."}
    tmp_path.joinpath("talk.jsonl").write_text(json.dumps(line), encoding="utf-8")
    for make in WORDS.values():
        for words in _calls(command, make()):
            before = counts(superuser)
            result = invoke(*words, catch_exceptions=True)
            assert result.exit_code in (0, 1, 2), words
            assert result.exception is None or isinstance(result.exception, SystemExit), (words, repr(result.exception))
            assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e]", result.stdout), words
            assert result.exit_code != 2 or counts(superuser) == before, words
    assert [what for text in stored_texts(superuser) if (what := unclean(text))] == []


def test_every_command_has_places_for_a_bad_word() -> None:
    without = {name for name in COMMANDS if not list(_calls(name, "x"))}
    assert without == {"doctor", "migrate"}
    assert len(list(_calls("undo", "x"))) > 10
