"""The step that writes the one living text of a scope."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from mnemic.prompts.conversation import as_data, single_line
from mnemic.prompts.loader import Step, StepOutput, load_prompt
from mnemic.state.identity import Scope
from mnemic.state.records import Memory

#: What is told of a draft that was not accepted.
EMPTY_OR_REPEATING: Final = "It is empty or repeats itself."
LACKING: Final = "It lacks these details, as far as they still hold: {details}."
TOO_LONG: Final = "It has {words} words; at most {word_limit} are allowed."
#: Details named to the model; more of them would drown the rest.
MOST_DETAILS: Final = 40


class WriteConsolidationInput(NamedTuple):
    """What the step is given."""

    scope: Scope
    #: Display name of the user, group, session or agent.
    owner: str
    current: str
    #: Oldest first; the newer wins where two disagree.
    reflections: Sequence[Memory]
    word_limit: int
    guidance: str
    #: A draft that was not accepted, and why.
    draft: str = ""
    problem: str = ""

    def variables(self) -> dict[str, str]:
        """The values of the prompt's slots, escaped."""
        reflections = (f"- [{memory.valid_from:%Y-%m-%d}] {single_line(memory.content)}" for memory in self.reflections)
        return {
            "scope": self.scope,
            "owner": as_data(self.owner),
            "word_limit": str(self.word_limit),
            "guidance": as_data(self.guidance or "(none)"),
            "current": as_data(self.current or "(none yet)"),
            "reflections": "\n".join(reflections) or "(none)",
            "revision": as_data(f"Problem: {self.problem}\nDraft:\n{self.draft}") if self.problem else "(none)",
        }


class WriteConsolidationOutput(StepOutput):
    """The new text."""

    text: str


WRITE_CONSOLIDATION = Step[WriteConsolidationInput, WriteConsolidationOutput](
    load_prompt("write_consolidation"), WriteConsolidationOutput, "slow"
)
