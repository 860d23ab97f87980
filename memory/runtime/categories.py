"""Categories, their recall, and the allowlists of roles."""

from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Final, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, model_validator

from mnemic.state.checking import field_name, nearest, quoted
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
    def _from_list(cls, value: Any) -> Any:
        if isinstance(value, list):
            return {"categories": value}
        return value


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
        """Categories with facts that are always in context."""
        always: list[str] = []
        for category in self.by_name.values():
            if category.context == "all":
                always.append(category.name)
        return tuple(always)

    @property
    def formed(self) -> tuple[str, ...]:
        """Categories that formation may choose from."""
        formed: list[str] = []
        for category in self.by_name.values():
            if category.formed:
                formed.append(category.name)
        return tuple(formed)

    @property
    def personal(self) -> frozenset[str]:
        """Categories that are a person's own."""
        personal: set[str] = set()
        for category in self.by_name.values():
            if category.personal:
                personal.add(category.name)
        return frozenset(personal)

    @property
    def offered(self) -> tuple[tuple[str, str], ...]:
        """Formed categories, each with its meaning, which may be empty."""
        return tuple((name, self.by_name[name].meaning) for name in self.formed)

    @property
    def rag_lengths(self) -> dict[str, int]:
        """Maximum number of results of one search, by category."""
        return {name: category.rag_length for name, category in self.by_name.items()}

    def of_role(self, role: str) -> Allowlist:
        """Return the allowlist of a role.

        Raises:
            CategoryRefusedError: if there is no role of that name.
        """
        if role not in self.allowlists:
            raise CategoryRefusedError(
                f"role: {quoted(role)} has no allowlist{nearest(role, self.allowlists)}; use one of"
                f" {', '.join(self.allowlists)}, or add it to MNEMIC_CATEGORIES_FILE"
            )
        return self.allowlists[role]

    def requested(self, role: str, names: Sequence[str] | None) -> tuple[str, ...]:
        """Return the categories of one request: the named ones, or the role's whole allowlist without names.

        Names count as they are written: no case, width or look-alike is folded, so that nothing is allowed by accident.

        Raises:
            CategoryRefusedError: if a name is not on the role's list, or the role has none.
        """
        allowed = self.of_role(role).categories
        if names is None:
            return allowed
        distinct = tuple(dict.fromkeys(names))
        if set(distinct) <= set(allowed):
            return distinct
        may_request = ", ".join(allowed) or "none"
        reasons = self._describe_refused([name for name in distinct if name not in allowed], role)
        raise CategoryRefusedError(f"categories: {reasons}; allowed: {may_request}")

    def _describe_refused(self, names: Sequence[str], role: str) -> str:
        """Return the reasons why a role may not read these categories; an unknown name may be any text."""
        reasons: list[str] = []
        if known := [name for name in names if name in self.by_name]:
            reasons.append(f"not on the allowlist of the role {role}: {', '.join(known)}")
        if unknown := [name for name in names if name not in self.by_name]:
            reasons.append(f"{quoted(unknown[0])} is no category{nearest(unknown[0], self.by_name)}")
        return "; ".join(reasons)

    def writable(self, role: str) -> tuple[str, ...]:
        """Return the categories that a role may write: those that it reads and formation may choose from.

        Raises:
            CategoryRefusedError: if there is no role of that name.
        """
        formed = self.formed
        writable: list[str] = []
        for name in self.of_role(role).categories:
            if name in formed:
                writable.append(name)
        return tuple(writable)

    def stored_as(self, name: str) -> str:
        """Return the category to store for a name that a model wrote, which may be any text."""
        if name in self.formed:
            return name
        return DEFAULT_CATEGORY


def load_categories(path: Path | None = None) -> Categories:
    """Load the packaged categories and allowlists; a file overrides them.

    Fields of a packaged category or role that the file leaves out stay as packaged; roles that it does not name have no
    allowlist.

    Raises:
        ConfigurationError: if the file cannot be read, or does not have the form of `memory/runtime/categories.yaml`.
    """
    from mnemic.memory.runtime.plain_yaml import read_settings  # 10 ms, which importing the graphs need not take

    packaged = read_settings(resources.files("mnemic.memory.runtime").joinpath("categories.yaml"), _File, _NAME)
    file = packaged
    if path is not None:
        file = read_settings(path, _File, _NAME)
    by_name = _merge_categories(packaged, file)
    allowlists = {OWNER: Allowlist(categories=tuple(by_name), standing=True)}
    for role, allowlist in file.allowlists.items():
        unknown = set(allowlist.categories) - by_name.keys()
        if unknown:
            raise _misfit(f"allowlists.{field_name(role)}: no category is called {', '.join(sorted(unknown))}")
        standing = allowlist.standing
        if "standing" not in allowlist.model_fields_set and role in packaged.allowlists:
            standing = packaged.allowlists[role].standing
        distinct = tuple(dict.fromkeys(allowlist.categories))
        allowlists[role] = Allowlist(categories=distinct, standing=standing)
    return Categories(MappingProxyType(by_name), MappingProxyType(allowlists))


def _merge_categories(packaged: _File, file: _File) -> dict[str, Category]:
    """Return the packaged categories with the fields and the categories of the file."""
    overrides = (*file.categories.system, *file.categories.custom)
    names: set[str] = set()
    repeated: set[str] = set()
    for category in overrides:
        if category.name in names:
            repeated.add(category.name)
        names.add(category.name)
    if repeated:
        raise _misfit(f"categories: named more than once: {', '.join(sorted(repeated))}")
    by_name = {category.name: category for category in packaged.categories.system}
    for category in overrides:
        fields = category.model_dump(exclude_unset=True)
        by_name[category.name] = by_name.get(category.name, category).model_copy(update=fields)
    if not by_name[DEFAULT_CATEGORY].formed:
        raise _misfit(
            f"categories: {DEFAULT_CATEGORY} receives the memories that fit no other category, so it has to be formed"
        )
    return by_name


def _misfit(problem: str) -> ConfigurationError:
    return ConfigurationError(f"the {_NAME} does not fit: {problem}")
