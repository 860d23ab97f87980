"""The step that finds facts in a conversation: its input and its output."""

from typing import Any, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field

from mnemic.prompts.categories import CATEGORIES, offering
from mnemic.prompts.conversation import Line, as_data, render_lines
from mnemic.prompts.loader import load_prompt

PROMPT = load_prompt("extract_facts")


class ExtractFactsInput(NamedTuple):
    """What the step is given."""

    lines: tuple[Line, ...]
    #: Display name of the group the conversation belongs to, if any.
    group: str | None
    #: The scope's own guidance to the extractor; may be empty.
    guidance: str
    max_facts: int
    #: Categories to choose from.
    categories: tuple[str, ...] = CATEGORIES


class FactDraft(BaseModel):
    """One fact as a model or a rule proposes it."""

    model_config = ConfigDict(extra="forbid", defer_build=True)

    content: str = Field(description="one self-contained sentence in the third person, at most 30 words")
    subject: str = Field(description="the name of who or what it is about")
    scope: Literal["user", "group", "agent"]
    category: str
    importance: int = Field(description="1 trivial to 5 vital")
    private: bool
    provenance: Literal["asserted", "inferred"]
    messages: list[int] = Field(description="numbers of the messages it comes from")


class ExtractFactsOutput(BaseModel):
    """All facts of the conversation."""

    model_config = ConfigDict(extra="forbid", defer_build=True)

    facts: list[FactDraft]
    nothing_else: bool = Field(description="whether the other messages hold nothing")


def schema(step_input: ExtractFactsInput) -> dict[str, Any]:
    """The output's schema with the categories to choose from."""
    return offering(ExtractFactsOutput, step_input.categories)


def variables(step_input: ExtractFactsInput) -> dict[str, str]:
    """The values of the prompt's slots, escaped."""
    return {
        "max_facts": str(step_input.max_facts),
        "group": as_data(step_input.group or "(none)"),
        "guidance": as_data(step_input.guidance or "(none)"),
        "conversation": render_lines(step_input.lines),
    }
