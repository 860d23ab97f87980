"""The step that decides what a new fact does to the facts already known."""

from datetime import datetime
from typing import Literal, NamedTuple

from pydantic import Field

from mnemic.prompts.conversation import single_line
from mnemic.prompts.loader import Step, StepOutput, load_prompt


class ShownFact(NamedTuple):
    """A stored fact, or a new one with the stored ones near it; each of a kind has a number of its own."""

    number: int
    content: str
    dated: datetime
    known: tuple["ShownFact", ...] = ()


class DecideInput(NamedTuple):
    """What the step is given."""

    facts: tuple[ShownFact, ...]

    def variables(self) -> dict[str, str]:
        """The values of the prompt's slots, escaped."""
        lines = []
        for fact in self.facts:
            lines.append(_line("new", fact))
            lines += [_line("  known", known) for known in fact.known]
        return {"facts": "\n".join(lines)}


class Decision(StepOutput):
    """What happens with one new fact."""

    fact: int = Field(description="number of the new fact")
    event: Literal["ADD", "UPDATE", "DELETE", "NONE"]
    known: list[int] = Field(description="numbers of the known facts it updates, contradicts or repeats; empty for ADD")
    text: str = Field(description="the sentence to store; empty for NONE")


class DecideOutput(StepOutput):
    """One decision for each new fact."""

    decisions: list[Decision]


DECIDE = Step[DecideInput, DecideOutput](load_prompt("decide"), DecideOutput, "fast")


def _line(label: str, fact: ShownFact) -> str:
    return f"{label} {fact.number} [{fact.dated:%Y-%m-%d}]: {single_line(fact.content)}"
