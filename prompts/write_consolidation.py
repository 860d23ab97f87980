"""The step that writes the one living text of a scope."""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from pydantic import BaseModel, ConfigDict

from mnemic.prompts.conversation import as_data
from mnemic.prompts.loader import load_prompt
from mnemic.state.identity import Scope

PROMPT = load_prompt("write_consolidation")


class DatedText(NamedTuple):
    """A reflection and when it was formed."""

    dated: datetime
    content: str


class Revision(NamedTuple):
    """A draft that was not accepted, and why."""

    draft: str
    problem: str


class WriteConsolidationInput(NamedTuple):
    """What the step is given."""

    scope: Scope
    #: Display name of the user, group, session or agent.
    owner: str
    current: str
    #: Oldest first; the newer wins where two disagree.
    reflections: tuple[DatedText, ...]
    word_limit: int
    guidance: str
    revision: Revision | None = None


class WriteConsolidationOutput(BaseModel):
    """The new text."""

    model_config = ConfigDict(extra="forbid", defer_build=True)

    text: str


def variables(step_input: WriteConsolidationInput) -> dict[str, str]:
    """The values of the prompt's slots, escaped."""
    return {
        "scope": step_input.scope,
        "owner": as_data(step_input.owner),
        "word_limit": str(step_input.word_limit),
        "guidance": as_data(step_input.guidance or "(none)"),
        "current": as_data(step_input.current or "(none yet)"),
        "reflections": "\n".join(map(_reflection, step_input.reflections)) or "(none)",
        "revision": _revision(step_input.revision) if step_input.revision else "(none)",
    }


def _reflection(reflection: DatedText) -> str:
    return f"- [{reflection.dated:%Y-%m-%d}] {as_data(' '.join(reflection.content.split()))}"


def _revision(revision: Revision) -> str:
    return f"Problem: {as_data(revision.problem)}\nDraft:\n{as_data(revision.draft)}"


#: What is told of a draft that was not accepted.
EMPTY_OR_REPEATING = "It is empty or repeats itself."
#: Details named to the model; more of them would drown the rest.
MOST_DETAILS = 40


def too_long(words: int, word_limit: int) -> str:
    """A draft over its limit."""
    return f"It has {words} words; at most {word_limit} are allowed."


def lacking(details: Sequence[str]) -> str:
    """A draft that lost details."""
    return f"It lacks these details, as far as they still hold: {', '.join(details[:MOST_DETAILS])}."
