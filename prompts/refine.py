"""The step `refine`: one turn of an agent that compresses its own core memory, and what its tools show it."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from mnemic.prompts.conversation import as_data
from mnemic.prompts.loader import Step, load_prompt
from mnemic.state.refinement import Budget, LedgerEntry, Turn

#: Of the details that a new text lacks.
_MOST_NAMED: Final = 40
_MOST_CHARS: Final = 80


class RefineInput(NamedTuple):
    """What the agent sees in one turn of a batch."""

    #: Who the agent is, in its own words; empty where nobody said.
    persona: str
    #: The scope, and the display name of whose memory it is.
    scope: str
    owner: str
    #: As it was when the batch began; what the turns changed is told by their answers.
    budget: Budget
    #: The number of this batch, from 1, of so many.
    batch: int
    batches: int
    ledger: tuple[LedgerEntry, ...]
    #: What was called in this batch so far, with the answers.
    turns: tuple[Turn, ...] = ()

    def variables(self) -> dict[str, str]:
        """The values of the prompt's slots, escaped."""
        return {
            "persona": as_data(self.persona or "(not described)"),
            "scope": self.scope,
            "owner": as_data(self.owner),
            **{name: f"{amount:,}" for name, amount in self.budget._asdict().items()},
            "batch": f"{self.batch} of {self.batches}",
            "ledger": render_ledger(self.ledger) or "(nothing)",
        }


REFINE = Step[RefineInput, Turn](load_prompt("refine", system_slots=True), Turn, "agent")


def render_ledger(entries: Sequence[LedgerEntry]) -> str:
    """`[3] core, goals, since 2026-03-02, stored 2026-03-04, 18 tokens, protected: text`, one after the other.

    Further lines of a text are set in, so that no memory can pass for another one.
    """
    return "\n".join(map(_entry, entries))


def render_found(entries: Sequence[LedgerEntry]) -> str:
    """What a search found, as the ledger shows it, fenced as data."""
    return f"<found>\n{render_ledger(entries)}\n</found>" if entries else "Nothing was found."


def render_missing(details: Sequence[str], handle: int) -> str:
    """The details that a new text lacks, fenced as data: each on one line, for a quotation may be whole sentences."""
    if not details:
        return "It keeps every name, number, date and quotation."
    lines = (" ".join(detail.split()) for detail in details[:_MOST_NAMED])
    named = "\n".join(as_data(line if len(line) <= _MOST_CHARS else f"{line[:_MOST_CHARS]}…") for line in lines)
    more = f" (and {len(details) - _MOST_NAMED} more)" if len(details) > _MOST_NAMED else ""
    return (
        f"It lacks{more}:\n<missing>\n{named}\n</missing>\nPut back what still holds: update_memory with id {handle}."
    )


def _entry(entry: LedgerEntry) -> str:
    flags = [name for name in ("protected", "pinned", "private") if getattr(entry, name)]
    marks = [
        entry.kind,
        entry.category,
        f"since {entry.valid_from:%Y-%m-%d}",
        f"stored {entry.created_at:%Y-%m-%d}",
        f"importance {entry.importance}",
        f"{entry.tokens} tokens",
        f"about {' '.join(entry.subject.split())}",
        *(["tags " + " ".join(" ".join(entry.tags).split())] if entry.tags else []),
        *flags,
    ]
    text = "\n    | ".join(as_data(entry.content).splitlines())
    return f"[{entry.handle}] {as_data(', '.join(marks))}: {text}"
