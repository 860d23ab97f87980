"""Prompts of the supervisor and its sub-agents, and the texts that replace results of tools."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from mnemic.prompts.loader import load_texts

_TEXTS: Final = load_texts("messages/supervise")
#: Purpose of each sub-agent.
SUBAGENTS: Final[Mapping[str, str]] = MappingProxyType(_TEXTS["tasks"][1])
TASK: Final = "The whole task in plain words; nothing of this conversation is passed on but this."
DECLINED: Final = "The user was asked and does not want that. It was not done."
ANSWERED: Final = "Done. What it answered was shown in that turn alone; call the tool again where it is needed again."
NOT_ANSWERED: Final = "No answer to this call is there: the turn was broken off, or the answer was taken out. It may \
have been done or not; make sure before you do it again."
WORDLESS: Final = "[Something that is no text stood here. It was shown when it came, and is not shown any more.]"
ATTACHED: Final = "[Attached to this message; not typed by the user:]"
UNFINISHED: Final = "It came to no end within {turns} turns. Give it a smaller task, or do without."


def system_prompt(persona: str | None) -> str:
    """Return the prompt of the supervisor: its task, then its persona."""
    return "\n\n".join(filter(None, (_TEXTS["supervisor"][0], persona)))


def subagent_prompt(role: str) -> str:
    """Return the prompt of a sub-agent."""
    return _TEXTS["subagent"][0].format(role=role, what=SUBAGENTS[role])


def subagent_description(role: str) -> str:
    """Return the description of a sub-agent for the supervisor."""
    return f"{_TEXTS['descriptions'][1][role]} It works alone and answers once."
