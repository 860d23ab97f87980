"""The step that does extraction in a single call: observations, which are stored as reflections."""

from typing import Any, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field

from mnemic.prompts.categories import CATEGORIES, offering
from mnemic.prompts.conversation import Line, as_data, render_lines
from mnemic.prompts.extract_reflections import ReflectionDraft, StandingText, render_standing
from mnemic.prompts.loader import load_prompt

PROMPT = load_prompt("extract_observations")


class ExtractObservationsInput(NamedTuple):
    """What the step is given."""

    lines: tuple[Line, ...]
    standing: tuple[StandingText, ...]
    #: Display name of the group the conversation belongs to, if any.
    group: str | None
    #: The scope's own guidance to the extractor; may be empty.
    guidance: str
    max_observations: int
    #: Categories to choose from.
    categories: tuple[str, ...] = CATEGORIES


class ObservationDraft(ReflectionDraft):
    """One observation as a model or a rule proposes it."""

    content: str = Field(description="a self-contained text in the third person, at most 50 words")
    scope: Literal["user", "group", "agent"]


class ExtractObservationsOutput(BaseModel):
    """All observations of the conversation."""

    model_config = ConfigDict(extra="forbid", defer_build=True)

    observations: list[ObservationDraft]
    nothing_else: bool = Field(description="whether the other messages hold nothing")


def schema(step_input: ExtractObservationsInput) -> dict[str, Any]:
    """The output's schema with the categories to choose from."""
    return offering(ExtractObservationsOutput, step_input.categories)


def variables(step_input: ExtractObservationsInput) -> dict[str, str]:
    """The values of the prompt's slots, escaped."""
    return {
        "max_observations": str(step_input.max_observations),
        "group": as_data(step_input.group or "(none)"),
        "guidance": as_data(step_input.guidance or "(none)"),
        "standing": render_standing(step_input.standing),
        "conversation": render_lines(step_input.lines),
    }
