"""docs/reference.md lists each public name, each namespace of `Mnemic`, and each class that their methods name."""

import builtins
import inspect
import re
from collections.abc import Iterator
from typing import Any, get_args, get_type_hints

import mnemic
from mnemic import Administration, Mnemic
from mnemic.state import errors
from tests.support.server import Clone
from tests.support.wheel import ROOT

#: Qualified names of the classes and functions that the page documents. Errors are documented as a module.
LISTED = {
    name.removeprefix("mnemic.").rsplit(".", 1)[-1]
    for name in re.findall(
        r"auto(?:class|function):: (\S+)", (ROOT / "docs" / "reference.md").read_text(encoding="utf-8")
    )
}
ERRORS = {name for name, value in vars(errors).items() if inspect.isclass(value)}


class _Names(dict[str, Any]):
    """Names of a module; one that only type checkers import is anything."""

    def __missing__(self, name: str) -> Any:
        if hasattr(builtins, name):
            return getattr(builtins, name)
        return Any


def named(annotation: Any) -> Iterator[type]:
    if inspect.isclass(annotation) and annotation.__module__.startswith("mnemic."):
        yield annotation
    for part in get_args(annotation):
        yield from named(part)


def namespaces(memory: Any) -> list[type]:
    """The classes of the public attributes of an object."""
    return [type(value) for name, value in vars(memory).items() if not name.startswith("_")]


def methods(face: type) -> Iterator[Any]:
    for name, member in inspect.getmembers(face):
        if name.startswith("_"):
            continue
        if isinstance(member, property):
            yield member.fget
        elif callable(member):
            yield inspect.unwrap(member)


def hints(function: Any) -> list[Any]:
    names = getattr(function, "__globals__", {})
    return [*get_type_hints(function, localns=_Names(names)).values()]


def test_each_public_name_is_listed() -> None:
    names = [name for name in dir(mnemic) if not name.startswith("_")]
    assert len(names) > 20
    assert [name for name in names if inspect.isclass(getattr(mnemic, name)) and name not in LISTED | ERRORS] == []


async def test_each_namespace_and_each_class_of_a_result_is_listed(clean_db: Clone) -> None:
    async with Mnemic.open(database_url=clean_db.service_dsn, embedder="hash", background=False) as memory:
        spaces = [space for space in namespaces(memory) if space.__module__.startswith("mnemic.service")]
    assert len(spaces) >= 7
    classes: dict[type, None] = {}
    for face in (Mnemic, Administration, *spaces):
        for method in methods(face):
            for hint in hints(method):
                classes |= dict.fromkeys(named(hint))
    unlisted = [found.__qualname__ for found in (*spaces, *classes) if found.__name__ not in LISTED]
    assert unlisted == []
