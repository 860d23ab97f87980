"""The step `refine`: one turn of an agent that compresses its own context memories by calling tools."""

from collections.abc import Sequence
from datetime import date
from typing import NamedTuple

from mnemic.prompts.conversation import as_data, indented, on_day, signature_of_others
from mnemic.prompts.loader import Step, load_prompt
from mnemic.state.identity import Scope, display_name
from mnemic.state.refinement import Budget, LedgerEntry, Turn

_FLAGS = ("protected", "pinned", "private")


class RefineInput(NamedTuple):
    """One turn of a batch as the agent sees it."""

    #: Id of the agent.
    agent: str
    #: The agent's description of itself; empty without one.
    persona: str
    today: date
    scope: Scope
    #: Id of the scope's owner.
    owner: str
    #: Budget at the beginning of the batch. The answers in the turns report its changes.
    budget: Budget
    #: Number of the batch, from 1, and number of all batches.
    batch: int
    batches: int
    ledger: tuple[LedgerEntry, ...]
    #: Calls of this batch so far, with their answers.
    turns: tuple[Turn, ...] = ()

    def variables(self) -> dict[str, str]:
        """Return the values of the prompt's slots, escaped."""
        values = {
            "persona": as_data(self.persona or f"You are the agent {self.agent}."),
            "today": on_day(self.today),
            "scope": self.scope,
            "owner": as_data(self._owner_name()),
            "batch": f"{self.batch} of {self.batches}",
            "ledger": render_ledger(self.ledger) or "(nothing)",
        }
        for name, amount in self.budget._asdict().items():
            values[name] = f"{amount:,}"
        return values

    def _owner_name(self) -> str:
        if self.scope == "agent":
            return f"yourself, the agent {self.owner}"
        return display_name(self.owner)


REFINE = Step[RefineInput, Turn](load_prompt("refinement/refine", system_slots=True), Turn, "agent")


def render_ledger(entries: Sequence[LedgerEntry]) -> str:
    """Return a line for each memory: `[3] core, goals, since Mon 2026-03-02, 18 tokens, protected: text`.

    Further lines of a text are indented, so that no memory can pass for another one.
    """
    return "\n".join([_render_entry(entry) for entry in entries])


def _render_entry(entry: LedgerEntry) -> str:
    marks = [
        entry.kind,
        entry.category,
        f"since {on_day(entry.valid_from)}",
        f"importance {entry.importance}",
        f"{entry.tokens} tokens",
        f"about {' '.join(entry.subject.split())}",
    ]
    if entry.tags:
        marks.append("tags " + " ".join(" ".join(entry.tags).split()))
    marks += [flag for flag in _FLAGS if getattr(entry, flag)]
    return f"[{entry.handle}] {as_data(', '.join(marks))}: {indented(entry.content)}{signature_of_others(entry, None)}"
