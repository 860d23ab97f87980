"""The step that writes the one living text of a scope."""

from collections.abc import Sequence
from datetime import date
from typing import Final, NamedTuple

from mnemic.prompts.conversation import as_data, single_line
from mnemic.prompts.loader import Step, StepOutput, load_prompt
from mnemic.state.identity import Scope
from mnemic.state.records import Memory, StaleMemory

#: What is told of a draft that was not accepted.
EMPTY_OR_REPEATING: Final = "It is empty or repeats itself."
LACKING: Final = "It lacks these details, as far as they still hold: {details}. Make room for them by shorter words."
TOO_LONG: Final = "It has {words} words; at most {word_limit} are allowed. Drop what is trivial or past."
TOO_LITTLE: Final = "It keeps next to nothing of the text and the reflections. Write down all that still holds."
STILL_SAID: Final = "It still says what is no longer true: {texts}"
#: Details named to the model; more of them would drown the rest.
MAX_DETAILS: Final = 40

#: What a text of each scope is made of, in this order; a part that has nothing is left out.
_PARTS: Final[dict[Scope, str]] = {
    "agent": "who the agent is; its projects and plans; lessons it has learned",
    "group": "aims; decisions in force; dates ahead; who does what; customs",
    "user": "wishes; standing orders; skill; manner; what to bear in mind with this person; "
    "nothing that is the group's or the agent's own affair",
    "session": "what happened; where it stands; what is open",
}


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
    today: date
    #: When the present text was written.
    written: date | None = None
    #: What no longer holds of what was told.
    outdated: Sequence[StaleMemory] = ()
    #: Who the agent is, for its own text.
    persona: str = ""
    #: A draft that was not accepted, and why.
    draft: str = ""
    problems: Sequence[str] = ()

    def variables(self) -> dict[str, str]:
        """The values of the prompt's slots, escaped."""
        reflections = (f"- [{memory.valid_from:%Y-%m-%d}] {single_line(memory.content)}" for memory in self.reflections)
        problems = "\n".join(f"- {problem}" for problem in self.problems)
        written = f"written {self.written:%Y-%m-%d}:\n" if self.written else ""
        return {
            "scope": self.scope,
            "parts": _PARTS[self.scope],
            "today": f"{self.today:%Y-%m-%d}",
            "owner": as_data(self.owner),
            "persona": as_data(self.persona),
            "word_limit": str(self.word_limit),
            "guidance": as_data(self.guidance),
            "current": written + as_data(self.current) if self.current else "",
            "reflections": "\n".join(reflections) or "(none)",
            "no_longer": "\n".join(dict.fromkeys(map(_ended, self.outdated))),
            "revision": as_data(f"Problems:\n{problems}\nDraft:\n{self.draft}") if self.problems else "",
        }


def _ended(row: StaleMemory) -> str:
    now = f"; now: {single_line(row.now)}" if row.now else ""
    return f"- no longer true: {single_line(row.content)} (since {row.since:%Y-%m-%d}){now}"


class WriteConsolidationOutput(StepOutput):
    """The new text."""

    text: str


WRITE_CONSOLIDATION = Step[WriteConsolidationInput, WriteConsolidationOutput](
    load_prompt("write_consolidation"), WriteConsolidationOutput, "slow"
)
