"""Categories, how they are recalled, and which of them a role may read (seed B 5)."""

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Literal, Self

import yaml
from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError, field_validator, model_validator

from mnemic.state.checking import first_problem
from mnemic.state.errors import CategoryRefusedError, ConfigurationError

Name = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_]{0,63}$", strict=True)]


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)


class Category(_Part):
    """One category: always in context, or searched."""

    name: Name
    context: Literal["all", "rag"] = "rag"
    #: Items of it that one search returns at most.
    rag_length: Annotated[int, Field(ge=1, le=100)] = 30
    #: Whether formation may put what was said into it.
    formed: bool = True


class Allowlist(_Part):
    """What one role may read."""

    categories: tuple[Name, ...]
    #: Whether it gets the consolidations, reflections and core memories too.
    standing: bool = False


class _Categories(_Part):
    system: tuple[Category, ...]
    custom: tuple[Category, ...] = ()


class _File(_Part):
    categories: _Categories
    allowlists: dict[str, Allowlist]

    @field_validator("allowlists", mode="before")
    @classmethod
    def _a_list_will_do(cls, given: Any) -> Any:
        if not isinstance(given, dict):
            return given
        return {role: {"categories": own} if isinstance(own, list) else own for role, own in given.items()}

    @model_validator(mode="after")
    def _every_name_is_a_category(self) -> Self:
        names = [category.name for category in (*self.categories.system, *self.categories.custom)]
        if len(set(names)) != len(names):
            raise ValueError("a category stands there twice")
        if unknown := {name for own in self.allowlists.values() for name in own.categories} - set(names):
            raise ValueError(f"the allowlists name unknown categories: {', '.join(sorted(unknown))}")
        return self


@dataclass(frozen=True)
class Categories:
    """The categories in force, by name, and the allowlists, by role."""

    by_name: MappingProxyType[str, Category]
    allowlists: MappingProxyType[str, Allowlist]

    @property
    def always(self) -> tuple[str, ...]:
        """Categories whose facts are always in context."""
        return tuple(name for name, category in self.by_name.items() if category.context == "all")

    @property
    def formed(self) -> tuple[str, ...]:
        """Categories that formation may choose from."""
        return tuple(name for name, category in self.by_name.items() if category.formed)

    @property
    def rag_lengths(self) -> dict[str, int]:
        """Items of each category that one search returns at most."""
        return {name: category.rag_length for name, category in self.by_name.items()}

    def of_role(self, role: str) -> Allowlist:
        """What a role may read.

        Raises:
            CategoryRefusedError: no role of that name.
        """
        if role not in self.allowlists:
            raise CategoryRefusedError(
                "this role has no allowlist: add it to the categories file, or name another role"
            )
        return self.allowlists[role]

    def requested(self, role: str, names: Sequence[str] | None) -> tuple[str, ...]:
        """The categories of one request: those named, or the role's whole allowlist where none are.

        Names count as they are written: no case, width or look-alike is folded, so that nothing is allowed by accident.

        Raises:
            CategoryRefusedError: a name is not on the role's list, or the role has none.
        """
        allowed = self.of_role(role).categories
        if names is None:
            return allowed
        if refused := [name for name in dict.fromkeys(names) if name not in allowed]:
            known = [name for name in refused if name in self.by_name]
            told = ", ".join([*known, *(["names that are no category"] if len(known) < len(refused) else [])])
            raise CategoryRefusedError(
                f"not allowed for this role: {told}; it may ask for {', '.join(allowed) or 'none'}"
            )
        return tuple(dict.fromkeys(names))


def load_categories(path: Path | None = None) -> Categories:
    """The categories of a file; without one, those that come with the package.

    Raises:
        ConfigurationError: it cannot be read, or does not have the form of `policy/categories.yaml`.
    """
    try:
        source = resources.files("mnemic.policy").joinpath("categories.yaml") if path is None else path
        read = _File.model_validate(yaml.safe_load(source.read_text(encoding="utf-8")))
    except (OSError, UnicodeDecodeError, yaml.YAMLError):
        raise ConfigurationError("the categories file cannot be read: it has to be YAML in UTF-8") from None
    except ValidationError as error:
        raise ConfigurationError(f"the categories file does not fit: {first_problem(error)}") from None
    every = {category.name: category for category in (*read.categories.system, *read.categories.custom)}
    return Categories(MappingProxyType(every), MappingProxyType(read.allowlists))
