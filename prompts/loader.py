"""A model step: its prompt, read from a Markdown file, and the types of what it takes and answers."""

import re
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
    """What a step is given."""

    def variables(self) -> dict[str, str]:
        """The values of the prompt's slots, escaped."""


class Otherwise(NamedTuple):
    """Mark of an output's field: the value that stands for a missing or unreadable one. No schema shows it."""

    value: Any


class StepOutput(BaseModel):
    """What a model answers, or a part of it; a field too many is refused.

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
    #: Fixed text; but for the one step whose ledger stands in it, nothing said or stored can reach the system role.
    system: str
    #: Text with a `{{slot}}` for each variable; what stands between `{{#slot}}` and `{{/slot}}` goes where it is empty.
    user: str

    def render(self, **values: str) -> tuple[str, str]:
        """System and user text with every slot filled, and values without a slot left out.

        A slot inside a value stays as it is. A slot without a value is a KeyError.
        """
        given = (_PART.sub(lambda part: part[2] if values[part[1]] else "", text) for text in (self.system, self.user))
        system, user = (_SLOT.sub(lambda slot: values[slot[1]], text) for text in given)
        return system, user

    def read_values(self, user: str) -> dict[str, str] | None:
        """Return the values in a rendered user text, empty ones included, or None if it has another template."""
        match = _pattern(self.user).fullmatch(user)
        if match is None:
            return None
        return match.groupdict(default="")


class Step(NamedTuple, Generic[In, Out]):
    """A job that a language model does for a graph; `mnemic.models.offline.steps` has a rule of its prompt's name."""

    prompt: Prompt
    output: type[Out]
    tier: Tier

    def messages(self, step_input: In) -> list[BaseMessage]:
        """What a model is asked with."""
        system, user = self.prompt.render(**step_input.variables())
        return [SystemMessage(system), HumanMessage(user)]


def parse_prompt(name: str, source: str, *, system_slots: bool = False) -> Prompt:
    """The prompt that a file's text describes: a section `# system` and a section `# user`.

    Args:
        system_slots: whether the system section may have slots too.

    Raises:
        ConfigurationError: there are other sections, or the system section has a slot.
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
        name: path of the file, such as `refinement/refine`; its last part is the name of the step.
        system_slots: whether the system section may have slots too.
    """
    return parse_prompt(name.rpartition("/")[2], _source(name), system_slots=system_slots)


def load_texts(name: str) -> dict[str, tuple[str, dict[str, str]]]:
    """The texts of `NAME.md` beside this module, by their headings, each with the list below it: `- name: sentence`."""
    texts = {}
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
