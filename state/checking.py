"""Values from outside, checked by pydantic; what is said of them never quotes them."""

import builtins
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from mnemic.state.errors import InvalidInputError

Checked = TypeVar("Checked")

#: Anything with keys; `strict=False` reads other mappings than dicts.
MAPPING: TypeAdapter[dict[Any, Any]] = TypeAdapter(dict[Any, Any])

_INPUTS: dict[type, TypeAdapter[Any]] = {}

#: What pydantic says of these is what somebody's object raised while it was read.
_FOREIGN = frozenset({"mapping_type", "iteration_error", "get_attribute_error"})
_LONGEST_NAME = 64


def checked(kind: TypeAdapter[Checked], given: object, *, strict: bool | None = True) -> Checked:
    """The value as what it should be.

    Args:
        kind: what it should be.
        given: the value.
        strict: whether 1 or "yes" is no bool, and so on; None: as the types themselves say.

    Raises:
        InvalidInputError: it is something else.
    """
    try:
        return kind.validate_python(given, strict=strict)
    except ValidationError as error:
        raise InvalidInputError(first_problem(error)) from None


def input_of(kind: type[Checked], given: object) -> Checked:
    """What a graph was asked, as its input; what checks it is built when first used, not when the graph is imported.

    Raises:
        InvalidInputError: it is something else.
    """
    if kind not in _INPUTS:
        _INPUTS[kind] = TypeAdapter(kind)
    adapter: TypeAdapter[Checked] = _INPUTS[kind]
    return checked(adapter, given)


def first_problem(error: ValidationError) -> str:
    """The first problem by the name of its field; never the value, which may be somebody's words."""
    problem = error.errors(include_input=False, include_url=False)[0]
    reason = "cannot be read" if problem["type"] in _FOREIGN else problem["msg"].removeprefix("Value error, ")
    return f"{_path(problem['loc'])}: {reason}" if problem["loc"] else reason


def _path(parts: tuple[int | str, ...]) -> str:
    """`filters.importance_min`; what else pydantic names on the way to a value says nothing to whoever gave it."""
    within = (
        part for part in parts[1:2] if isinstance(part, str) and part.isidentifier() and not hasattr(builtins, part)
    )
    return ".".join(map(field_name, (parts[0], *within)))


def field_name(part: int | str) -> str:
    """A field's name for a message; that of a field which does not exist may be anything."""
    is_name = isinstance(part, int) or (part.isidentifier() and len(part) <= _LONGEST_NAME)
    return str(part) if is_name else "an unknown field"
