"""Steps that extract facts, reflections or observations from a conversation."""

import json
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Final, Literal

from pydantic import BaseModel, Field

from mnemic.prompts.conversation import Line, People, as_data, render_lines, single_line
from mnemic.prompts.loader import Otherwise, Step, StepOutput, load_prompt
from mnemic.state.records import ScopeContext

#: Characters of each message of another author in the prompt for reflections, which rest on users' messages. The limit
#: saves a tenth of the prompt.
_OTHERS_CHARS: Final = 160


@dataclass(frozen=True, kw_only=True)
class ExtractionInput:
    """Input of the steps; the prompt of each step selects parts of it."""

    lines: tuple[Line, ...]
    people: People
    #: Guidance of the scopes for the extractor; may be empty.
    guidance: str
    #: Categories to choose from, each with its meaning, which may be empty.
    categories: tuple[tuple[str, str], ...]
    #: Maximum number of facts or observations.
    limit: int
    #: Language of the texts.
    language: str = "the language of the conversation"
    #: Context memory of each scope by its owner's display name, so that new texts do not repeat it.
    in_context: tuple[tuple[str, ScopeContext], ...] = ()

    def variables(self) -> dict[str, str]:
        """Return the values of the prompts' slots, escaped."""
        return {
            "categories": self._category_lines(),
            "conversation": render_lines(self.lines),
            "exchange": render_lines(self.lines, others=_OTHERS_CHARS),
            "people": self.people.lines(),
            "language": single_line(self.language),
            "guidance": as_data(self.guidance),
            "limit": str(self.limit),
            "standing": self._context_memory(),
        }

    def _category_lines(self) -> str:
        lines: list[str] = []
        for name, meaning in self.categories:
            line = single_line(meaning)
            lines.append(f"- {name}: {line}" if line else f"- {name}")
        return "\n".join(lines)

    def _context_memory(self) -> str:
        parts: list[str] = []
        for name, part in self.in_context:
            parts.append(f"<{part.scope}>\n{as_data(name)}:\n{as_data(part.text)}\n</{part.scope}>")
        return "\n".join(parts)


#: An importance that cannot be read is the middle of the range.
_Importance = Annotated[int, Otherwise(3), Field(description="1 trivial to 5 vital")]
#: A draft without the flag may be confidential, so it is private.
_Private = Annotated[bool, Otherwise(True)]
#: The narrowest scope that a draft may name.
_Shared = Annotated[Literal["user", "group", "agent"], Otherwise("user")]
#: An unknown name is stored as the default category.
_Category = Annotated[str, Otherwise("")]
#: A draft without sources is refused later, with its reason.
_Sources = Annotated[list[int], Otherwise([])]
#: Without the flag, messages that no draft cites keep their text.
_NothingElse = Annotated[bool, Otherwise(False), Field(description="whether the other messages hold nothing")]


class _Draft(StepOutput):
    #: Part of the schema if there are several groups.
    group: int = Field(default=0, description="where scope is group: its number; else 0")


class FactDraft(_Draft):
    """One fact as a model or a rule proposes it."""

    content: str = Field(description="one self-contained sentence in the third person, at most 30 words")
    subject: Annotated[str, Otherwise("")] = Field(description="the name of who or what it is about")
    scope: _Shared
    category: _Category
    importance: _Importance
    private: _Private
    provenance: Annotated[Literal["asserted", "inferred"], Otherwise("inferred")]
    messages: _Sources = Field(description="numbers of the messages it comes from")


class ExtractFactsOutput(StepOutput):
    """All facts of the conversation."""

    facts: list[FactDraft]
    nothing_else: _NothingElse


class ReflectionDraft(_Draft):
    """One reflection as a model or a rule proposes it."""

    content: str = Field(description="one self-contained sentence in the third person, at most 35 words")
    category: _Category
    importance: _Importance
    private: _Private
    messages: _Sources = Field(description="numbers of the messages it rests on")


class ExtractReflectionsOutput(StepOutput):
    """Reflections by scope, the widest first, and at most one episode."""

    agent: list[ReflectionDraft]
    group: list[ReflectionDraft]
    user: list[ReflectionDraft]
    session: list[ReflectionDraft]
    episode: Annotated[str, Otherwise("")] = Field(description="1-2 sentences in the past tense; may be empty")
    nothing_else: _NothingElse


class ObservationDraft(ReflectionDraft):
    """One observation as a model or a rule proposes it."""

    content: str = Field(description="a self-contained text in the third person, at most 50 words")
    scope: _Shared


class ExtractObservationsOutput(StepOutput):
    """All observations of the conversation."""

    observations: list[ObservationDraft]
    nothing_else: _NothingElse


EXTRACT_FACTS = Step[ExtractionInput, ExtractFactsOutput](
    load_prompt("formation/extract_facts"), ExtractFactsOutput, "fast"
)
EXTRACT_REFLECTIONS = Step[ExtractionInput, ExtractReflectionsOutput](
    load_prompt("formation/extract_reflections"), ExtractReflectionsOutput, "slow"
)
EXTRACT_OBSERVATIONS = Step[ExtractionInput, ExtractObservationsOutput](
    load_prompt("formation/extract_observations"), ExtractObservationsOutput, "fast"
)


@cache  # making a schema takes 2 ms, a sixth of a formation without its model calls
def offering(output: type[BaseModel], categories: tuple[tuple[str, str], ...], *, several_groups: bool = False) -> str:
    """Return an output's schema as JSON, which no provider's package can change.

    The provider holds its model to these categories. An answer with another category is usable all the same: see
    `Categories.stored_as`.

    Args:
        output: type of the output.
        categories: categories that a draft may have.
        several_groups: whether a draft has to number its group.
    """
    schema = output.model_json_schema()
    for part in schema["$defs"].values():
        if several_groups:
            part["required"].append("group")
        else:
            part["properties"].pop("group", None)
        if category := part.get("properties", {}).get("category"):
            category["enum"] = [name for name, _ in categories]
    return json.dumps(schema)
