"""Validation of values from callers by pydantic and type annotations; an error never quotes a value."""

import builtins
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from difflib import get_close_matches
from functools import cache, wraps
from inspect import Parameter, Signature, iscoroutinefunction, signature
from typing import Annotated, Any, Final, ParamSpec, TypeVar, cast, get_type_hints
from uuid import UUID

from pydantic import (
    AfterValidator,
    AwareDatetime,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainValidator,
    SecretStr,
    TypeAdapter,
    ValidationError,
    ValidatorFunctionWrapHandler,
    WrapValidator,
    validate_call,
)
from pydantic_core import ErrorDetails

from mnemic.state.errors import ConfigurationError, InvalidInputError, MissingIdentityError

Value = TypeVar("Value")
Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")

#: Maximum number of items in a listing, and the type of a caller's limit.
MAX_LISTED = 100_000
Limit = Annotated[int, Field(ge=1, le=MAX_LISTED)]
#: A revision of an agent's history, as Postgres counts them.
Revision = Annotated[int, Field(ge=0, lt=2**63)]

_STRICT = ConfigDict(strict=True, arbitrary_types_allowed=True, hide_input_in_errors=True)
_adapter: Callable[[Any], TypeAdapter[Any]] = cache(TypeAdapter)
#: Pydantic's codes of a field or argument that is missing.
_MISSING = frozenset({"missing", "missing_argument", "missing_keyword_only_argument"})
#: Plain reasons in place of pydantic's; pydantic quotes the caller's object in the first three.
_REASONS = {
    **dict.fromkeys(("mapping_type", "iteration_error", "get_attribute_error"), "cannot be read"),
    "extra_forbidden": "there is no field of this name",
    "tuple_type": "must be a list",
    "literal_error": "use {expected}",
    **dict.fromkeys(_MISSING, "is missing"),
    "unexpected_keyword_argument": "there is no argument of this name",
    "string_type": "must be text",
    "string_too_long": "has more than {max_length} characters",
    "greater_than_equal": "must be at least {ge}",
    "less_than_equal": "must be at most {le}",
    "greater_than": "must be more than {gt}",
    "less_than": "must be less than {lt}",
    "too_long": "has more than {max_length} items",
    **dict.fromkeys(("int_type", "int_parsing", "int_from_float"), "must be a whole number"),
    **dict.fromkeys(("float_type", "float_parsing"), "must be a number"),
    **dict.fromkeys(("bool_type", "bool_parsing"), "must be true or false"),
    **dict.fromkeys(
        ("datetime_type", "datetime_parsing", "datetime_from_date_parsing", "datetime_object_invalid"),
        "must be a day such as 2026-03-02, or a time such as 2026-03-02T09:14:00Z",
    ),
    "timezone_aware": "must have a time zone, as in 2026-03-02T09:14:00Z",
}
_MAX_NAME_LENGTH = 64
#: Name of the first argument of each method that reads or writes memories.
_IDENTITY: Final = "identity"


def check_arguments(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """Check the arguments of a function, or an async function, by its annotations before it is called.

    The check is strict: 1 is no bool, and text is no number. An annotation may loosen or narrow it:
    `Annotated[int, Field(ge=1)]`, `Annotated[UUID, Field(strict=False)]`; `SkipValidation[...]` leaves an argument to
    the function. An argument without annotation, such as `self`, is not checked. The first call builds the validator.

    Raises:
        InvalidInputError: if an argument does not fit, by the function before its body runs.
    """

    @wraps(function)
    def arguments(*args: Any, **kwargs: Any) -> tuple[Any, Any]:
        return args, kwargs

    # the annotation of the result may name a type that is only imported for type checkers
    arguments.__annotations__ = dict(arguments.__annotations__)
    arguments.__annotations__.pop("return", None)
    validator = cache(lambda: validate_call(config=_STRICT)(arguments))

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:  # not around the function itself, since its errors have other causes
            args, kwargs = validator()(*args, **kwargs)
        except ValidationError as error:
            raise _argument_error(error, function) from None
        return function(*args, **kwargs)

    @wraps(function)
    async def call_async(*args: Any, **kwargs: Any) -> Any:
        return await call(*args, **kwargs)

    checked: Any = call
    if iscoroutinefunction(function):
        checked = call_async
    checked.__signature__ = _readable_signature(function)  # read by `help` and `inspect`
    return cast("Callable[Parameters, Result]", checked)


def _readable_signature(function: Callable[..., Any]) -> Signature:
    """Return the signature without the validators of its annotations."""

    def stripped() -> None: ...

    original = signature(function)
    stripped.__annotations__ = {name: kind for name, kind in function.__annotations__.items() if name != "return"}
    types = get_type_hints(stripped)
    parameters: list[Parameter] = []
    for parameter in original.parameters.values():
        annotation = types.get(parameter.name, parameter.annotation)
        parameters.append(parameter.replace(annotation=annotation))
    return original.replace(parameters=parameters)


def _argument_error(error: ValidationError, function: Callable[..., Any]) -> InvalidInputError | MissingIdentityError:
    """Return the error for the first argument that does not fit."""
    problem = error.errors(include_input=False, include_url=False)[0]
    cause = problem.get("ctx", {}).get("error")
    is_missing = problem["type"] in _MISSING and problem["loc"] == (_IDENTITY,)
    if is_missing or isinstance(cause, MissingIdentityError):
        return MissingIdentityError(f"{_IDENTITY}: the first argument is an Identity(agent_id=..., user_id=...)")
    if isinstance(cause, InvalidInputError):  # an identity's own error already names its field
        return cause
    parameters = signature(function).parameters.values()
    if problem["type"] == "unexpected_keyword_argument":
        names = [each.name for each in parameters if each.name != "self"]
        return InvalidInputError(f"{first_problem(error)}{suggestion(str(problem['loc'][0]), names)}")
    positional = [each.name for each in parameters if each.kind is not each.KEYWORD_ONLY]
    return InvalidInputError(first_problem(error, positional))


def validate(kind: type[Value], value: object, *, strict: bool | None = True) -> Value:
    """Return the value as its type; the validator of a type is built at its first use.

    Args:
        kind: the type.
        value: the value from outside.
        strict: whether values of another type, such as 1 for a bool, are refused; None for the type's own rule.

    Raises:
        InvalidInputError: if the value is not of this type.
    """
    try:
        return cast("Value", _adapter(kind).validate_python(value, strict=strict))
    except ValidationError as error:
        raise InvalidInputError(first_problem(error)) from None


def to_uuid(value: object) -> UUID:
    """Return an id as a UUID.

    Raises:
        ValueError: if the value is neither a UUID nor the text of one.
    """
    if isinstance(value, UUID):
        return value
    with suppress(ValueError):  # the message of `UUID` may quote the text
        if isinstance(value, str):
            return UUID(str.__str__(value))  # a subclass may have methods of its own
    raise ValueError("must be a UUID or its text")


def _without_surrogates(value: object) -> object:
    if not isinstance(value, str):
        return value
    return str.encode(value, errors="ignore").decode()


#: Removes half characters from a text that is cleaned later; pydantic would refuse the whole text if it has a limit.
WHOLE_CHARACTERS: Final = BeforeValidator(_without_surrogates)


#: An id as callers pass it; a validated argument is a UUID.
AnyId = Annotated[UUID | str, PlainValidator(to_uuid)]


def _to_moment(value: object, read: ValidatorFunctionWrapHandler) -> object:
    try:
        return read(value)
    except ValidationError:
        raise ValueError("must be a revision of the history, or a datetime with its zone") from None


def _to_time(value: object, read: ValidatorFunctionWrapHandler) -> object:
    try:
        return read(value)
    except ValidationError:
        raise ValueError("must be a datetime with its zone, such as 2026-03-02T09:14:00Z") from None


#: A time as callers pass it.
Time = Annotated[AwareDatetime, WrapValidator(_to_time)]
#: A point of a history as callers pass it: a revision or a time. A text or a fraction could mean either.
Moment = Annotated[Revision | AwareDatetime, WrapValidator(_to_moment)]


def first_problem(error: ValidationError, positional: Sequence[str] = ()) -> str:
    """Describe the first problem by the name of its field, without the value: it may be a user's text.

    Args:
        error: pydantic's error.
        positional: names of positional arguments; pydantic numbers them.
    """
    problem = error.errors(include_input=False, include_url=False)[0]
    reason = _reason_of(problem)
    if not problem["loc"]:
        return reason
    place, *within = problem["loc"]
    if positional and isinstance(place, int):
        place = positional[min(place, len(positional) - 1)]
    path = field_name(place)
    # `filters.importance_min`; pydantic's other names on the way to a value do not help the caller
    if within and str(within[0]).isidentifier() and not hasattr(builtins, str(within[0])):
        path = f"{path}.{field_name(within[0])}"
    return f"{path}: {reason}"


def _reason_of(problem: ErrorDetails) -> str:
    plain = _REASONS.get(problem["type"])
    if plain is None:
        return problem["msg"].removeprefix("Value error, ")
    return plain.format_map(problem.get("ctx", {}))


def field_name(part: int | str) -> str:
    """Return a field's name for a message; the name of an unknown field may be any text."""
    if isinstance(part, int) or (part.isidentifier() and len(part) <= _MAX_NAME_LENGTH):
        return str(part)
    return "an unknown field"


def quoted(value: str) -> str:
    """Return a short word in quotation marks for a message, or `this value`, because other values may be any text."""
    if value.replace("-", "_").isidentifier() and len(value) <= _MAX_NAME_LENGTH:
        return repr(value)
    return "this value"


def nearest(name: str, names: Collection[str], *, prefix: str = "") -> str:
    """Return `; the nearest is NAME` if one of the names is close to this one, else an empty text.

    Args:
        name: the unknown name.
        names: the existing names.
        prefix: beginning of all names, which does not make them similar.
    """
    endings = [each.removeprefix(prefix) for each in names]
    close = get_close_matches(name.removeprefix(prefix), endings, n=1, cutoff=0.7)
    if not close:
        return ""
    return f"; the nearest is {prefix}{close[0]}"


def suggestion(name: str, names: Collection[str], *, note: str = "") -> str:
    """Return `; did you mean NAME?` if one of the names is close to this one, else the list of all names and a note."""
    close = get_close_matches(name, names, n=1)
    if close:
        return f"; did you mean {close[0]}?"
    return f", only {', '.join(names)}{note}"


#: Prefix of the environment's variables.
PREFIX: Final = "MNEMIC_"
#: Minimum number of characters of a key.
MIN_SECRET: Final = 16
#: Marks a setting that one agent may override.
OWN: Final = "an agent may have its own"
Own = Annotated[Value, OWN]
#: The range of Postgres' integers.
PositiveInt = Annotated[int, Field(ge=1, lt=2**31)]
#: At most a day: Postgres' time limits are milliseconds in such an integer.
Seconds = Annotated[float, Field(gt=0, le=86_400)]


def _long_enough(secret: SecretStr) -> SecretStr:
    if len(secret.get_secret_value()) < MIN_SECRET:
        raise ValueError(f"must be a secret of at least {MIN_SECRET} characters")
    return secret


#: Secret of signatures.
Key = Annotated[SecretStr, AfterValidator(_long_enough)]


@contextmanager
def typed_errors(variables: Collection[str] = ()) -> Iterator[None]:
    """Turn validation errors of settings into errors that name the setting, or its variable.

    Args:
        variables: settings that came from the environment.

    Raises:
        ConfigurationError: if a setting does not fit.
    """
    try:
        yield
    except ValidationError as error:
        name, colon, reason = first_problem(error).partition(": ")
        raise ConfigurationError(f"settings do not fit: {named_setting(name, variables)}{colon}{reason}") from None


def named_setting(setting: str, variables: Collection[str]) -> str:
    """Return the name of a setting, or of its variable if it came from the environment."""
    if setting not in variables:
        return setting
    return f"{PREFIX}{setting.upper()}"
