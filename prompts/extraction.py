"""The steps of a formation: what a conversation holds, and what each new fact does to the facts already known."""

import re
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import Annotated, Any, Final, Literal, NamedTuple

from pydantic import BaseModel, Field

from mnemic.prompts.conversation import Line, People, as_data, render_lines, single_line
from mnemic.prompts.loader import Otherwise, Step, StepOutput, load_prompt
from mnemic.state.records import ScopeContext

#: Reflections rest on what users say; so much of the rest tells what they answer. It saves a tenth of the prompt.
_OTHERS_CHARS = 160
#: What would end a part of a shown fact's line.
_ENDING = str.maketrans("[];", "(),")


#: A line of a known fact in the prompt of `decide`: its number and its text; or those that stand above, without.
KNOWN_LINE: Final = re.compile(r"^  known (?:above: .*|(\d+) \[[^\]]*\]: (.+))\n", re.MULTILINE)


@dataclass(frozen=True, kw_only=True)
class ExtractionInput:
    """What these steps are given; the prompt of each names what it shows of it."""

    lines: tuple[Line, ...]
    people: People
    #: The scope's own guidance to the extractor; may be empty.
    guidance: str
    #: Categories to choose from, each with what belongs into it; that may be empty.
    categories: tuple[tuple[str, str], ...]
    #: The most facts or observations.
    limit: int
    #: What the texts are written in.
    language: str = "the language of the conversation"
    #: What each scope already holds in context, by its owner's display name: reflections and observations need not
    #: repeat that.
    standing: tuple[tuple[str, ScopeContext], ...] = ()

    def variables(self) -> dict[str, str]:
        """The values of the prompts' slots, escaped."""
        standing = (
            f"<{part.scope}>\n{as_data(name)}:\n{as_data(part.text)}\n</{part.scope}>" for name, part in self.standing
        )
        categories = ((name, single_line(meaning)) for name, meaning in self.categories)
        return {
            "categories": "\n".join(f"- {name}: {meaning}" if meaning else f"- {name}" for name, meaning in categories),
            "conversation": render_lines(self.lines),
            "exchange": render_lines(self.lines, others=_OTHERS_CHARS),
            "people": self.people.lines(),
            "language": single_line(self.language),
            "guidance": as_data(self.guidance),
            "limit": str(self.limit),
            "standing": "\n".join(standing),
        }


#: An importance that cannot be read says nothing: the middle of the range.
_Importance = Annotated[int, Otherwise(3), Field(description="1 trivial to 5 vital")]
#: A draft without the flag may hold what was said in confidence: private narrows its readers to its own user.
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
    #: Asked for where there are several.
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


class ShownFact(NamedTuple):
    """A new fact with the stored ones that it may change, or one of these; each of a kind has a number of its own."""

    number: int
    content: str
    dated: datetime
    known: tuple["ShownFact", ...] = ()
    #: Whose memory it is: a scope and its owner's display name.
    whose: str = "?"
    subject: str = ""

    def line(self, below: "ShownFact | None" = None, *, after: "ShownFact | None" = None) -> str:
        """`3 [2026-03-02; user Ana]: text`; no name in it can pass for another part of it.

        The owner is left out below a new fact of the same one, the date after a new fact of the same day, and the
        subject where the text names it.
        """
        names = [] if below and below.whose == self.whose else [self.whose]
        names += [] if self.subject.casefold() in self.content.casefold() else [f"about {self.subject}"]
        dates = [] if after and after.dated.date() == self.dated.date() else [f"{self.dated:%Y-%m-%d}"]
        marks = [*dates, *(single_line(name.translate(_ENDING)) for name in names)]
        return f"{self.number} [{'; '.join(marks)}]: {single_line(self.content)}"


class DecideInput(NamedTuple):
    """What the step is given."""

    facts: tuple[ShownFact, ...]
    #: What stands in context; it has no numbers, for nothing of it can be named.
    context: tuple[str, ...] = ()

    def variables(self) -> dict[str, str]:
        """The values of the prompt's slots, escaped; a known fact that was shown before stands there by its number."""
        lines: list[str] = []
        shown: set[int] = set()
        for new, before in zip(self.facts, (None, *self.facts), strict=False):
            lines.append(f"new {new.line(after=before)}")
            first = [known for known in new.known if known.number not in shown]
            lines += [f"  known {known.line(new)}" for known in first]
            if again := [str(known.number) for known in new.known if known.number in shown]:
                lines.append(f"  known above: {', '.join(again)}")
            shown.update(known.number for known in first)
        context = "\n".join(f"- {single_line(text)}" for text in self.context)
        return {"facts": "\n".join(lines), "context": context}


class Decision(StepOutput):
    """What happens with one new fact."""

    fact: int = Field(description="number of the new fact")
    reason: Annotated[str, Otherwise("")] = Field(description="why, in at most 20 words")
    event: Literal["ADD", "UPDATE", "DELETE", "NONE"]
    known: _Sources = Field(description="numbers of all known facts it updates, ends or repeats; empty for ADD")
    text: Annotated[str, Otherwise("")] = Field(description="the sentence to store; empty for NONE")


class DecideOutput(StepOutput):
    """One decision for each new fact."""

    decisions: list[Decision]


EXTRACT_FACTS = Step[ExtractionInput, ExtractFactsOutput](load_prompt("extract_facts"), ExtractFactsOutput, "fast")
EXTRACT_REFLECTIONS = Step[ExtractionInput, ExtractReflectionsOutput](
    load_prompt("extract_reflections"), ExtractReflectionsOutput, "slow"
)
EXTRACT_OBSERVATIONS = Step[ExtractionInput, ExtractObservationsOutput](
    load_prompt("extract_observations"), ExtractObservationsOutput, "fast"
)
DECIDE = Step[DecideInput, DecideOutput](load_prompt("decide"), DecideOutput, "fast")


@cache  # 2 ms, a sixth of a formation's own work
def offering(
    output: type[BaseModel], categories: tuple[tuple[str, str], ...], *, several_groups: bool = False
) -> dict[str, Any]:
    """An output's schema in which every `category` is one of these, and a group has a number where there are several.

    Always the same object.

    The model is held to them by its provider; an answer that names another one all the same is no broken answer, for
    the rest of it can be used: see `policy.categories.Categories.stored_as`.
    """
    schema = output.model_json_schema()
    for part in schema["$defs"].values():
        if several_groups:
            part["required"].append("group")
        else:
            part["properties"].pop("group", None)
        if category := part.get("properties", {}).get("category"):
            category["enum"] = [name for name, _ in categories]
    return schema
