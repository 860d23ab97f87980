"""The step `refine`: one turn of an agent that compresses its own core memory, with its tools and what they answer."""

from collections.abc import Sequence
from datetime import date
from typing import Annotated, Final, NamedTuple

from pydantic import BaseModel, Field

from mnemic.prompts.attribution import signature_of_others
from mnemic.prompts.conversation import as_data, indented, on_day, single_line
from mnemic.prompts.loader import Step, load_prompt
from mnemic.prompts.tools import DESCRIPTIONS, described
from mnemic.state.identity import Scope, display_name
from mnemic.state.refinement import Budget, LedgerEntry, Turn

#: Of the details that a new text lacks, and of the words that a session has lost.
_MAX_NAMED: Final = 40
#: Of the words that an edit has lost.
_MAX_WORDS: Final = 24
_MAX_CHARS: Final = 80
#: Of a name in a refusal, which stands outside of any fence.
_MAX_NAME_CHARS: Final = 40
#: The tool that ends a session.
COMPLETING: Final = "complete_refinement"
ENDED: Final = "The refinement has ended."
PROTECTED: Final = "[{number}] is protected from now on."
#: Refusals that several tools give, or that are too long to stand in their place.
UNKNOWN: Final = "there is no memory {numbers}: use numbers of the ledger whose memories still exist"
CHANGED: Final = "[{number}] was changed by somebody else meanwhile: read it again with search_memories, then decide"
TWIN: Final = "{twin} already says exactly this: delete the duplicate, or write another text"

#: Its number in the ledger.
_Handle = Annotated[int, Field(ge=1, lt=2**31)]
#: Longer ones are refused before they are read; what a memory may hold is far less.
_Text = Annotated[str, Field(max_length=100_000)]


class _Search(BaseModel):
    query: Annotated[str, Field(max_length=2000)] = ""
    after: date | None = None
    before: date | None = None


class _Merge(BaseModel):
    ids_to_merge: Annotated[list[_Handle], Field(max_length=500)]
    new_content: _Text


class _Update(BaseModel):
    id: _Handle
    content: _Text


class _Memory(BaseModel):
    id: _Handle


class _Summary(BaseModel):
    summary: Annotated[str, Field(max_length=500)]


_ARGUMENTS: Final[dict[str, type[BaseModel]]] = {
    "search_memories": _Search,
    "consolidate_memories": _Merge,
    "update_memory": _Update,
    "delete_memory": _Memory,
    "protect_memory": _Memory,
    COMPLETING: _Summary,
}
#: What each tool is for, and what it takes, by its name.
TOOLS: Final[dict[str, tuple[str, type[BaseModel]]]] = {
    name: (DESCRIPTIONS[name], described(name, arguments)) for name, arguments in _ARGUMENTS.items()
}


class RefineInput(NamedTuple):
    """What the agent sees in one turn of a batch."""

    #: The agent's id, and who it is in its own words; empty where nobody said.
    agent: str
    persona: str
    #: By which something is obsolete.
    today: date
    #: The scope, and the id of whose memory it is.
    scope: Scope
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
            "persona": as_data(self.persona or f"You are the agent {self.agent}."),
            "today": on_day(self.today),
            "scope": self.scope,
            "owner": as_data(
                f"yourself, the agent {self.owner}" if self.scope == "agent" else display_name(self.owner)
            ),
            **{name: f"{amount:,}" for name, amount in self.budget._asdict().items()},
            "batch": f"{self.batch} of {self.batches}",
            "ledger": render_ledger(self.ledger) or "(nothing)",
        }


REFINE = Step[RefineInput, Turn](load_prompt("refine", system_slots=True), Turn, "agent")


def render_ledger(entries: Sequence[LedgerEntry]) -> str:
    """`[3] core, goals, since Mon 2026-03-02, 18 tokens, protected: text`, one after the other.

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
    lines = (" ".join(detail.split()) for detail in details[:_MAX_NAMED])
    named = "\n".join(as_data(line if len(line) <= _MAX_CHARS else f"{line[:_MAX_CHARS]}…") for line in lines)
    more = f" (and {len(details) - _MAX_NAMED} more)" if len(details) > _MAX_NAMED else ""
    return (
        f"It lacks{more}:\n<missing>\n{named}\n</missing>\nPut back what still holds: update_memory with id {handle}."
    )


def render_lost(words: Sequence[str], *, most: int, who: str = "No memory says any more") -> str:
    """Words that are lost, each among those around it, fenced as data on one line; empty where there are none.

    Args:
        words: telling ones, in phrases.
        most: how many are named.
        who: does not say them any more.
    """
    if not words:
        return ""
    named = as_data("; ".join(word[:_MAX_CHARS] for word in words[:most]))
    more = f" (and {len(words) - most} more)" if len(words) > most else ""
    mend = "Put each back in the same word, unless it only tells that something was said; the rarest come first."
    return f"{who}{more}:\n<lost>\n{named}\n</lost>\n{mend}"


def before_the_end(words: Sequence[str], core: Sequence[LedgerEntry], target: int) -> str:
    """The answer to a wish to end while there is room for words that the session has lost."""
    return (
        f"Not ended yet. {render_lost(words, most=_MAX_NAMED)} There is room for it. "
        f"Then call {COMPLETING} again. {usage(core, target)}"
    )


def _entry(entry: LedgerEntry) -> str:
    flags = [name for name in ("protected", "pinned", "private") if getattr(entry, name)]
    marks = [
        entry.kind,
        entry.category,
        f"since {on_day(entry.valid_from)}",
        f"importance {entry.importance}",
        f"{entry.tokens} tokens",
        f"about {' '.join(entry.subject.split())}",
        *(["tags " + " ".join(" ".join(entry.tags).split())] if entry.tags else []),
        *flags,
    ]
    return f"[{entry.handle}] {as_data(', '.join(marks))}: {indented(entry.content)}{signature_of_others(entry, None)}"


def several_people(people: Sequence[Sequence[LedgerEntry]]) -> str:
    """Why memories are not merged that are about different people: names those that do not fit, most of them apart.

    Args:
        people: the memories of each person.
    """
    first, *others = sorted(people, key=len, reverse=True)
    is_clear = len(first) > len(others[0])
    named = [_about(group) for group in (others if is_clear else [first, *others])]
    rest = f", the others about {_name(first)}" if is_clear else ""
    namesakes = (
        " (not the same person, though the name is)" if len({_name(group) for group in people}) < len(people) else ""
    )
    return f"{', '.join(named)}{rest}{namesakes}: merge memories about one person only"


def _about(group: Sequence[LedgerEntry]) -> str:
    return f"{bracketed([entry.handle for entry in group])} {'is' if len(group) == 1 else 'are'} about {_name(group)}"


def _name(group: Sequence[LedgerEntry]) -> str:
    return single_line(group[0].subject[:_MAX_NAME_CHARS])


def usage(core: Sequence[LedgerEntry], target: int) -> str:
    """How much there is: what every answer to an edit ends with."""
    tokens = sum(entry.tokens for entry in core)
    return f"Now {tokens:,} tokens in {len(core)} memories; target {target:,}."


def deleted(number: int, left: int, words: Sequence[str]) -> str:
    """The answer to a deletion.

    Args:
        number: of the memory.
        left: how many more may be removed.
        words: telling ones that no memory says any more.
    """
    return f"[{number}] is deleted. You may remove {left} more. {render_lost(words, most=_MAX_WORDS)}".rstrip()


def changed(
    replaced: Sequence[LedgerEntry],
    new: LedgerEntry,
    lost: Sequence[int],
    missing: Sequence[str],
    words: Sequence[str],
) -> str:
    """The answer to a merge, or to the rewriting of a single memory.

    Args:
        replaced: the memories that the new one replaces.
        new: as it is shown from now on.
        lost: numbers of those of which it keeps hardly anything.
        missing: details that it lacks.
        words: further telling ones that it lacks.
    """
    numbers = bracketed([entry.handle for entry in replaced])
    became = f"{numbers} became [{new.handle}]" if len(replaced) > 1 else f"[{new.handle}] is changed"
    sizes = f"{sum(entry.tokens for entry in replaced)} tokens, now {new.tokens}."
    losing = f" It keeps hardly anything of {bracketed(lost)}: that counts as removed." if lost else ""
    details = render_missing(missing, new.handle)
    lacking = render_lost(words, most=_MAX_WORDS, who="It does not say any more")
    return f"{became}: {sizes}{losing} {details} {lacking}".rstrip()


def bracketed(numbers: Sequence[int]) -> str:
    """`[3], [7]`, each once."""
    return ", ".join(f"[{number}]" for number in dict.fromkeys(numbers))
