"""The tools of a refinement as a model reads them: descriptions, arguments, answers and refusals."""

from collections.abc import Mapping, Sequence
from datetime import date
from types import MappingProxyType
from typing import Annotated, Final

from pydantic import BaseModel, Field

from mnemic.prompts.conversation import as_data, single_line
from mnemic.prompts.refinement.refine import render_ledger
from mnemic.prompts.tool_calls import ToolPrompt, described
from mnemic.state.refinement import LedgerEntry, total_tokens

#: Name of the tool that ends a session.
COMPLETE: Final = "complete_refinement"

#: Number of a memory in the ledger.
_Number = Annotated[int, Field(ge=1, lt=2**31)]
#: A longer text is refused before it is read. A memory holds far less.
_Text = Annotated[str, Field(max_length=100_000)]
_IN_LEDGER: Final = "Its number in the ledger."


class _Search(BaseModel):
    query: Annotated[str, Field(max_length=2000)] = ""
    after: date | None = None
    before: date | None = None


class _Merge(BaseModel):
    ids_to_merge: Annotated[list[_Number], Field(max_length=500)]
    new_content: _Text


class _Update(BaseModel):
    id: _Number
    content: _Text


class _Memory(BaseModel):
    id: _Number


class _Summary(BaseModel):
    summary: Annotated[str, Field(max_length=500)]


#: Every tool of a refinement by its name. `memory/refinement/edits.py` has an operation for each.
TOOLS: Final[Mapping[str, ToolPrompt]] = MappingProxyType(
    {
        "search_memories": ToolPrompt(
            "Find memories by words, and by the day since which they hold. Shows each with its number.",
            described(
                _Search,
                {
                    "query": "Words to look for; empty for all memories.",
                    "after": "Only memories since this day or later, as 2026-03-02.",
                    "before": "Only memories since before this day.",
                },
            ),
        ),
        "consolidate_memories": ToolPrompt(
            "Replace two or more memories about one person by one text, no longer than they were together. It keeps "
            "their earliest date alone. The answer names the details and the telling words of theirs that the text "
            "lacks.",
            described(
                _Merge,
                {
                    "ids_to_merge": "The numbers of the memories in the ledger.",
                    "new_content": "The one text that replaces them.",
                },
            ),
        ),
        "update_memory": ToolPrompt(
            "Rewrite one memory, at most as long as what it says was when the refinement began. The answer names the "
            "details and the telling words that the text lacks.",
            described(_Update, {"id": _IN_LEDGER, "content": "The new text."}),
        ),
        "delete_memory": ToolPrompt(
            "Delete one obsolete memory. Only few may be deleted; merge what is merely long. The answer names words "
            "that no memory says any more.",
            described(_Memory, {"id": _IN_LEDGER}),
        ),
        "protect_memory": ToolPrompt(
            "Protect a memory for good, as it is worded: only an administrator can change, merge or delete it "
            "afterwards. For what would do harm if it were lost.",
            described(_Memory, {"id": _IN_LEDGER}),
        ),
        COMPLETE: ToolPrompt(
            "End the refinement. If there is room below the target, the first answer names what got lost instead: put "
            "it back, then call again.",
            described(_Summary, {"summary": "One or two sentences on what you did."}),
        ),
    }
)


#: Maximum number of missing details, and of the lost words of a whole session, in one answer.
_MAX_DETAILS: Final = 40
#: Maximum number of an edit's lost words in one answer.
_MAX_WORDS: Final = 24
_MAX_CHARS: Final = 80
ENDED: Final = "The refinement has ended."
_PROTECTED: Final = "[{number}] is protected from now on."
_MEND: Final = "Put each back in the same word, unless it only tells that something was said; the rarest come first."


def searched(entries: Sequence[LedgerEntry]) -> str:
    """Return the answer to a search: the memories as in the ledger, fenced."""
    if not entries:
        return "Nothing was found."
    return f"<found>\n{render_ledger(entries)}\n</found>"


def changed(
    replaced: Sequence[LedgerEntry],
    new: LedgerEntry,
    lost: Sequence[int],
    details: Sequence[str],
    words: Sequence[str],
) -> str:
    """Return the answer to a merge, or to an update of one memory.

    Args:
        replaced: the memories that the new one replaces.
        new: the new memory.
        lost: numbers of the replaced memories of which it keeps hardly anything.
        details: names, numbers, dates and quotations that it lacks.
        words: further distinctive words that it lacks.
    """
    outcome = f"[{new.handle}] is changed"
    if len(replaced) > 1:
        outcome = f"{bracketed_entries(replaced)} became [{new.handle}]"
    sizes = f"{total_tokens(replaced)} tokens, now {new.tokens}."
    losing = f" It keeps hardly anything of {bracketed(lost)}: that counts as removed." if lost else ""
    missing = render_missing(details, new.handle)
    lacking = render_lost(words, limit=_MAX_WORDS, lead="It does not say any more")
    return f"{outcome}: {sizes}{losing} {missing} {lacking}".rstrip()


def deleted(number: int, removable: int, words: Sequence[str]) -> str:
    """Return the answer to a deletion.

    Args:
        number: of the memory.
        removable: number of memories that the session may still remove.
        words: distinctive words that no memory has any more.
    """
    return f"[{number}] is deleted. You may remove {removable} more. {render_lost(words, limit=_MAX_WORDS)}".rstrip()


def protected(number: int) -> str:
    """Return the answer to a protection."""
    return _PROTECTED.format(number=number)


def not_ended_yet(words: Sequence[str], core: Sequence[LedgerEntry], target: int) -> str:
    """Return the answer to the first attempt to end, if there is room for words that the session has lost."""
    return (
        f"Not ended yet. {render_lost(words, limit=_MAX_DETAILS)} There is room for it. "
        f"Then call {COMPLETE} again. {usage(core, target)}"
    )


def usage(core: Sequence[LedgerEntry], target: int) -> str:
    """Return the size of the context memories, the end of every answer to an edit."""
    return f"Now {total_tokens(core):,} tokens in {len(core)} memories; target {target:,}."


def render_missing(details: Sequence[str], number: int) -> str:
    """Return the details that a new text lacks, each on a line, for a quotation may be whole sentences.

    Args:
        details: the missing details.
        number: of the memory with the new text.
    """
    if not details:
        return "It keeps every name, number, date and quotation."
    lines = []
    for detail in details[:_MAX_DETAILS]:
        line = " ".join(detail.split())
        if len(line) > _MAX_CHARS:
            line = f"{line[:_MAX_CHARS]}…"
        lines.append(as_data(line))
    named = "\n".join(lines)
    more = f" (and {len(details) - _MAX_DETAILS} more)" if len(details) > _MAX_DETAILS else ""
    return (
        f"It lacks{more}:\n<missing>\n{named}\n</missing>\nPut back what still holds: update_memory with id {number}."
    )


def render_lost(words: Sequence[str], *, limit: int, lead: str = "No memory says any more") -> str:
    """Return lost words on one line, each with the words around it; empty without such words.

    Args:
        words: distinctive words, in phrases.
        limit: maximum number of words to name.
        lead: beginning of the answer.
    """
    if not words:
        return ""
    named = as_data("; ".join([word[:_MAX_CHARS] for word in words[:limit]]))
    more = f" (and {len(words) - limit} more)" if len(words) > limit else ""
    return f"{lead}{more}:\n<lost>\n{named}\n</lost>\n{_MEND}"


def bracketed(numbers: Sequence[int]) -> str:
    """Return `[3], [7]`, each number once."""
    return ", ".join([f"[{number}]" for number in dict.fromkeys(numbers)])


def bracketed_entries(entries: Sequence[LedgerEntry]) -> str:
    """Return the numbers of these memories as `bracketed` does."""
    return bracketed([entry.handle for entry in entries])


#: Maximum characters of a name, which no fence encloses here.
_MAX_NAME_CHARS: Final = 40
ANOTHER_MEMORY: Final = "another memory"
ONE_MEMORY: Final = "a merge takes at least two memories: use update_memory for a single one"
NO_TEXT: Final = "the text is empty or repeats itself: write what the memories say, once"
CHANGED_LINES: Final = (
    "others read these memories in the words of their authors: keep whole lines as they are, or delete a memory"
)
SEVERAL_AUTHORS: Final = (
    "others read each of these memories under the name of its author: merge memories of one author only"
)


def unknown(numbers: Sequence[int]) -> str:
    """Return the refusal of numbers that were not shown, or of memories that are gone."""
    return f"there is no memory {bracketed(numbers)}: use numbers of the ledger whose memories still exist"


def named_twice(numbers: Sequence[int]) -> str:
    """Return the refusal of numbers that a call names more than once."""
    return f"{bracketed(numbers)} is named more than once: name each memory once"


def is_protected(numbers: Sequence[int]) -> str:
    """Return the refusal to change protected memories."""
    return f"{bracketed(numbers)} is protected: leave it as it is, and out of the call"


def changed_meanwhile(number: int) -> str:
    """Return the refusal of a memory that another run changed since it was shown."""
    return f"[{number}] was changed by somebody else meanwhile: read it again with search_memories, then decide"


def is_consolidation(number: int) -> str:
    """Return the refusal to merge, delete or protect the consolidation."""
    return f"[{number}] is the consolidation: only update_memory can change it"


def duplicate(name: str) -> str:
    """Return the refusal of a text that another memory has.

    Args:
        name: number of that memory, or `ANOTHER_MEMORY`.
    """
    return f"{name} already says exactly this: delete the duplicate, or write another text"


def unchanged(number: int) -> str:
    """Return the refusal of an update with the text that the memory has."""
    return f"[{number}] already says exactly this"


def too_large(max_bytes: int) -> str:
    """Return the refusal of a text that no memory can hold."""
    return f"a memory holds at most {max_bytes} bytes: merge fewer memories at once"


def too_long(tokens: int, max_tokens: int) -> str:
    """Return the refusal of a text that is longer than the memories that it replaces."""
    return f"the text has {tokens} tokens, what it replaces has {max_tokens}: use fewer words"


def removes_too_many(limit: int, numbers: Sequence[int]) -> str:
    """Return the refusal of an edit that removes more memories than a session may."""
    return f"a session may remove {limit} memories and no more: keep what {bracketed(numbers)} says, in fewer words"


def protects_too_much(number: int, protected: int, limit: int) -> str:
    """Return the refusal of a protection, with the protected tokens now and at most."""
    return f"[{number}] does not fit: {protected} tokens are protected, and at most {limit} may be"


def several_people(people: Sequence[Sequence[LedgerEntry]]) -> str:
    """Return the refusal to merge memories about different people.

    It names the person with most of the memories last, or all people if there is no such person.

    Args:
        people: the memories of each person.
    """
    largest, *others = sorted(people, key=len, reverse=True)
    is_clear = len(largest) > len(others[0])
    named = others if is_clear else [largest, *others]
    subjects = ", ".join([_about(group) for group in named])
    rest = f", the others about {_name(largest)}" if is_clear else ""
    names = {_name(group) for group in people}
    namesakes = " (not the same person, though the name is)" if len(names) < len(people) else ""
    return f"{subjects}{rest}{namesakes}: merge memories about one person only"


def _about(group: Sequence[LedgerEntry]) -> str:
    verb = "is" if len(group) == 1 else "are"
    return f"{bracketed_entries(group)} {verb} about {_name(group)}"


def _name(group: Sequence[LedgerEntry]) -> str:
    return single_line(group[0].subject[:_MAX_NAME_CHARS])
