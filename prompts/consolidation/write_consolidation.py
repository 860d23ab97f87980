"""The step that writes the one consolidated text of a scope key."""

from collections.abc import Sequence
from datetime import date
from typing import Final, NamedTuple

from mnemic.prompts.conversation import as_data, single_line
from mnemic.prompts.loader import Step, StepOutput, load_prompt
from mnemic.state.identity import Scope
from mnemic.state.records import Memory, StaleMemory

# problems of a draft, as the model reads them
EMPTY_OR_REPEATING: Final = "It is empty or repeats itself."
LACKING: Final = "It lacks these details, as far as they still hold: {details}. Make room for them by shorter words."
TOO_LONG: Final = "It has {words} words; at most {word_limit} are allowed. Drop what is trivial or past."
TOO_LITTLE: Final = "It keeps next to nothing of the text and the reflections. Write down all that still holds."
STILL_SAID: Final = "It still says what is no longer true: {texts}"
#: Maximum number of missing details in one request; more of them would hide the rest.
MAX_DETAILS: Final = 40
#: Text of a shared scope key if every part of it has ended.
NOTHING_HOLDS: Final = "Nothing holds at present."

#: Parts of a scope's text, in their order.
_PARTS: Final[dict[Scope, str]] = {
    "agent": "who the agent is; its projects and plans; lessons it has learned",
    "group": "aims; decisions in force; dates ahead; who does what; customs",
    "user": "wishes; standing orders; skill; manner; what to bear in mind with this person; "
    "nothing that is the group's or the agent's own affair",
    "session": "what happened; where it stands; what is open",
}


class WriteConsolidationInput(NamedTuple):
    """Input of the step."""

    scope: Scope
    #: Display name of the user, group, session or agent.
    owner: str
    #: The present text; empty without one.
    current: str
    #: Oldest first; the newer one wins if two disagree.
    reflections: Sequence[Memory]
    word_limit: int
    guidance: str
    today: date
    #: Day of the present text.
    written: date | None = None
    #: Statements that no longer hold.
    stale: Sequence[StaleMemory] = ()
    #: The agent's description of itself, for its own text.
    persona: str = ""
    #: A draft that was refused, and its problems.
    draft: str = ""
    problems: Sequence[str] = ()

    def variables(self) -> dict[str, str]:
        """Return the values of the prompt's slots, escaped."""
        reflections = [f"- [{memory.valid_from:%Y-%m-%d}] {single_line(memory.content)}" for memory in self.reflections]
        return {
            "scope": self.scope,
            "parts": _PARTS[self.scope],
            "today": f"{self.today:%Y-%m-%d}",
            "owner": as_data(self.owner),
            "persona": as_data(self.persona),
            "word_limit": str(self.word_limit),
            "guidance": as_data(self.guidance),
            "current": self._current_text(),
            "reflections": "\n".join(reflections) or "(none)",
            "no_longer": self._stale_lines(),
            "revision": self._revision(),
        }

    def _current_text(self) -> str:
        if not self.current:
            return ""
        written = f"written {self.written:%Y-%m-%d}:\n" if self.written else ""
        return written + as_data(self.current)

    def _stale_lines(self) -> str:
        lines: dict[str, None] = {}
        for row in self.stale:
            now = f"; now: {single_line(row.now)}" if row.now else ""
            lines[f"- no longer true: {single_line(row.content)} (since {row.since:%Y-%m-%d}){now}"] = None
        return "\n".join(lines)

    def _revision(self) -> str:
        if not self.problems:
            return ""
        problems = "\n".join([f"- {problem}" for problem in self.problems])
        return as_data(f"Problems:\n{problems}\nDraft:\n{self.draft}")


class WriteConsolidationOutput(StepOutput):
    """The new text."""

    text: str


WRITE_CONSOLIDATION = Step[WriteConsolidationInput, WriteConsolidationOutput](
    load_prompt("consolidation/write_consolidation"), WriteConsolidationOutput, "slow"
)
