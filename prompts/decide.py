"""The step that decides what a new fact does to the facts already known."""

from datetime import datetime
from typing import Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field

from mnemic.prompts.conversation import as_data
from mnemic.prompts.loader import load_prompt

PROMPT = load_prompt("decide")


class KnownFact(NamedTuple):
    """A stored fact, named by a number that is unique in the whole prompt."""

    number: int
    content: str
    dated: datetime
    similarity: float


class NewFact(NamedTuple):
    """A new fact with the stored facts near it."""

    number: int
    content: str
    dated: datetime
    known: tuple[KnownFact, ...]


class DecideInput(NamedTuple):
    """What the step is given."""

    facts: tuple[NewFact, ...]


class Decision(BaseModel):
    """What happens with one new fact."""

    model_config = ConfigDict(extra="forbid", defer_build=True)

    fact: int = Field(description="number of the new fact")
    event: Literal["ADD", "UPDATE", "DELETE", "NONE"]
    known: list[int] = Field(description="numbers of the known facts it updates, contradicts or repeats; empty for ADD")
    text: str = Field(description="the sentence to store; empty for NONE")


class DecideOutput(BaseModel):
    """One decision for each new fact."""

    model_config = ConfigDict(extra="forbid", defer_build=True)

    decisions: list[Decision]


def variables(step_input: DecideInput) -> dict[str, str]:
    """The values of the prompt's slots, escaped."""
    lines = []
    for fact in step_input.facts:
        lines.append(_line("new", fact))
        lines += [_line("  known", known) for known in fact.known]
    return {"facts": "\n".join(lines)}


def _line(label: str, fact: NewFact | KnownFact) -> str:
    # One line a fact: a line break inside a content could otherwise pass for another numbered fact.
    return f"{label} {fact.number} [{fact.dated:%Y-%m-%d}]: {as_data(' '.join(fact.content.split()))}"
