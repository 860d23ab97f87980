"""Pydantic models whose `help()` and `dir()` show fields and methods of Mnemic, without those of Pydantic."""

from inspect import Parameter, Signature
from typing import TYPE_CHECKING, get_type_hints

from pydantic import BaseModel

__all__ = ["OwnNames"]

if TYPE_CHECKING:  # the metaclass of `BaseModel`, of which checkers know what it does to fields
    from pydantic._internal._model_construction import ModelMetaclass as OwnNames
else:

    class OwnNames(type(BaseModel)):
        """Metaclass of the models that users create."""

        def __dir__(cls) -> list[str]:
            """List the fields and the public attributes of the model and its bases, without those of libraries."""
            names = set(cls.model_fields)
            for base in cls.__mro__:
                if isinstance(base, OwnNames):
                    names.update(name for name in vars(base) if not name.startswith("_") and name != "model_config")
            return sorted(names)

        @property
        def __signature__(cls) -> Signature:
            """Arguments of the model: its fields, with plain types. Pydantic's own comes with the first instance."""
            try:
                types = get_type_hints(cls)
            except NameError:  # Sphinx shows names that only type checkers import
                types = {name: field.annotation for name, field in cls.model_fields.items()}
            parameters: list[Parameter] = []
            for name, field in cls.model_fields.items():
                default = Parameter.empty if field.is_required() else field.get_default(call_default_factory=True)
                parameters.append(Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=types[name]))
            return Signature(parameters)

        @__signature__.setter
        def __signature__(cls, _: object) -> None:
            """Ignore the signature of Pydantic, which shows its validators."""
