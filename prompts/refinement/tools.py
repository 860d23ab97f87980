"""The tools of a refinement as a model reads them: a description and the arguments of each."""

from collections.abc import Mapping
from datetime import date
from types import MappingProxyType
from typing import Annotated, Final

from pydantic import BaseModel, Field

from mnemic.prompts.tool_calls import ToolPrompt, described

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
