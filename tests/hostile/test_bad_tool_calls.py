"""Bad input in every argument of every tool: an answer or a refusal that does not quote it, and the run goes on."""

import json
from collections.abc import Iterator, Mapping
from functools import partial
from itertools import islice
from types import MappingProxyType
from typing import Any

import psycopg
import pytest

from mnemic import Mnemic
from mnemic.state.errors import InvalidInputError
from mnemic.state.identity import Identity
from tests.hostile.bad_values import BAD, CANARY, stored_texts, unclean, wrong_with
from tests.support.matrix import mostly_thorough
from tests.support.tool_calls import called, host
from tests.support.worlds import identity

#: Arguments that each tool takes, beside the bad one.
GOOD: Mapping[str, dict[str, Any]] = MappingProxyType(
    {
        "memory_query": {"query": "Bees?", "search_type": "text"},
        "remember": {"content": "Ana keeps bees.", "category": "interests"},
        "remember_procedure": {"title": "Make tea", "steps": ["Boil the water.", "Add the tea."]},
        "forget": {"id": "7d2c2f3e-6a51-4a4c-9f3c-1f8a1d7f7a10"},
    }
)


def as_json(value: Any) -> Any:
    """The value as a model can send it.

    Raises:
        ValueError: a model cannot send it.
    """
    try:
        return json.loads(json.dumps(value))
    except (TypeError, RecursionError, RuntimeError):
        raise ValueError("no JSON") from None


def bad_values() -> Iterator[tuple[str, Any]]:
    """Every kind of bad input that JSON can carry."""
    for kind, make in BAD.items():
        try:
            yield kind, as_json(make())
        except ValueError:
            continue


def cells(memory: Mnemic, name: str) -> dict[str, Any]:
    """Each argument of a tool, and each filter, as a function that puts a value there."""
    (tool,) = [tool for tool in memory.tools() if tool.name == name]
    places: dict[str, Any] = {argument: lambda value, argument=argument: {argument: value} for argument in tool.args}
    if "filters" in tool.args:  # one of each type; the entrances of `Mnemic.query` have them all
        filters = ("user_id", "pinned", "importance_min", "updated_after", "no such filter")
        places |= {f"filters.{key}": lambda value, key=key: {"filters": {key: value}} for key in filters}
    return {**places, "no such argument": lambda value: {"nonsense": value}}


async def refused(graph: Any, who: Identity, name: str, arguments: dict[str, Any]) -> None:
    """Calls the tool; a refusal is raised with the words that the model reads."""
    message = await called(graph, who, name, arguments)
    if message.status == "error":
        raise InvalidInputError(str(message.content))


@pytest.mark.parametrize("name", mostly_thorough(GOOD.keys(), "forget"))
async def test_a_bad_argument_is_answered_without_repeating_it(
    memory: Mnemic, superuser: psycopg.Connection, name: str
) -> None:
    graph, wrong = host(memory.tools()), {}
    for number, (place, put) in enumerate(cells(memory, name).items()):
        for kind, value in islice(bad_values(), number % 2, None, 2):
            who = identity("ana", session=f"s{number}")
            act = partial(refused, graph, who, name, {**GOOD[name], **put(value)})
            if what := await wrong_with(superuser, act):
                wrong[place, kind] = what
    assert wrong == {}
    assert list(filter(None, map(unclean, stored_texts(superuser)))) == []


async def test_the_good_arguments_are_answered(memory: Mnemic) -> None:
    assert {tool.name for tool in memory.tools()} == set(GOOD)
    for name, arguments in GOOD.items():
        message = await called(host(memory.tools()), identity("ana", session="s1"), name, arguments)
        # an id that nobody has is the one thing that cannot be forgotten
        assert (name, message.status) == (name, "error" if name == "forget" else "success")


@pytest.mark.thorough
async def test_a_refusal_that_quotes_is_seen(
    memory: Mnemic, superuser: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The control."""
    monkeypatch.setattr("mnemic.tools.calling.first_problem", str)
    monkeypatch.setattr("mnemic.tools.calling.refused_argument", lambda _: CANARY)
    act = partial(refused, host(memory.tools()), identity("ana", session="s1"), "memory_query", {"query": 7})
    assert await wrong_with(superuser, act) == "the error repeats what was given"
