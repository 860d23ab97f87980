"""Model steps: a prompt from a Markdown file, and the types of its input and output."""

import re
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from langchain_core.messages import BaseMessage, HumanMessage, SystemMessage
from pydantic import BaseModel, ConfigDict, PrivateAttr

from mnemic.state.errors import ConfigurationError
from mnemic.state.model_settings import Tier

_SLOT = re.compile(r"\{\{(\w+)\}\}")
_PART = re.compile(r"\{\{#(\w+)\}\}\n(.*?)\{\{/\1\}\}\n", re.DOTALL)
#: The begin or the end of a part, or a slot.
_MARK = re.compile(r"\{\{#(?P<begin>\w+)\}\}\n|\{\{/(?P<end>\w+)\}\}\n|\{\{(?P<slot>\w+)\}\}")
_HEADING = re.compile(r"^# (\w+)\n", re.MULTILINE)
_ITEM = re.compile(r"(?:^|\n+)- (\w+): ")


class StepInput(Protocol):
    """Input of a step."""

    def variables(self) -> dict[str, str]:
        """Return the values of the prompt's slots, escaped."""


class Otherwise(NamedTuple):
    """Mark of an output's field: the value that stands for a missing or unreadable one. No schema shows it."""

    value: Any


class StepOutput(BaseModel):
    """Answer of a model, or a part of it; an unknown field is refused.

    Before an answer comes here, `models/reading.py` drops unknown fields and mends values that have one meaning.
    """

    model_config = ConfigDict(extra="forbid", defer_build=True)

    _unreadable: int = PrivateAttr(default=0)

    @property
    def unreadable(self) -> int:
        """Number of list entries that were left out because they could not be read."""
        return self._unreadable

    def note_unreadable(self, count: int) -> None:
        """Set the number of list entries that were left out."""
        self._unreadable = count


In = TypeVar("In", bound=StepInput)
Out = TypeVar("Out")


class Prompt(NamedTuple):
    """The text of one model step."""

    name: str
    #: Fixed text. No conversation and no memory gets into the system role, except the ledger of a refinement.
    system: str
    #: Text with a `{{slot}}` for each variable. The part from `{{#slot}}` to `{{/slot}}` is left out if the variable
    #: is empty.
    user: str

    def render(self, **values: str) -> tuple[str, str]:
        """Return system and user text with every slot filled; values without a slot are left out.

        A slot inside a value stays as it is. A slot without a value is a KeyError.
        """
        return _fill(self.system, values), _fill(self.user, values)

    def read_values(self, user: str) -> dict[str, str] | None:
        """Return the values in a rendered user text, empty ones included, or None if it has another template."""
        match = _pattern(self.user).fullmatch(user)
        if match is None:
            return None
        return match.groupdict(default="")


def _fill(template: str, values: Mapping[str, str]) -> str:
    def part(match: re.Match[str]) -> str:
        if not values[match[1]]:
            return ""
        return match[2]

    return _SLOT.sub(lambda slot: values[slot[1]], _PART.sub(part, template))


class Step(NamedTuple, Generic[In, Out]):
    """A job of a language model for a graph; `mnemic.models.offline.steps` has a rule of its prompt's name."""

    prompt: Prompt
    output: type[Out]
    tier: Tier

    def messages(self, step_input: In) -> list[BaseMessage]:
        """Return the request to a model."""
        system, user = self.prompt.render(**step_input.variables())
        return [SystemMessage(system), HumanMessage(user)]


def parse_prompt(name: str, source: str, *, system_slots: bool = False) -> Prompt:
    """Return the prompt of a file with a section `# system` and a section `# user`.

    Args:
        name: Name of the prompt.
        source: Text of the file.
        system_slots: Whether the system section may have slots, too.

    Raises:
        ConfigurationError: if there are other sections, or the system section has a slot.
    """
    sections = _sections(source)
    if sections.keys() != {"system", "user"}:
        raise ConfigurationError(f"prompt {name!r} needs a '# system' section and a '# user' section")
    if not system_slots and (slot := _SLOT.search(sections["system"])):
        raise ConfigurationError(f"prompt {name!r} has the slot {slot[0]} in its system section")
    return Prompt(name=name, **sections)


def load_prompt(name: str, *, system_slots: bool = False) -> Prompt:
    """Return the prompt in `NAME.md` below this folder; arguments and errors as for `parse_prompt`.

    Args:
        name: Path of the file, such as `refinement/refine`; its last part is the name of the step.
        system_slots: Whether the system section may have slots, too.
    """
    return parse_prompt(name.rpartition("/")[2], _source(name), system_slots=system_slots)


def load_texts(name: str) -> dict[str, tuple[str, dict[str, str]]]:
    """Return the texts of `NAME.md` below this folder by their headings, each with its list of `- name: sentence`."""
    texts: dict[str, tuple[str, dict[str, str]]] = {}
    for heading, section in _sections(_source(name)).items():
        text, *pairs = _ITEM.split(section)
        texts[heading] = (text, dict(zip(pairs[::2], pairs[1::2], strict=True)))
    return texts


@cache
def _pattern(template: str) -> re.Pattern[str]:
    """Return a pattern with a group for each slot of a template."""
    pattern, end = "", 0
    slots: set[str] = set()
    for mark in _MARK.finditer(template):
        pattern += re.escape(template[end : mark.start()])
        end = mark.end()
        if mark["begin"]:
            pattern += "(?:"
        elif mark["end"]:
            pattern += ")?"
        elif mark["slot"] in slots:
            pattern += f"(?P={mark['slot']})"
        else:
            slots.add(mark["slot"])
            pattern += f"(?P<{mark['slot']}>.*?)"
    return re.compile(pattern + re.escape(template[end:]), re.DOTALL)


def _source(name: str) -> str:
    return files("mnemic.prompts").joinpath(f"{name}.md").read_text(encoding="utf-8")


def _sections(source: str) -> dict[str, str]:
    _, *parts = _HEADING.split(source)
    return {heading: text.strip() for heading, text in zip(parts[::2], parts[1::2], strict=True)}
