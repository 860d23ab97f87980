"""The step that decides which stored facts the new ones change."""

import re
from datetime import datetime
from typing import Annotated, Final, Literal, NamedTuple

from pydantic import Field

from mnemic.prompts.conversation import single_line
from mnemic.prompts.loader import Otherwise, Step, StepOutput, load_prompt

#: Replacements of the characters that would end a part of a fact's line.
_ENDING: Final = str.maketrans("[];", "(),")
#: A line of stored facts in the prompt: the number and the text of one, or the numbers of facts that are shown above.
KNOWN_LINE: Final = re.compile(r"^  known (?:above: .*|(\d+) \[[^\]]*\]: (.+))\n", re.MULTILINE)


class ShownFact(NamedTuple):
    """A new fact with its candidates, or a candidate; new facts and candidates are numbered separately."""

    number: int
    content: str
    occurred_at: datetime
    candidates: tuple["ShownFact", ...] = ()
    #: Scope and its owner's display name.
    owner: str = "?"
    subject: str = ""

    def line(self, below: "ShownFact | None" = None, *, after: "ShownFact | None" = None) -> str:
        """Return the line of a fact, as in `3 [2026-03-02; user Ana]: text`; no name breaks its form.

        Args:
            below: new fact whose candidate this is; an equal owner is left out.
            after: new fact before this one; an equal date is left out.
        """
        marks: list[str] = []
        if after is None or after.occurred_at.date() != self.occurred_at.date():
            marks.append(f"{self.occurred_at:%Y-%m-%d}")
        if below is None or below.owner != self.owner:
            marks.append(self.owner.translate(_ENDING))
        if self.subject.casefold() not in self.content.casefold():
            marks.append(f"about {self.subject}".translate(_ENDING))
        joined = "; ".join(single_line(mark) for mark in marks)
        return f"{self.number} [{joined}]: {single_line(self.content)}"


class DecideInput(NamedTuple):
    """Input of the step."""

    facts: tuple[ShownFact, ...]
    #: Lines of the context memory; they have no numbers, so that no decision can name them.
    context: tuple[str, ...] = ()

    def variables(self) -> dict[str, str]:
        """Return the values of the prompt's slots, escaped; a candidate that is shown again is a number."""
        lines: list[str] = []
        shown: set[int] = set()
        before: ShownFact | None = None
        for new in self.facts:
            lines.append(f"new {new.line(after=before)}")
            repeated: list[str] = []
            for old in new.candidates:
                if old.number in shown:
                    repeated.append(str(old.number))
                else:
                    lines.append(f"  known {old.line(new)}")
            if repeated:
                lines.append(f"  known above: {', '.join(repeated)}")
            shown.update(old.number for old in new.candidates)
            before = new
        context = "\n".join(f"- {single_line(text)}" for text in self.context)
        return {"facts": "\n".join(lines), "context": context}


class Decision(StepOutput):
    """What happens with one new fact."""

    fact: int = Field(description="number of the new fact")
    reason: Annotated[str, Otherwise("")] = Field(description="why, in at most 20 words")
    event: Literal["ADD", "UPDATE", "DELETE", "NONE"]
    known: Annotated[list[int], Otherwise([])] = Field(
        description="numbers of all known facts it updates, ends or repeats; empty for ADD"
    )
    text: Annotated[str, Otherwise("")] = Field(description="the sentence to store; empty for NONE")


class DecideOutput(StepOutput):
    """One decision for each new fact."""

    decisions: list[Decision]


DECIDE = Step[DecideInput, DecideOutput](load_prompt("formation/decide"), DecideOutput, "fast")
