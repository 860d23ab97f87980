"""Read the output of a step out of a model's text, and mend values that have one meaning."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, Final, Literal, NamedTuple, TypeVar, get_args, get_origin

from pydantic import TypeAdapter, ValidationError
from pydantic.fields import FieldInfo

from mnemic.memory.text.shape import whole_characters
from mnemic.prompts.loader import Otherwise, StepOutput

Record = TypeVar("Record", bound=StepOutput)

#: End of the part in which a reasoning model thinks, as chat templates write it.
_THOUGHT_END: Final = re.compile(r"[<\[◁]/think(?:ing)?[>\]▷]", re.IGNORECASE)
#: Beginning of an answer that is JSON from its first character, in which such a mark is a part of a text.
_BARE_JSON: Final = re.compile(r"\s*(?:\{|\[\s*\{)")
_OPENING: Final = re.compile(r"[{\[]")
#: Characters around a number in lists that models write as a text: `[3]`, `#3`, `3, 4`.
_AROUND_NUMBERS: Final = re.compile(r"[\s,;#()\[\]]+")
#: Places of a text that open no JSON value before the search ends. Each costs a pass over the rest of the text, and
#: prose around a real answer has fewer brackets.
_MAX_FAILED_STARTS: Final = 200
#: JSON values of one text that are compared with the schema.
_MAX_CANDIDATES: Final = 8
#: Line breaks within a string are no valid JSON, and have one meaning.
_DECODER: Final = json.JSONDecoder(strict=False)


class Reading(NamedTuple):
    """The result of reading one JSON value as a step's output."""

    #: The value, mended; the output type may still refuse it.
    value: Any
    #: Problems of the list entries that were left out, in order.
    refused: tuple[ValidationError, ...] = ()


def without_thoughts(text: str) -> str:
    """Return the part of a text behind a model's thoughts."""
    if _BARE_JSON.match(text):
        return text
    return _THOUGHT_END.split(text)[-1]


def json_values(text: str) -> list[Any]:
    """Return the outermost JSON objects of a text, and the lists in front of any bracket that opens no value.

    A bracket that opens no value may belong to an answer that broke off. A list behind it may be a part of that answer.
    """
    values: list[Any] = []
    failed = position = 0
    text = _unquoted(text)
    while failed < _MAX_FAILED_STARTS and (opening := _OPENING.search(text, position)):
        try:
            value, position = _DECODER.raw_decode(text, opening.start())
        except RecursionError:
            break
        except ValueError:
            failed, position = failed + 1, opening.end()
            continue
        if isinstance(value, dict) or not failed:
            values.append(value)
    return values


def _unquoted(text: str) -> str:
    """Return the text within a JSON string, or another text as it is."""
    if not text.lstrip().startswith('"'):
        return text
    try:
        inner = _DECODER.decode(text)
    except (ValueError, RecursionError):
        return text
    return str(inner)


def leading_object(text: str) -> dict[str, Any] | None:
    """Return the object at the first bracket of a text, or None if none begins there or if it broke off."""
    opening = _OPENING.search(text)
    if opening is None:
        return None
    try:
        value, _ = _DECODER.raw_decode(text, opening.start())
    except (ValueError, RecursionError):
        return None
    if not isinstance(value, dict):
        return None
    return value


def candidates(text: str, output: type[StepOutput]) -> list[Any]:
    """Return the JSON values of a text that may be the output, the likeliest first.

    The likeliest value has most of the output's fields. Of several such values the last one counts, as models draft
    before they answer.
    """
    values: list[Any] = []
    for value in json_values(text):
        values.extend(_unwrapped(value, output))
    values.reverse()  # the sort keeps the order of equal values, so that the last one comes first
    values.sort(key=lambda value: _count_fields(value, output), reverse=True)
    return values[:_MAX_CANDIDATES]


def read_record(value: Any, output: type[Record]) -> tuple[Record, tuple[ValidationError, ...]]:
    """Return the output that a JSON value holds, and the problems of the list entries that were left out of it.

    Raises:
        ValidationError: if the rest of the value does not fit.
    """
    reading = _mended(value, output)
    record = output.model_validate(reading.value)
    record.note_unreadable(len(reading.refused))
    return record, reading.refused


def _unwrapped(value: Any, output: type[StepOutput]) -> Iterator[Any]:
    """Yield the value, and the values within it if it has no field of the output: `{"answer": ...}`, a call as text."""
    yield value
    if isinstance(value, dict) and output.model_fields.keys().isdisjoint(value):
        for inner in value.values():
            if isinstance(inner, dict):
                yield inner
            elif isinstance(inner, str):
                yield from json_values(inner)


def _count_fields(value: Any, output: type[StepOutput]) -> int:
    if isinstance(value, dict):
        return len(output.model_fields.keys() & value.keys())
    return int(_is_sole_list(value, output))


def _is_sole_list(value: Any, output: type[StepOutput]) -> bool:
    """Return whether a list is the output's one list without the object around it."""
    if not isinstance(value, list):
        return False
    types: list[type[StepOutput]] = []
    for field in output.model_fields.values():
        if entry_type := _entry_type(field.annotation):
            types.append(entry_type)
    return len(types) == 1 and any(_count_fields(entry, types[0]) for entry in value)


def _mended(value: Any, output: type[StepOutput]) -> Reading:
    """Return a value with the fields that its type has; a value without any of them stays as it is."""
    fields = output.model_fields
    if _is_sole_list(value, output):
        value = {next(name for name, field in fields.items() if _entry_type(field.annotation)): value}
    if not isinstance(value, dict) or fields.keys().isdisjoint(value):
        return Reading(value)
    mended: dict[str, Any] = {}
    refused: list[ValidationError] = []
    for name, field in fields.items():
        if entry := _entry_type(field.annotation):
            mended[name], problems = _read_entries(value.get(name), entry)
            refused += problems
        elif name in value or field.is_required():
            mended.update(_mended_field(name, field, value))
    return Reading(mended, tuple(refused))


def _entry_type(annotation: Any) -> type[StepOutput] | None:
    """Return the type of the drafts in a list of drafts."""
    if get_origin(annotation) is not list:
        return None
    inner = get_args(annotation)[0]
    if isinstance(inner, type) and issubclass(inner, StepOutput):
        return inner
    return None


def _read_entries(value: Any, entry: type[Record]) -> tuple[Any, list[ValidationError]]:
    """Return the entries that can be read, and the problems of the others."""
    if value is None:
        return [], []
    if isinstance(value, str):
        value = next(iter(json_values(value)), value)
    if isinstance(value, dict) and _count_fields(value, entry):
        value = [value]
    if not isinstance(value, list):
        return value, []
    entries: list[Record] = []
    problems: list[ValidationError] = []
    for item in value:
        try:
            entries.append(read_record(item, entry)[0])
        except ValidationError as error:
            problems.append(error)
    return entries, problems


def _mended_field(name: str, field: FieldInfo, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the field's value, the default of a value that cannot be read, or the value as it is, to be refused."""
    value = values.get(name)
    try:
        return {name: _converted(value, field.annotation)}
    except (ValidationError, ValueError, OverflowError):
        for mark in field.metadata:
            if isinstance(mark, Otherwise):
                return {name: mark.value}
        if field.is_required() and name in values:
            return {name: value}
        return {}


def _converted(value: Any, annotation: Any) -> Any:
    """Return a value in the type of its field, if it has one meaning there; ValueError or ValidationError if not."""
    if annotation == list[int]:
        return _numbers(_as_list(value))
    if annotation == list[str]:
        return list(map(_text, _as_list(value)))
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    if annotation is str:
        if isinstance(value, int | float) and not isinstance(value, bool):
            value = str(value)
        return whole_characters(_text(value))
    if isinstance(value, str):
        value = value.strip()
    if get_origin(annotation) is Literal:
        return _choice(value, get_args(annotation))
    if annotation is int and isinstance(value, float):
        return round(value)
    return _adapter(annotation).validate_python(value)


def _as_list(value: Any) -> list[Any]:
    if isinstance(value, list):
        return value
    return [value]


@cache
def _adapter(annotation: type) -> TypeAdapter[Any]:
    return TypeAdapter(annotation)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError("no text")
    return value


def _choice(value: Any, choices: Sequence[Any]) -> Any:
    for choice in choices:
        if str(choice).casefold() == str(value).casefold():
            return choice
    raise ValueError("none of the choices")


def _numbers(values: Iterable[Any]) -> list[int]:
    """Return the whole numbers of a list, as numbers or as digits; other entries are left out."""
    numbers: list[int] = []
    for value in values:
        if isinstance(value, bool):
            continue
        if isinstance(value, int | float) and value == value // 1:
            numbers.append(int(value))
        if isinstance(value, str):
            numbers += [int(part) for part in _AROUND_NUMBERS.split(value) if part.isdecimal() and len(part) < 10]
    return numbers
