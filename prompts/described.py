"""Arguments of a tool as a model reads them: a request's own fields and bounds, with a sentence for each."""

from collections.abc import Callable, Mapping
from types import NoneType
from typing import Annotated, Any, get_args

from pydantic import BaseModel, ConfigDict, Field, create_model, model_validator
from pydantic.fields import FieldInfo


class Arguments(BaseModel):
    """What a model sends: an unknown argument is left out, and null stands for the default.

    So nothing but the named arguments reaches a tool, whatever else a model writes beside them.
    """

    model_config = ConfigDict(extra="ignore", hide_input_in_errors=True, populate_by_name=True)

    @model_validator(mode="before")
    @classmethod
    def _null_is_the_default(cls, given: Any) -> Any:
        return {name: value for name, value in given.items() if value is not None} if isinstance(given, dict) else given


class Part(Arguments):
    """What a model sends within an argument; there an unknown name is refused, for it may have been meant to narrow."""

    model_config = ConfigDict(extra="forbid")


def described(
    request: type[BaseModel],
    sentences: Mapping[str, str],
    *,
    base: type[Arguments] = Arguments,
    parts: Mapping[str, type[Part]] | None = None,
) -> type[Any]:
    """The fields of a request with their bounds, each with its sentence.

    What a model is told of it goes into every one of its calls, so it says nothing of null.

    Args:
        request: whose fields they are.
        sentences: one for each field, by its name.
        base: what becomes of unknown names.
        parts: described types of the fields that have fields of their own.
    """
    fields: dict[str, Any] = {}
    for name, field in request.model_fields.items():
        part = (parts or {}).get(name)
        shown = _field(field, sentences[name], part or (lambda: None))
        fields[name] = Annotated[part or _without_none(field.annotation), *field.metadata, shown]
    return create_model(request.__name__, __base__=base, **fields)


def _field(field: FieldInfo, sentence: str, left_out: Callable[[], Any]) -> Any:
    if field.is_required():
        return Field(description=sentence, alias=field.alias)
    if isinstance(field.default, str | int):
        return Field(default=field.default, description=sentence, alias=field.alias)
    return Field(default_factory=left_out, description=sentence, alias=field.alias)  # a factory is not told


def _without_none(annotation: Any) -> Any:
    kinds = get_args(annotation)
    return next(kind for kind in kinds if kind is not NoneType) if NoneType in kinds else annotation
