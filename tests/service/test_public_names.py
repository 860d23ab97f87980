"""The names of `mnemic`: all that a signature needs is exported, described in the reference, and readable in help."""

import inspect
import re
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from pydoc import plain, render_doc
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import pytest
from langchain_core.embeddings import Embeddings
from langchain_core.language_models import BaseChatModel

import mnemic
from mnemic import Administration, Identity, MemoryFilters, Mnemic, Settings, SyncAdministration, SyncMnemic
from mnemic.service.admin import Admin
from mnemic.service.governance.history import BlindHistory, History
from mnemic.service.governance.privacy import Privacy
from mnemic.service.graphs import Graphs
from mnemic.service.hosts.nodes import HostNodes
from mnemic.service.hosts.threads import Threads
from mnemic.service.usage import UsageReports
from mnemic.state import checking, identity, query
from mnemic.state.errors import InvalidInputError
from tests.support.server import Clone
from tests.support.wheel import ROOT

#: Annotations of `Mnemic.open` that only type checkers import.
FOREIGN = {"BaseChatModel": BaseChatModel, "Embeddings": Embeddings, "Mnemic": Mnemic}
#: The names of annotated types, as editors show them in signatures.
ALIASES = {
    name: value
    for module in (checking, identity, query)
    for name, value in vars(module).items()
    if get_origin(value) is Annotated
}
NAMES = [name for name in dir(mnemic) if not name.startswith("__")]
NAMESPACES = {Admin, Graphs, History, HostNodes, Privacy, Threads, UsageReports}
FACES = [Mnemic, SyncMnemic, Administration, BlindHistory, *NAMESPACES]
#: Paths that the reference documents.
_PAGE = (ROOT / "docs/reference.md").read_text(encoding="utf-8")
LISTED = re.findall(r"^\.\. auto(?:class|function|data):: (\S+)$", _PAGE, re.MULTILINE)


def methods(face: type) -> Iterator[Callable[..., Any]]:
    for name, value in inspect.getmembers(face):
        member = value.fget if isinstance(value, property) else value
        function = inspect.unwrap(getattr(member, "__func__", member)) if callable(member) else None
        if inspect.isfunction(function) and not name.startswith("_"):
            yield function


def named_types(hint: object) -> Iterator[type]:
    """The classes of ours in an annotation, and in the fields of those that are records."""
    for part in get_args(hint):
        yield from named_types(part)
    if inspect.isclass(hint) and hint.__module__.startswith("mnemic."):
        yield hint
        if is_dataclass(hint) or hasattr(hint, "_fields"):
            for field in get_type_hints(hint).values():
                yield from named_types(field)


def path_of(found: type) -> str:
    return f"{found.__module__}.{found.__qualname__}"


def test_every_type_of_a_public_method_is_a_public_name() -> None:
    types = {
        found
        for face in FACES
        for method in methods(face)
        for hint in get_type_hints(method, localns=FOREIGN).values()
        for found in named_types(hint)
    }

    assert {"Remembered", "StateChange"} <= {found.__name__ for found in types}
    others = {found for found in types if found.__name__ not in NAMES}
    assert {found.__name__ for found in others} == {
        "SupervisorInput",
        "SupervisorState",
    }  # of the graph, not of a method
    assert {path_of(found) for found in others} <= set(LISTED)


def test_every_public_name_can_be_imported_and_stands_in_the_reference() -> None:
    assert [name for name in NAMES if getattr(mnemic, name, None) is None] == []
    listed = [path.removeprefix("mnemic.") for path in LISTED if path.count(".") == 1]

    assert sorted(listed) == sorted(set(NAMES) - {"MnemicError"})  # which stands with the other errors


async def test_every_namespace_stands_in_the_reference(clean_db: Clone) -> None:
    async with Mnemic.open(database_url=clean_db.service_dsn, embedder="hash", background=False) as memory:
        public = {type(value) for name, value in vars(memory).items() if not name.startswith("_")}

    assert {each for each in public if each.__module__.startswith("mnemic.service.")} == NAMESPACES
    assert set(map(path_of, NAMESPACES)) <= set(LISTED)


def test_a_name_that_does_not_exist_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="Memori"):
        _ = mnemic.Memori  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", [name for name in NAMES if inspect.isclass(getattr(mnemic, name))])
def test_help_has_no_internals_of_pydantic(name: str) -> None:
    shown = plain(render_doc(getattr(mnemic, name)))

    assert name in shown
    assert (
        re.findall(r"__pydantic_(?!config)\w*|model_config|model_validate|model_dump|FieldInfo|Validator\(", shown)
        == []
    )


@pytest.mark.parametrize(
    ("model", "beginning"),
    [
        (Identity, "(*, agent_id: str, user_id: "),
        (MemoryFilters, "(*, user_id: "),
        (Settings, "(*, fast_model: str | None = None, "),
    ],
)
def test_help_shows_the_fields_of_a_model_as_arguments(model: type, beginning: str) -> None:
    assert str(inspect.signature(model)).startswith(beginning)


def test_an_unknown_field_is_an_error_for_type_checkers_too() -> None:
    # without an error of the checker its comment is unused, which fails `make check`
    with pytest.raises(InvalidInputError, match="agent_id"):
        Identity(agnt="guide")  # type: ignore[call-arg]
    with pytest.raises(ValueError, match="importance_min"):
        MemoryFilters(importance=3)  # type: ignore[call-arg]


def test_help_of_the_package_fits_on_a_page() -> None:
    shown = plain(render_doc(mnemic))

    assert "Mnemic.open()" in shown
    assert len(shown.splitlines()) < 70


@pytest.mark.parametrize("name", [name for name in NAMES if is_dataclass(getattr(mnemic, name))])
def test_help_of_a_record_describes_each_field(name: str) -> None:
    record: Any = getattr(mnemic, name)
    described: set[str] = set()
    for kind in record.__mro__:
        _, _, attributes = (inspect.cleandoc(vars(kind).get("__doc__") or "")).partition("Attributes:\n")
        described |= set(re.findall(r"^    (\w+): \S", attributes, re.MULTILINE))

    assert {field.name for field in fields(record)} - described == set()


@pytest.mark.parametrize("face", [Mnemic, SyncMnemic, Administration, SyncAdministration])
def test_help_of_a_class_describes_its_namespaces(face: type) -> None:
    spaces = set(re.findall(r"self\.([a-z]\w*) = ", inspect.getsource(face.__init__)))  # type: ignore[misc]
    _, _, attributes = (inspect.getdoc(face) or "").partition("Attributes:\n")

    assert spaces
    assert spaces - set(re.findall(r"^    (\w+): \S", attributes, re.MULTILINE)) == set()


def test_every_alias_in_a_signature_is_a_public_name() -> None:
    named = {
        word
        for face in FACES
        for method in methods(face)
        for annotation in inspect.get_annotations(method).values()
        for word in ALIASES
        if annotation is ALIASES[word] or ALIASES[word] in get_args(annotation)
    }

    assert {"AnyIdentity", "AnyId"} <= named
    assert named - set(NAMES) == set()
