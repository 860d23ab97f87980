"""The step that draws reflections and one episode from a conversation."""

from collections.abc import Iterable
from typing import Any, NamedTuple

from pydantic import BaseModel, ConfigDict, Field

from mnemic.prompts.categories import CATEGORIES, offering
from mnemic.prompts.conversation import Line, as_data, render_lines
from mnemic.prompts.loader import load_prompt
from mnemic.state.identity import Scope

PROMPT = load_prompt("extract_reflections")


class StandingText(NamedTuple):
    """What one scope already holds in context."""

    scope: Scope
    name: str
    text: str


class ExtractReflectionsInput(NamedTuple):
    """What the step is given."""

    lines: tuple[Line, ...]
    standing: tuple[StandingText, ...]
    #: Contents of the facts this run has just decided on.
    new_facts: tuple[str, ...]
    group: str | None
    guidance: str
    #: Categories to choose from.
    categories: tuple[str, ...] = CATEGORIES


class ReflectionDraft(BaseModel):
    """One reflection as a model or a rule proposes it."""

    model_config = ConfigDict(extra="forbid", defer_build=True)

    content: str = Field(description="one self-contained sentence in the third person, at most 35 words")
    category: str
    importance: int = Field(description="1 trivial to 5 vital")
    private: bool
    messages: list[int] = Field(description="numbers of the messages it rests on")


class ExtractReflectionsOutput(BaseModel):
    """Reflections by scope, the widest first, and at most one episode."""

    model_config = ConfigDict(extra="forbid", defer_build=True)

    agent: list[ReflectionDraft]
    group: list[ReflectionDraft]
    user: list[ReflectionDraft]
    session: list[ReflectionDraft]
    episode: str = Field(description="1-2 sentences in the past tense; may be empty")
    nothing_else: bool = Field(description="whether the other messages hold nothing")


def schema(step_input: ExtractReflectionsInput) -> dict[str, Any]:
    """The output's schema with the categories to choose from."""
    return offering(ExtractReflectionsOutput, step_input.categories)


def variables(step_input: ExtractReflectionsInput) -> dict[str, str]:
    """The values of the prompt's slots, escaped."""
    return {
        "group": as_data(step_input.group or "(none)"),
        "guidance": as_data(step_input.guidance or "(none)"),
        "standing": render_standing(step_input.standing),
        "new_facts": "\n".join(f"- {as_data(' '.join(fact.split()))}" for fact in step_input.new_facts) or "(none)",
        "conversation": render_lines(step_input.lines),
    }


def render_standing(standing: Iterable[StandingText]) -> str:
    """What is in mind already, each scope's text in an element of its own."""
    return "\n".join(map(_element, standing)) or "(nothing yet)"


def _element(part: StandingText) -> str:
    return f"<{part.scope}>\n{as_data(part.name)}:\n{as_data(part.text)}\n</{part.scope}>"
