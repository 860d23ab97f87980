"""Bad input of seventy kinds at the entrances: a typed error or clean text, never a traceback or half a write."""

import inspect
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mnemic import Administration, Mnemic, MnemicError, ScopeSettings
from mnemic.state.errors import ConfigurationError, InvalidInputError
from mnemic.storage import scopes
from tests.hostile.bad_values import BAD, BLANKS, CANARY, TEXTS, counts, quoted, stored_texts, unclean, wrong_with
from tests.hostile.entrances import CALLS, ENTRANCES, GOVERNING, GRAPHS, METHODS, OBSERVING, SETTINGS, Act, graph_of
from tests.support.agents import called, host
from tests.support.matrix import mostly_thorough
from tests.support.server import Clone
from tests.support.worlds import identity

NO_MEMORY: Any = None
#: They take nothing: there is no place for a bad value.
WITHOUT_ARGUMENTS = {"settings", "describe", "purges"}
#: Takes settings, as `Settings` itself does; tested below.
OPENING = {"open"}


async def findings(memory: Mnemic, superuser: psycopg.Connection, act: Act, kinds: Any = BAD) -> dict[str, str]:
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


@pytest.mark.thorough
async def test_a_setting_is_refused_or_taken() -> None:
    async def wrong(act: Act, value: Any) -> str | None:
        try:
            await act(NO_MEMORY, identity(), value)
        except ConfigurationError as error:
            return "quoted" if quoted(error) else None
        return None

    for place, (setting, act) in enumerate(SETTINGS.items()):
        found = {kind: what for kind, make in some(place, of=5).items() if (what := await wrong(act, make()))}
        assert (setting, found) == (setting, {})


@pytest.mark.parametrize(
    "method",
    mostly_thorough(
        dict.fromkeys(entrance.partition(":")[0] for entrance in ENTRANCES).keys(), "history", "tool forget"
    ),
)
async def test_bad_input_is_refused_or_cleaned(memory: Mnemic, superuser: psycopg.Connection, method: str) -> None:
    for place, (entrance, act) in enumerate(ENTRANCES.items()):
        if entrance.partition(":")[0] == method:
            share = 10 if method == "graphs.supervisor" else 4 if method.startswith("tool ") else 2
            kinds = some(place, of=share)
            assert (entrance, await findings(memory, superuser, act, kinds)) == (entrance, {})


@pytest.mark.parametrize(
    "method", mostly_thorough(dict.fromkeys(entrance.partition(":")[0] for entrance in GOVERNING).keys(), "undo")
)
async def test_an_administrators_bad_input_is_refused_or_harmless(
    administration: Administration, superuser: psycopg.Connection, method: str
) -> None:
    for place, (entrance, governing) in enumerate(GOVERNING.items()):
        if entrance.partition(":")[0] == method:

            def act(_: Mnemic, __: Any, value: Any, governing: Any = governing) -> Any:
                return governing(administration, value)

            assert (entrance, await findings(NO_MEMORY, superuser, act, some(place, of=2))) == (entrance, {})


@pytest.mark.parametrize(
    "entrance", mostly_thorough(["observe: content", "observe: a part", "observe: a part's text"], "observe: content")
)
async def test_a_text_that_says_something_is_kept_whatever_else_is_in_it(
    memory: Mnemic, superuser: psycopg.Connection, entrance: str
) -> None:
    assert await kept(memory, superuser, OBSERVING[entrance]) == set(TEXTS)


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


@pytest.mark.parametrize(
    "graph", mostly_thorough(["formation", "consolidation", "recall", "refinement", "supervisor"], "formation")
)
async def test_a_graph_given_no_mapping_writes_nothing(
    memory: Mnemic, superuser: psycopg.Connection, graph: str
) -> None:
    before = counts(superuser)
    for make in some(0, of=4).values():
        # LangGraph refuses most of them with errors of its own, which quote it, before any code of this project runs
        with suppress(Exception):
            await graph_of(memory, graph).ainvoke(make(), context=identity("ana", session="s1"))
    assert counts(superuser) == before


@pytest.mark.parametrize(("of", "rows"), [(Mnemic, METHODS), (Administration, GOVERNING)])
def test_every_public_method_has_its_rows(of: type, rows: dict[str, object]) -> None:
    public = {name for name in dir(of) if not name.startswith("_")}

    assert public - WITHOUT_ARGUMENTS - OPENING == {entrance.partition(":")[0] for entrance in rows}


@pytest.mark.parametrize(("of", "rows"), [(Mnemic, METHODS), (Administration, GOVERNING)])
def test_every_argument_of_a_method_has_its_row(of: type, rows: dict[str, object]) -> None:
    for name in {entrance.partition(":")[0] for entrance in rows}:
        for argument in inspect.signature(getattr(of, name)).parameters.values():
            if argument.name != "self" and argument.kind is not argument.VAR_KEYWORD:
                assert f"{name}: {argument.name}" in rows


async def test_every_argument_of_a_tool_has_its_row_and_good_ones_are_answered(memory: Mnemic) -> None:
    assert {tool.name: {*tool.args} for tool in memory.tools()} == {name: args for name, (_, args) in CALLS.items()}
    for name, (arguments, _) in CALLS.items():
        message = await called(host(memory.tools()), identity("ana", session="s1"), name, arguments)
        # an id that nobody has is the one thing that cannot be forgotten
        assert (name, message.status) == (name, "error" if name == "forget" else "success")


def test_every_channel_that_a_graph_takes_has_its_row(memory: Mnemic) -> None:
    for name in ("formation", "consolidation", "recall", "refinement"):
        fields = graph_of(memory, name).get_input_jsonschema()["properties"]
        rows = {entrance for entrance in GRAPHS if entrance.startswith(f"graphs.{name}:")}
        assert {f"graphs.{name}: {field}" for field in (*fields, "context")} == rows


@pytest.mark.parametrize(
    "wrong",
    [{"threshold": 0}, {"word_limit": 100_001}, {"name": " \x00"}, {"extraction_guidance": "x" * 9000}],
    ids=lambda wrong: next(iter(wrong)),
)
async def test_what_a_scope_key_overrides_is_clean_and_possible(memory: Mnemic, wrong: dict[str, Any]) -> None:
    own = ScopeSettings(scope_key="user:ana", name=" Ana\x00 ", consolidation_guidance="Be brief.\r\n", threshold=3)
    await memory.configure_scope(identity("ana"), own)
    with pytest.raises(InvalidInputError, match=f"^{next(iter(wrong))}: "):
        await memory.configure_scope(identity("ana"), replace(own, **wrong))
    async with memory.resources.database.scoped(identity("ana")) as scoped:
        stored = (await scopes.scope_settings(scoped))["user:ana"]
    assert stored == replace(own, name="Ana", consolidation_guidance="Be brief.")


# -- junk of any shape

_WORDS = st.text(st.characters(), max_size=40)
_LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | _WORDS | st.binary(max_size=8) | st.datetimes()
_FIELDS = st.sampled_from(["role", "content", "author", "name", "user", "time", "id", "type", "text", "agent_id"])
_ROLES = st.sampled_from(["user", "assistant", "system", "tool", "human"])
JUNK = st.recursive(
    _LEAVES,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(_FIELDS | _WORDS, inner, max_size=5)
        | st.fixed_dictionaries({"role": _ROLES, "content": inner}, optional={"id": inner, "time": inner})
    ),
    max_leaves=12,
)
FUZZED = [
    "observe: messages",
    "observe: a message",
    "observe: content",
    "observe: LangChain's content",
    "recall: question",
    "query: query",
    "configure_agent: recall_limit",
    "configure_scope: name",
    "configure_scope: threshold",
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


@pytest.mark.parametrize(
    "setting",
    mostly_thorough(
        ["database_url", "base_url", "fast_model", "embedder", "api_key", "minilm_path", "anchor_key", "server_key"],
        "database_url",
        "anchor_key",
    ),
)
async def test_a_bad_setting_opens_nothing_or_is_harmless(
    clean_db: Clone, superuser: psycopg.Connection, setting: str
) -> None:
    good: dict[str, Any] = {"database_url": clean_db.service_dsn, "embedder": "hash", "pool_timeout_seconds": 0.2}
    before = counts(superuser)
    for kind in SETTING_KINDS:
        found: MnemicError | None = None
        try:
            async with Mnemic.open(**{**good, setting: BAD[kind]()}) as memory:
                memory.describe()
        except MnemicError as error:
            found = error
        # names of models and files are quoted, for they are no secret and nobody's words
        assert found is None or not quoted(found) or setting in ("fast_model", "embedder", "minilm_path"), kind
        assert counts(superuser) == before


@pytest.mark.parametrize("argument", mostly_thorough(["admin_url", "actor"], "actor"))
async def test_a_bad_dsn_or_actor_of_administrators_opens_nothing(
    clean_db: Clone, superuser: psycopg.Connection, argument: str
) -> None:
    before = counts(superuser)
    for kind in SETTING_KINDS:
        if (argument, kind) != ("actor", "a path"):  # printable: any name will do
            given = {"admin_url": clean_db.administrator_dsn, "actor": "root", argument: BAD[kind]()}
            with pytest.raises(MnemicError) as found:
                async with Administration.open(**given, pool_timeout_seconds=0.2):
                    pass
            assert not quoted(found.value), kind
            assert counts(superuser) == before


# -- controls: what the checks above must see


@pytest.mark.thorough
async def test_a_cleaning_that_cleans_nothing_is_seen(
    memory: Mnemic, superuser: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mnemic.operations.messages.incoming.clean_text", lambda text: text)
    act = OBSERVING["observe: content"]

    assert set(TEXTS) - await kept(memory, superuser, act) >= {"a null character", "a lone surrogate"}
    assert set(await findings(memory, superuser, act)) == {"stored"}


@pytest.mark.thorough
async def test_an_error_that_quotes_is_seen(memory: Mnemic, superuser: psycopg.Connection) -> None:
    def refuse(text: object, *, by: Callable[[object], Exception]) -> None:
        raise by(text)

    async def quotes(memory: Mnemic, who: Any, value: Any) -> object:
        try:
            refuse(value, by=ValueError)
        except ValueError as error:
            raise InvalidInputError("cannot be used") from error
        return None

    found = await findings(memory, superuser, quotes, {"SQL": BAD["SQL"]})
    assert found == {"SQL": "the error repeats what was given"}


@pytest.mark.thorough
async def test_half_a_write_is_seen(memory: Mnemic, superuser: psycopg.Connection) -> None:
    async def in_parts(memory: Mnemic, who: Any, value: Any) -> object:
        await memory.observe(who, [{"role": "user", "content": "I keep bees."}])
        return await memory.observe(who, [value])

    found = await findings(memory, superuser, in_parts, {"nothing": BAD["nothing"]})
    assert found == {"nothing": "refused, and written all the same"}


@pytest.mark.thorough
async def test_a_tools_refusal_that_quotes_is_seen(
    memory: Mnemic, superuser: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mnemic.tools.calling.first_problem", str)
    monkeypatch.setattr("mnemic.tools.calling.refused_argument", lambda _: CANARY)
    found = await findings(memory, superuser, ENTRANCES["tool memory_query: query"], {"zero": BAD["zero"]})
    assert found == {"zero": "the error repeats what was given"}
