"""Bad input of seventy kinds at the entrances and commands: a typed error or clean text, and never half a write."""

import inspect
import json
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.main import get_command

from mnemic import Administration, Mnemic, MnemicError
from mnemic.service.cli.app import app
from mnemic.service.governance.history import BlindHistory
from mnemic.service.hosts.nodes import HostNodes
from mnemic.state.errors import InvalidInputError
from mnemic.state.records import ScopeChanges, ScopeSettings
from mnemic.state.settings import Settings
from tests.hostile.bad_values import BAD, BLANKS, CANARY, TEXTS, counts, quoted, stored_texts, unclean, wrong_with
from tests.hostile.entrances import CALLS, ENTRANCES, GRAPHS, NAMESPACES, OBSERVING, Act, graph_of
from tests.support.agents import called, host
from tests.support.commands import invoke
from tests.support.matrix import mostly_thorough
from tests.support.server import Clone
from tests.support.worlds import identity


async def findings(memory: Any, superuser: psycopg.Connection, act: Act, kinds: Any = BAD) -> dict[str, str]:
    """What went wrong, by kind of bad input."""
    found: dict[str, str] = {}
    for number, (kind, make) in enumerate(kinds.items()):
        who = identity("ana", session=f"s{number}")
        wrong = await wrong_with(superuser, partial(act, memory, who, make()))
        if wrong:
            found[kind] = wrong
    for text in stored_texts(superuser):
        if (what := unclean(text)) is not None:
            found["stored"] = what
    return found


def some(place: int, *, of: int) -> dict[str, Callable[[], Any]]:
    """A part of the kinds: other ones in each place, so that all of them have their turn."""
    return dict(islice(BAD.items(), place % of, None, of))


@pytest.mark.parametrize(
    "method",
    mostly_thorough(
        dict.fromkeys(entrance.partition(":")[0] for entrance in ENTRANCES).keys(),
        *("history.events", "tool forget", "Administration.history.undo"),
    ),
)
async def test_bad_input_is_refused_or_cleaned(
    memory: Mnemic, administration: Administration, superuser: psycopg.Connection, method: str
) -> None:
    target = administration if method.startswith("Administration.") else memory
    for place, (entrance, act) in enumerate(ENTRANCES.items()):
        if entrance.partition(":")[0] == method:
            share = 10 if method == "graphs.supervisor" else 4 if method.startswith("tool ") else 2
            assert (entrance, await findings(target, superuser, act, some(place, of=share))) == (entrance, {})


async def test_a_text_that_says_something_is_kept_whatever_else_is_in_it(
    memory: Mnemic, superuser: psycopg.Connection
) -> None:
    assert await kept(memory, superuser, OBSERVING["observe: a part"]) == set(TEXTS)


async def kept(memory: Mnemic, superuser: psycopg.Connection, act: Act) -> set[str]:
    """Kinds of text of which a message was stored."""
    found = set()
    for number, (kind, make) in enumerate({**TEXTS, **BLANKS}.items()):
        before = counts(superuser)["messages"]
        with suppress(InvalidInputError):
            await act(memory, identity("ana", session=f"s{number}"), make())
        if counts(superuser)["messages"] > before:
            found.add(kind)
    return found


def test_every_argument_of_every_public_method_has_its_row() -> None:
    namespaces = {
        "": Mnemic,
        **NAMESPACES,
        "nodes.": HostNodes,
        "Administration.": Administration,
        "Administration.history.": BlindHistory,
    }
    for prefix, of in namespaces.items():
        methods = inspect.getmembers(of, inspect.isfunction)  # `open` takes settings: see below
        for name, method in methods:
            for argument in inspect.signature(method).parameters.values():
                if (
                    name[0] != "_"
                    and not name.startswith("open")
                    and argument.name != "self"
                    and argument.kind is not argument.VAR_KEYWORD
                ):
                    assert f"{prefix}{name}: {argument.name}" in ENTRANCES


async def test_every_argument_of_a_tool_has_its_row_and_good_ones_are_answered(memory: Mnemic) -> None:
    assert {tool.name: {*tool.args} for tool in memory.tools()} == {name: args for name, (_, args) in CALLS.items()}
    for name, (arguments, _) in CALLS.items():
        message = await called(host(memory.tools()), identity("ana", session="s1"), name, arguments)
        # an id that nobody has is the one thing that cannot be forgotten or corrected
        assert (name, message.status) == (name, "error" if name in ("forget", "correct") else "success")


def test_every_channel_that_a_graph_takes_has_its_row(memory: Mnemic) -> None:
    for name in ("formation", "consolidation", "recall", "refinement"):
        fields = graph_of(memory, name).get_input_jsonschema()["properties"]
        rows = {entrance for entrance in GRAPHS if entrance.startswith(f"graphs.{name}:")}
        assert {f"graphs.{name}: {field}" for field in (*fields, "context")} == rows


@pytest.mark.parametrize(
    "wrong",
    [
        {"threshold": 0},
        {"word_limit": 100_001},
        {"name": " \x00"},
        {"extraction_guidance": "x" * 9000},
        {"word_limt": 50},
    ],
    ids=lambda wrong: next(iter(wrong)),
)
async def test_what_a_scope_key_overrides_is_clean_and_possible(memory: Mnemic, wrong: dict[str, Any]) -> None:
    changes: ScopeChanges = {"name": " Ana\x00 ", "consolidation_guidance": "Be brief.\r\n", "threshold": 3}
    await memory.admin.configure_scope(identity("ana"), "user:ana", **changes)
    with pytest.raises(InvalidInputError, match=f"^{next(iter(wrong))}: "):
        await memory.admin.configure_scope(identity("ana"), "user:ana", **wrong)
    stored = await memory.admin.scope_settings(identity("ana"), "user:ana")
    assert stored == ScopeSettings(scope_key="user:ana", name="Ana", consolidation_guidance="Be brief.", threshold=3)
    await memory.admin.configure_scope(identity("ana"), "user:ana", threshold=None, is_active=False)
    assert await memory.admin.scope_settings(identity("ana"), "user:ana") == replace(
        stored, threshold=None, is_active=False
    )


# -- junk of any shape

_LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters()) | st.datetimes()
_FIELDS = ("author", "name", "user", "time", "id", "type", "text", "agent_id")
JUNK = st.recursive(
    _LEAVES,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.fixed_dictionaries(
            {"role": st.sampled_from(["user", "tool"]), "content": inner}, optional=dict.fromkeys(_FIELDS, inner)
        )
    ),
    max_leaves=12,
)
FUZZED = [
    "observe: messages",
    "observe: a message",
    "query: query",
    "admin.configure_scope: name",
    "graphs.recall: context",
]


@pytest.mark.thorough
@settings(max_examples=400, derandomize=True)
@given(entrance=st.sampled_from(FUZZED), junk=JUNK)
async def test_junk_is_refused_or_cleaned(
    memory: Mnemic, superuser: psycopg.Connection, entrance: str, junk: Any
) -> None:
    who = identity("ana", session=uuid4().hex)
    assert await wrong_with(superuser, partial(ENTRANCES[entrance], memory, who, junk)) is None
    assert [what for text in stored_texts(superuser) if (what := unclean(text))] == []


# -- opening

SETTING_KINDS = ["a null character", "a lone surrogate", "two lines", "130 bytes", "an empty string", "a path", "bytes"]


_TEXTS = ["base_url", "fast_model", "embedder", "api_key", "minilm_path", "anchor_key", "server_key"]
#: Arguments of `open` itself; all other settings go by `settings`.
_EXPLICIT = {"database_url", "admin_url", "actor", "base_url", "fast_model", "embedder", "api_key"}
_NO_TEXTS = ["pool_size", "retry_seconds", "model_timeout_seconds", "fusion", "rag", "link_min", "no_such_setting"]


@pytest.mark.parametrize(
    "setting",
    mostly_thorough(
        [*_TEXTS, *_NO_TEXTS, "database_url", "admin_url", "actor"], *("database_url", "anchor_key", "actor")
    ),
)
async def test_a_bad_setting_opens_nothing_or_is_harmless(
    clean_db: Clone, superuser: psycopg.Connection, setting: str
) -> None:
    opening: Any = Mnemic.open
    good: dict[str, Any] = {"database_url": clean_db.service_dsn, "embedder": "hash"}
    if setting in ("admin_url", "actor"):
        opening, good = Administration.open, {"admin_url": clean_db.administrator_dsn, "actor": "root"}
    before = counts(superuser)
    for kind in SETTING_KINDS:
        found: MnemicError | None = None
        try:
            arguments = {**good, setting: BAD[kind]()}
            explicit = {name: arguments.pop(name) for name in _EXPLICIT & arguments.keys()}
            async with opening(**explicit, settings=Settings(pool_timeout_seconds=0.2, **arguments)):
                pass
        except MnemicError as error:
            found = error
        # any printable name will do for an actor
        assert found or setting in _TEXTS or (setting, kind) == ("actor", "a path"), kind
        # names of models and files are quoted, for they are no secret and nobody's words
        assert found is None or not quoted(found) or setting in ("fast_model", "embedder", "minilm_path"), kind
        assert counts(superuser) == before


# -- commands: one message and exit code 2, or the command's own answer; never a traceback

_ID = "7d2c2f3e-6a51-4a4c-9f3c-1f8a1d7f7a10"
_KINDS = ("a lone surrogate", "terminal controls", "two lines", "SQL", "an empty string")
WORDS: dict[str, Callable[[], str]] = {kind: {**TEXTS, **BLANKS}[kind] for kind in _KINDS} | {"a number": lambda: "-1"}
#: What a command needs where another argument is the bad one.
_WORDS_NEEDED = {
    "agent": "harbor",
    "user": "ana",
    "question": "bees",
    "files": "talk.jsonl",
    "file": "nowhere/file",
    "at": "0",
}
_WORDS_NEEDED |= {"scope_key": "user:ana", "memory_id": _ID, "memory_ids": _ID, "ops": _ID, "content": "Ana rows."}
_WORDS_NEEDED |= {"job": "form", "job_id": "1"}
#: An undoing names operations, or what else it goes by.
_UNDOING = {"since": {"session": "s1"}, "session": {"since": "2026-03-02T09:14:00Z"}, "refinement": {}, "run": {}}
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
        given = {each.name: _WORDS_NEEDED[each.name] for each in parameters if each.required or each.name in needed}
        given |= _UNDOING.get(bad.name, {}) if name == "undo" else {}
        users = [{}, {"user": "ana"}] if any(each.name == "user" and not each.required for each in parameters) else [{}]
        for user in users:
            filled = {**user, **given, bad.name: value}
            used = [each for each in parameters if each.name in filled]
            pairs = [(each.opts[0], filled[each.name]) for each in used if each.param_type_name == "option"]
            arguments = [filled[each.name] for each in used if each.param_type_name == "argument"]
            yield [*words, *flags, *chain(*pairs), "--", *arguments]


def changed(superuser: psycopg.Connection, before: dict[str, int]) -> dict[str, int]:
    """Rows that were added since, by table; other tables are left out."""
    return {table: count - before[table] for table, count in counts(superuser).items() if count != before[table]}


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
            if result.exit_code == 2:
                assert changed(superuser, before) in ({}, {"events": 1}), words  # a refused operation is one event
    assert [what for text in stored_texts(superuser) if (what := unclean(text))] == []


def test_every_command_has_places_for_a_bad_word() -> None:
    without = {name for name in COMMANDS if not list(_calls(name, "x"))}
    assert without == {"doctor", "metrics", "migrate", "worker", "maintain"}
    assert len(list(_calls("undo", "x"))) > 10


# -- controls: what the checks above must see


@pytest.mark.thorough
async def test_a_cleaning_that_cleans_nothing_is_seen(
    memory: Mnemic, superuser: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mnemic.memory.messages.incoming.clean_text", lambda text: text)
    act = OBSERVING["observe: content"]

    assert set(TEXTS) - await kept(memory, superuser, act) >= {"a null character", "a lone surrogate"}
    assert set(await findings(memory, superuser, act)) == {"stored"}


@pytest.mark.thorough
async def test_half_a_write_is_seen(memory: Mnemic, superuser: psycopg.Connection) -> None:
    async def in_parts(memory: Mnemic, who: Any, value: Any) -> object:
        await memory.observe(who, [{"role": "user", "content": "I keep bees."}])
        return await memory.observe(who, [value])

    found = await findings(memory, superuser, in_parts, {"nothing": BAD["nothing"]})
    assert found == {"nothing": "refused, and written all the same"}


@pytest.mark.thorough
async def test_a_refusal_that_quotes_is_seen(
    memory: Mnemic, superuser: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mnemic.tools.calling.first_problem", str)
    monkeypatch.setattr("mnemic.tools.calling.refused_argument", lambda _: CANARY)
    found = await findings(memory, superuser, ENTRANCES["tool memory_query: query"], {"zero": BAD["zero"]})
    assert found == {"zero": "the error repeats what was given"}
