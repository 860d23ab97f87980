"""Reads a step's prompt from its Markdown file and fills its slots."""

import re
from collections.abc import Mapping
from importlib.resources import files
from typing import NamedTuple

from mnemic.state.errors import ConfigurationError, InvalidInputError

_SLOT = re.compile(r"\{\{(\w+)\}\}")
_SECTIONS = re.compile(r"\A# system\n(?P<system>.+?)\n# user\n(?P<user>.+)\Z", re.DOTALL)


class Prompt(NamedTuple):
    """The text of one model step."""

    name: str
    #: Fixed text; but for the one step whose ledger stands in it, nothing said or stored can reach the system role.
    system: str
    #: Text with a `{{slot}}` for each variable.
    user: str
    variables: frozenset[str]

    def render(self, **values: str) -> tuple[str, str]:
        """System and user text with every slot filled. A slot inside a value stays as it is.

        Raises:
            InvalidInputError: a variable is missing or surplus; the message names it.
        """
        missing, surplus = sorted(self.variables - values.keys()), sorted(values.keys() - self.variables)
        if missing or surplus:
            raise InvalidInputError(
                f"prompt {self.name!r} takes {sorted(self.variables)}: missing {missing}, surplus {surplus}"
            )
        return _filled(self.system, values), _filled(self.user, values)


def _filled(text: str, values: Mapping[str, str]) -> str:
    return _SLOT.sub(lambda slot: values[slot[1]], text)


def parse_prompt(name: str, text: str, *, system_slots: bool = False) -> Prompt:
    """The prompt that a file's text describes: `# system`, then `# user`.

    Args:
        system_slots: whether the system section may have slots too.

    Raises:
        ConfigurationError: a section is missing, or the system section has a slot.
    """
    sections = _SECTIONS.match(text)
    if sections is None:
        raise ConfigurationError(f"prompt {name!r} needs a '# system' section and then a '# user' section")
    system, user = sections["system"].strip(), sections["user"].strip()
    if not system_slots and (slot := _SLOT.search(system)):
        raise ConfigurationError(f"prompt {name!r} has the slot {slot[0]} in its system section")
    return Prompt(name=name, system=system, user=user, variables=frozenset(_SLOT.findall(f"{system}\n{user}")))


def load_prompt(name: str, *, system_slots: bool = False) -> Prompt:
    """The prompt in `NAME.md` beside this module; arguments as for `parse_prompt`.

    Raises:
        ConfigurationError: there is no such file, or it has not the two sections.
    """
    source = files("mnemic.prompts").joinpath(f"{name}.md")
    if not source.is_file():
        raise ConfigurationError(f"there is no prompt {name!r}")
    return parse_prompt(name, source.read_text(encoding="utf-8"), system_slots=system_slots)
