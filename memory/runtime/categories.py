"""Categories, their recall, and the allowlists of roles."""

from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Final, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, model_validator

from mnemic.state.checking import field_name
from mnemic.state.errors import CategoryRefusedError, ConfigurationError
from mnemic.state.identity import HostId

#: The role of the person that the memory is about: it reads every category, without a list.
OWNER: Final = "owner"
#: The category of memories that fit none of the offered categories.
DEFAULT_CATEGORY: Final = "knowledge"
_NAME: Final = "categories file"

Name = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_]{0,63}$", strict=True)]


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True, defer_build=True)


class Category(_Part):
    """One category: always in context, or searched."""

    name: Name
    context: Literal["all", "rag"] = "rag"
    #: Items of it that one search returns at most.
    rag_length: Annotated[int, Field(ge=1, le=100)] = 30
    #: Whether formation may choose it.
    formed: bool = True
    #: Whether its memories are a person's own, and never shared.
    personal: bool = False
    #: Its description in the prompts of extraction; without one they show its name only.
    meaning: Annotated[str, Field(max_length=90)] = ""


class Allowlist(_Part):
    """The categories that one role may read."""

    categories: tuple[Name, ...]
    #: Whether it gets the consolidations, reflections and core memories too.
    standing: bool = False

    @model_validator(mode="before")
    @classmethod
    def _a_list_will_do(cls, given: Any) -> Any:
        return {"categories": given} if isinstance(given, list) else given


class _Categories(_Part):
    system: tuple[Category, ...] = ()
    custom: tuple[Category, ...] = ()


class _File(_Part):
    categories: _Categories
    allowlists: dict[HostId, Allowlist]


class Categories(NamedTuple):
    """The categories in force, by name, and the allowlists, by role."""

    by_name: Mapping[str, Category]
    allowlists: Mapping[str, Allowlist]

    @property
    def always(self) -> tuple[str, ...]:
        """Return the categories with facts that are always in context."""
        return tuple(name for name, category in self.by_name.items() if category.context == "all")

    @property
    def formed(self) -> tuple[str, ...]:
        """Return the categories that formation may choose from."""
        return tuple(name for name, category in self.by_name.items() if category.formed)

    @property
    def personal(self) -> frozenset[str]:
        """Return the categories that are a person's own."""
        return frozenset(name for name, category in self.by_name.items() if category.personal)

    @property
    def offered(self) -> tuple[tuple[str, str], ...]:
        """Return the formed categories, each with its meaning, which may be empty."""
        return tuple((name, self.by_name[name].meaning) for name in self.formed)

    @property
    def rag_lengths(self) -> dict[str, int]:
        """Return the maximum number of results of each category in one search."""
        return {name: category.rag_length for name, category in self.by_name.items()}

    def of_role(self, role: str) -> Allowlist:
        """Return the allowlist of a role.

        Raises:
            CategoryRefusedError: no role of that name.
        """
        if role not in self.allowlists:
            raise CategoryRefusedError(
                "this role has no allowlist: add it to the categories file, or name another role"
            )
        return self.allowlists[role]

    def requested(self, role: str, names: Sequence[str] | None) -> tuple[str, ...]:
        """Return the categories of one request: the named ones, or the role's whole allowlist without names.

        Names count as they are written: no case, width or look-alike is folded, so that nothing is allowed by accident.

        Raises:
            CategoryRefusedError: a name is not on the role's list, or the role has none.
        """
        allowed = self.of_role(role).categories
        if names is None:
            return allowed
        if refused := [name for name in dict.fromkeys(names) if name not in allowed]:
            known = [name for name in refused if name in self.by_name]
            named = ", ".join([*known, *(["names that are no category"] if len(known) < len(refused) else [])])
            raise CategoryRefusedError(
                f"not allowed for this role: {named}; it may ask for {', '.join(allowed) or 'none'}"
            )
        return tuple(dict.fromkeys(names))

    def writable(self, role: str) -> tuple[str, ...]:
        """Return the categories that a role may write: those that it reads and formation may choose from.

        Raises:
            CategoryRefusedError: no role of that name.
        """
        return tuple(name for name in self.of_role(role).categories if name in self.formed)

    def stored_as(self, name: str) -> str:
        """Return the category of a name that formation wrote, which may be any text."""
        return name if name in self.formed else DEFAULT_CATEGORY


def load_categories(path: Path | None = None) -> Categories:
    """Load the packaged categories and allowlists; a file overrides them.

    Fields of a packaged category or role that the file leaves out stay as packaged; roles that it does not name have no
    allowlist.

    Raises:
        ConfigurationError: the file cannot be read, or does not have the form of `memory/runtime/categories.yaml`.
    """
    from mnemic.memory.runtime.plain_yaml import read_settings  # 10 ms, which importing the graphs need not take

    packaged = read_settings(resources.files("mnemic.memory.runtime").joinpath("categories.yaml"), _File, _NAME)
    file = packaged if path is None else read_settings(path, _File, _NAME)
    given = (*file.categories.system, *file.categories.custom)
    named = [category.name for category in given]
    if twice := {name for name in named if named.count(name) > 1}:
        raise _misfit(f"categories: stands there twice: {', '.join(sorted(twice))}")
    every = {category.name: category for category in packaged.categories.system}
    for category in given:
        changed = category.model_dump(exclude_unset=True)
        every[category.name] = every.get(category.name, category).model_copy(update=changed)
    if not every[DEFAULT_CATEGORY].formed:
        raise _misfit(f"categories: {DEFAULT_CATEGORY} takes what formation finds no other for, so it has to be formed")
    allowlists = {OWNER: Allowlist(categories=tuple(every), standing=True)}
    for role, own in file.allowlists.items():
        if unknown := set(own.categories) - set(every):
            raise _misfit(f"allowlists.{field_name(role)}: no category is called {', '.join(sorted(unknown))}")
        given_as = packaged.allowlists.get(role, own) if "standing" not in own.model_fields_set else own
        names = tuple(dict.fromkeys(own.categories))
        allowlists[role] = Allowlist(categories=names, standing=given_as.standing)
    return Categories(MappingProxyType(every), MappingProxyType(allowlists))


def _misfit(problem: str) -> ConfigurationError:
    return ConfigurationError(f"the {_NAME} does not fit: {problem}")
