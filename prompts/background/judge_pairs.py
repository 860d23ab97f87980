"""The step that judges pairs of similar facts."""

from datetime import date
from typing import Annotated, Literal, NamedTuple

from pydantic import Field

from mnemic.prompts.conversation import single_line
from mnemic.prompts.loader import Otherwise, Step, StepOutput, load_prompt


class ShownPair(NamedTuple):
    """Two facts of one subject; a model names the pair by its number alone."""

    number: int
    subject: str
    earlier: str
    earlier_on: date
    later: str
    later_on: date

    def lines(self) -> str:
        """Return the heading of the pair and a line for each fact, escaped."""
        return (
            f"pair {self.number}, about {single_line(self.subject)}\n"
            f"  earlier [{self.earlier_on:%Y-%m-%d}]: {single_line(self.earlier)}\n"
            f"  later [{self.later_on:%Y-%m-%d}]: {single_line(self.later)}"
        )


class JudgePairsInput(NamedTuple):
    """Input of the step."""

    pairs: tuple[ShownPair, ...]

    def variables(self) -> dict[str, str]:
        """Return the values of the prompt's slots, escaped."""
        return {"pairs": "\n".join(pair.lines() for pair in self.pairs)}


class PairVerdict(StepOutput):
    """Verdict on one pair."""

    pair: int = Field(description="number of the pair")
    reason: Annotated[str, Otherwise("")] = Field(description="why, in at most 20 words")
    verdict: Literal["SAME", "UPDATE", "LINK", "APART"]
    text: Annotated[str, Otherwise("")] = Field(description="for SAME the one sentence; else empty")


class JudgePairsOutput(StepOutput):
    """One verdict for each pair."""

    verdicts: list[PairVerdict]


JUDGE_PAIRS = Step[JudgePairsInput, JudgePairsOutput](load_prompt("background/judge_pairs"), JudgePairsOutput, "fast")
