"""Schemas of tool calls, and refusals that the tools of agents and of refinements share."""

from collections.abc import Iterable, Mapping
from types import MappingProxyType, NoneType
from typing import Annotated, Any, NamedTuple, get_args

from pydantic import BaseModel, ConfigDict, Field, create_model, model_validator
from pydantic.fields import FieldInfo

NO_MEMORY = "The memory cannot be reached now. Go on without it, and do not try again in this turn."
NO_EMBEDDER = 'The question could not be compared by meaning. Ask again with search_type "text" and no threshold.'
NO_LOOP = (
    "The memory cannot be reached from here: the application has to await the agent (ainvoke), or open the memory "
    "without an event loop (open_sync). Go on without it."
)


class Arguments(BaseModel):
    """Arguments of a call: unknown names are dropped, and null selects the default.

    Only the named arguments reach a tool, also if a model writes others.
    """

    model_config = ConfigDict(extra="ignore", hide_input_in_errors=True, populate_by_name=True)

    @model_validator(mode="before")
    @classmethod
    def _drop_null(cls, arguments: Any) -> Any:
        if not isinstance(arguments, dict):
            return arguments
        return {name: value for name, value in arguments.items() if value is not None}


class Part(Arguments):
    """An object within an argument. It refuses unknown names, because a model may have meant one as a filter."""

    model_config = ConfigDict(extra="forbid")


class ToolPrompt(NamedTuple):
    """A tool as a model reads it."""

    description: str
    arguments: type[BaseModel]


def described(
    request: type[BaseModel],
    sentences: Mapping[str, str],
    *,
    base: type[Arguments] = Arguments,
    parts: Mapping[str, type[Part]] = MappingProxyType({}),
) -> type[Any]:
    """Return the fields of a request with their bounds and a sentence each, for the schema of a tool.

    A model reads the schema with every call. So null is not in it.

    Args:
        request: model with the arguments as its fields.
        sentences: description of each field.
        base: `Arguments` or `Part`.
        parts: described types of the fields that have fields of their own.
    """
    fields: dict[str, Any] = {}
    for name, field in request.model_fields.items():
        options = {"description": sentences[name], "alias": field.alias, **_default(field, parts.get(name))}
        field_type = parts.get(name) or _without_none(field.annotation)
        fields[name] = Annotated[field_type, *field.metadata, Field(**options)]
    return create_model(request.__name__, __base__=base, **fields)


def _default(field: FieldInfo, part: type[Part] | None) -> dict[str, Any]:
    """Return the default as an option of a field. A schema shows numbers and texts, but no result of a factory."""
    if field.is_required():
        return {}
    if isinstance(field.default, str | int):
        return {"default": field.default}
    return {"default_factory": part or (lambda: None)}


def _without_none(annotation: Any) -> Any:
    kinds = get_args(annotation)
    if NoneType not in kinds:
        return annotation
    return next(kind for kind in kinds if kind is not NoneType)


def refused_argument(problem: str) -> str:
    """Return a refusal that names the mistake, so that the next call can avoid it."""
    return f"Refused: {problem.rstrip('.')}. Call again without that mistake, or go on without it."


def unknown_tool(names: Iterable[str]) -> str:
    """Return the refusal of a call of a tool that does not exist, with the names of those that do."""
    return refused_argument(f"there is no tool of this name; there are {', '.join(names)}")


def not_carried_out(limit: int) -> str:
    """Return the result of a call beyond the maximum number of calls in one answer."""
    return f"Not carried out: of one answer the first {limit} calls are. Send it again."


UNREADABLE_CALL = refused_argument("the arguments could not be read: send complete JSON that fits the tool")
