"""Values from outside, checked by pydantic against type annotations; an error never quotes them."""

import builtins
from collections.abc import Callable
from contextlib import suppress
from functools import wraps
from inspect import iscoroutinefunction, signature
from typing import Annotated, Any, ParamSpec, TypeVar, cast
from uuid import UUID

from pydantic import (
    AwareDatetime,
    ConfigDict,
    Field,
    PlainValidator,
    TypeAdapter,
    ValidationError,
    ValidatorFunctionWrapHandler,
    WrapValidator,
    validate_call,
)

from mnemic.state.errors import InvalidInputError

Value = TypeVar("Value")
Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")

#: Items that a listing returns at most, and how many of them a caller asks for.
MAX_LISTED = 100_000
Limit = Annotated[int, Field(ge=1, le=MAX_LISTED)]
#: A seq of an agent's history, as Postgres counts them.
Seq = Annotated[int, Field(ge=0, lt=2**63)]

_STRICT = ConfigDict(strict=True, arbitrary_types_allowed=True, hide_input_in_errors=True)
_ADAPTERS: dict[Any, TypeAdapter[Any]] = {}

#: What pydantic says of these is what somebody's object raised while it was read.
_FOREIGN = frozenset({"mapping_type", "iteration_error", "get_attribute_error"})
_LONGEST_NAME = 64


def check_arguments(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """Checks the arguments of a function, or an async function, by its own annotations before it is called.

    The check is strict: 1 is no bool, and text is no number. An annotation may say otherwise, or more:
    `Annotated[int, Field(ge=1)]`, `Annotated[UUID, Field(strict=False)]`; `SkipValidation[...]` leaves an argument to
    the function. What has no annotation, such as `self`, is not looked at. The validator is built at the first call.

    Raises:
        InvalidInputError: raised by the function, before its body runs: the argument's name and what is wrong with it.
    """
    arguments = _Arguments(function)
    if iscoroutinefunction(function):

        @wraps(function)
        async def call_async(*args: Any, **kwargs: Any) -> Any:
            given, named = arguments.check(args, kwargs)
            return await function(*given, **named)

        return cast("Callable[Parameters, Result]", call_async)

    @wraps(function)
    def call(*args: Parameters.args, **kwargs: Parameters.kwargs) -> Result:
        given, named = arguments.check(args, kwargs)
        return function(*given, **named)

    return call


class _Arguments:
    """The arguments of one function; only they are checked here, so that no error of its body is taken for theirs."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self._check: Callable[..., tuple[Any, Any]] | None = None

    def check(self, args: Any, kwargs: Any) -> tuple[Any, Any]:
        try:
            return (self._check or self._build())(*args, **kwargs)
        except ValidationError as error:
            raise self._refusal(error) from None

    def _build(self) -> Callable[..., tuple[Any, Any]]:
        @wraps(self._function)
        def given(*args: Any, **kwargs: Any) -> tuple[Any, Any]:
            return args, kwargs

        # the annotation of the result may name what is only imported for type checkers
        given.__annotations__ = {name: kind for name, kind in given.__annotations__.items() if name != "return"}
        self._check = validate_call(config=_STRICT)(given)
        return self._check

    def _refusal(self, error: ValidationError) -> InvalidInputError:
        problem = error.errors(include_input=False, include_url=False)[0]
        cause = problem.get("ctx", {}).get("error")
        if isinstance(cause, InvalidInputError):  # such as that of an identity, which names its own field
            return cause
        place, *within = problem["loc"]
        if isinstance(place, int):  # pydantic names positional arguments by their number
            parameters = signature(self._function).parameters.values()
            names = [parameter.name for parameter in parameters if parameter.kind is not parameter.KEYWORD_ONLY]
            place = names[min(place, len(names) - 1)]
        return InvalidInputError(_described((place, *within), problem["type"], problem["msg"]))


def validate(kind: type[Value], value: object, *, strict: bool | None = True) -> Value:
    """The value as what it should be; the validator of a type is built when it is first used.

    Args:
        kind: what it should be.
        value: what it is.
        strict: whether 1 or "yes" is no bool, and so on; None: as the type itself says.

    Raises:
        InvalidInputError: it is something else.
    """
    if kind not in _ADAPTERS:
        _ADAPTERS[kind] = TypeAdapter(kind)
    adapter: TypeAdapter[Value] = _ADAPTERS[kind]
    try:
        return adapter.validate_python(value, strict=strict)
    except ValidationError as error:
        raise InvalidInputError(first_problem(error)) from None


def to_uuid(value: object) -> UUID:
    """An id that may be given as its text.

    Raises:
        ValueError: it is no id.
    """
    if isinstance(value, UUID):
        return value
    with suppress(ValueError):  # whose message may quote the text
        if isinstance(value, str):
            return UUID(str.__str__(value))  # not by the methods of a subclass
    raise ValueError("an id is a UUID, or its text")


#: An id as a caller of `Mnemic` may give it; `to_uuid` makes it a UUID for type checkers too.
AnyId = Annotated[UUID | str, PlainValidator(to_uuid)]


def _to_moment(value: object, read: ValidatorFunctionWrapHandler) -> object:
    try:
        return read(value)
    except ValidationError:
        raise ValueError("a seq of the history, or a datetime with its zone") from None


#: A moment of a history, as a caller gives it: never text or a fraction, which could be meant as either.
Moment = Annotated[Seq | AwareDatetime, WrapValidator(_to_moment)]


def first_problem(error: ValidationError) -> str:
    """The first problem by the name of its field; never the value, which may be somebody's words."""
    problem = error.errors(include_input=False, include_url=False)[0]
    return _described(problem["loc"], problem["type"], problem["msg"])


def _described(place: tuple[int | str, ...], kind: str, message: str) -> str:
    reason = "cannot be read" if kind in _FOREIGN else message.removeprefix("Value error, ")
    return f"{_path(place)}: {reason}" if place else reason


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
