"""Bad arguments of every command: one message and exit code 2, or the command's own answer; never a traceback."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest

from mnemic.service.cli.app import app, audits, database
from tests.hostile.bad_values import BLANKS, CANARY, TEXTS
from tests.hostile.cells import counts, stored_texts, unclean
from tests.support.commands import invoke
from tests.support.matrix import mostly_thorough
from tests.support.server import Clone

WHO = ["--agent", "harbor", "--user", "ana"]
ID = "7d2c2f3e-6a51-4a4c-9f3c-1f8a1d7f7a10"
#: No operating system passes these to a program, or Python's own strings alone are what is bad about them.
_NEVER_PASSED = {"a string that raises", "a string that lies", "5 MB of text", "5 MB of one word", "a flood of marks"}
_TEXTS: dict[str, Callable[[], Any]] = {**TEXTS, **BLANKS, "a number": lambda: "-1", "an option": lambda: "--json"}
WORDS = {kind: make for kind, make in _TEXTS.items() if kind not in _NEVER_PASSED and "\x00" not in str(make())}


def _options(*command: str, name: str = "", further: str = "--group") -> dict[str, Callable[[str], list[str]]]:
    """The identity's options of a command, with one bad value among them."""
    name = name or command[0]
    return {
        f"{name}: --agent": lambda word: [*command, "--agent", word, "--user", "ana"],
        f"{name}: --user": lambda word: [*command, "--agent", "harbor", "--user", word],
        f"{name}: {further}": lambda word: [*command, *WHO, further, word],
    }


def _blind(*command: str, name: str = "") -> dict[str, Callable[[str], list[str]]]:
    """A command that an administrator gives, for a bad agent."""
    return {f"{name or command[0]}: --agent, blind": lambda word: [*command, "--agent", word]}


def _protection(command: str) -> dict[str, Callable[[str], list[str]]]:
    return {
        "ID": lambda word: [command, "--agent", "harbor", "--", word],
        "--agent": lambda word: [command, ID, "--agent", word],
        "--actor": lambda word: [command, ID, "--agent", "harbor", "--actor", word],
    }


def _recall(option: str) -> Callable[[str], list[str]]:
    return lambda word: ["query", "bees", *WHO, option, word]


#: Each command with a place for one bad word in it.
COMMANDS: dict[str, Callable[[str], list[str]]] = {
    "form: FILE": lambda word: ["form", word, *WHO],
    **_options("form", "FILE"),
    "query: QUESTION": lambda word: ["query", *WHO, "--", word],
    **_options("query", "bees"),
    **{f"recall: {option}": _recall(option) for option in ("--role", "--category", "--top-k", "--since")},
    "query: --filter": lambda word: ["query", "bees", *WHO, "--filter", f"{word}=1", "--filter", f"run_id={word}"],
    "recall: QUESTION": lambda word: ["recall", *WHO, "--", word],
    **_options("recall", "bees"),
    "memories: --kind": lambda word: ["memories", *WHO, "--kind", word],
    "memories: --session": lambda word: ["memories", *WHO, "--session", word],
    **_options("memories"),
    "history: ID": lambda word: ["history", *WHO, "--", word],
    **_options("chat", further="--session"),
    "threads: --agent": lambda word: ["threads", "--agent", word, "--user", "ana"],
    "threads: --user": lambda word: ["threads", "--agent", "harbor", "--user", word],
    "chat: --group": lambda word: ["chat", *WHO, "--group", word],
    "undo: OP": lambda word: ["undo", *WHO, "--yes", "--", word],
    "undo: OP, blind": lambda word: ["undo", "--agent", "harbor", "--yes", "--", word],
    "undo: --since": lambda word: ["undo", *WHO, "--yes", "--session", "s1", "--since", word],
    "undo: --session, blind": lambda word: [
        *("undo", "--agent", "harbor", "--yes", "--session", word, "--since", "2026-03-02T09:14:00Z")
    ],
    **_options("undo", ID, "--yes", further="--session"),
    **_blind("undo", ID, "--yes"),
    "undo: --actor": lambda word: ["undo", ID, "--agent", "harbor", "--yes", "--actor", word],
    "undo: --refinement": lambda word: ["undo", *WHO, "--yes", "--refinement", word],
    "undo: --refinement, blind": lambda word: ["undo", "--agent", "harbor", "--yes", "--refinement", word],
    "refine: SCOPE_KEY": lambda word: ["refine", "--agent", "harbor", "--force", "--", word],
    "refine: SCOPE_KEY's owner": lambda word: ["refine", "--agent", "harbor", "--force", "--", f"user:{word}"],
    "refine: --actor": lambda word: ["refine", "user:ana", "--agent", "harbor", "--force", "--actor", word],
    **_blind("refine", "--force"),
    "refinements: --limit": lambda word: ["refinements", *WHO, "--limit", word],
    "refinements: --session": lambda word: ["refinements", *WHO, "--session", word],
    **_options("refinements"),
    **_blind("refinements"),
    **{
        f"{command}: {place}": words
        for command in ("protect", "unprotect")
        for place, words in _protection(command).items()
    },
    "restore: SCOPE_KEY": lambda word: ["restore", *WHO, "--at", "0", "--yes", "--", word],
    "restore: SCOPE_KEY, blind": lambda word: ["restore", "--agent", "harbor", "--at", "0", "--yes", "--", word],
    "restore: --at": lambda word: ["restore", "user:ana", *WHO, "--yes", "--at", word],
    **_options("restore", "user:ana", "--at", "0", "--yes", further="--session"),
    **_blind("restore", "user:ana", "--at", "0", "--yes"),
    "restore: --actor": lambda word: ["restore", "user:ana", "--agent", "harbor", "--at", "0", "--actor", word],
    "as_of: SCOPE_KEY": lambda word: ["as-of", *WHO, "--at", "0", "--", word],
    "as_of: SCOPE_KEY, blind": lambda word: ["as-of", "--agent", "harbor", "--at", "0", "--", word],
    "as_of: --at": lambda word: ["as-of", "user:ana", *WHO, "--at", word],
    **_options("as-of", "user:ana", "--at", "0", name="as_of"),
    **_blind("as-of", "user:ana", "--at", "0", name="as_of"),
    "erase: ID": lambda word: ["erase", *WHO, "--yes", "--", word],
    **_options("erase", ID, "--yes", further="--session"),
    **_blind("purge", "--yes"),
    "purge: --actor": lambda word: ["purge", "--agent", "harbor", "--yes", "--actor", word],
    "log: --since": lambda word: ["audit", "log", *WHO, "--since", word],
    "log: --limit": lambda word: ["audit", "log", *WHO, "--limit", word],
    **_options("audit", "log", name="log", further="--session"),
    **_blind("audit", "log", name="log"),
    "verify: --anchors": lambda word: ["audit", "verify", "--anchors", word],
    **_blind("audit", "verify", name="verify"),
    "anchor: FILE": lambda word: ["audit", "anchor", "--agent", "harbor", "--", word + "/nowhere/anchors"],
    **_blind("audit", "anchor", "nowhere/anchors", name="anchor"),
    "export: --output": lambda word: ["audit", "export", *WHO, "--output", word + "/nowhere/export"],
    **_options("audit", "export", name="export", further="--session"),
    "check: FILE": lambda word: ["audit", "check", "--", word],
    **{
        f"token: {option}": lambda word, option=option: ["token", "--user", "ana", option, word]  # type: ignore[misc]
        for option in ("--user", "--agent", "--group", "--days")
    },
    "demo: DIR": lambda word: ["demo", word + "/nowhere"],
    "dump: FILE": lambda word: ["db", "dump", word + "/nowhere/all.dump"],
}
#: They take no argument but --json.
WITHOUT_ARGUMENTS = {"doctor", "migrate"}


@pytest.mark.parametrize("place", mostly_thorough(COMMANDS.keys(), "query: QUESTION", "history: ID", "undo: OP"))
def test_a_bad_argument_is_one_message_or_an_answer(
    clean_db: Clone, superuser: psycopg.Connection, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, place: str
) -> None:
    monkeypatch.setenv("MNEMIC_DATABASE_URL", clean_db.service_dsn)
    monkeypatch.setenv("MNEMIC_MIGRATION_URL", clean_db.superuser_dsn)
    monkeypatch.setenv("MNEMIC_ADMIN_URL", clean_db.administrator_dsn)
    for key in ("MNEMIC_ANCHOR_KEY", "MNEMIC_SERVER_KEY"):
        monkeypatch.setenv(key, "a key of sixteen characters")
    monkeypatch.setenv("MNEMIC_EMBEDDER", "hash")
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "talk.jsonl"
    file.write_text(json.dumps({"session": "s1", "role": "user", "content": "I keep bees."}), encoding="utf-8")
    for kind, make in WORDS.items():
        before = counts(superuser)
        words = [str(file) if word == "FILE" else word for word in COMMANDS[place](make())]
        result = invoke(*words, catch_exceptions=True)
        assert result.exit_code in (0, 1, 2), kind
        assert result.exception is None or isinstance(result.exception, SystemExit), (kind, repr(result.exception))
        assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e]", result.stdout), kind
        if result.exit_code == 2:
            assert counts(superuser) == before, kind
    assert [what for text in stored_texts(superuser) if (what := unclean(text))] == []


def test_every_command_has_its_rows() -> None:
    commands = {
        command.callback.__name__
        for group in (app, audits, database)
        for command in group.registered_commands
        if command.callback
    }
    assert commands - WITHOUT_ARGUMENTS == {place.partition(":")[0] for place in COMMANDS}


def test_the_words_hold_what_only_files_and_terminals_bring() -> None:
    assert len(WORDS) > 25
    assert all(CANARY in make() for kind, make in TEXTS.items() if kind not in _NEVER_PASSED)
