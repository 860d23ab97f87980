"""Requirements of a refinement's texts. Each refusal names a remedy."""

from collections import defaultdict
from collections.abc import Sequence

from mnemic.memory.refinement.editor import Replaced
from mnemic.memory.text.shape import MAX_TEXT_BYTES, clean_text, count_tokens, is_blank
from mnemic.memory.text.writing import is_degenerate
from mnemic.prompts.refinement import tools as tool_texts
from mnemic.state.errors import RefinementRefusedError
from mnemic.state.identity import is_shared, split_scope_key
from mnemic.state.refinement import LedgerEntry


def require_text(content: str) -> str:
    """Return the text as it would be stored.

    Raises:
        RefinementRefusedError: if it is too long for a memory, empty or repetitive.
    """
    text = clean_text(content)
    if len(text.encode()) > MAX_TEXT_BYTES:
        raise RefinementRefusedError(tool_texts.too_large(MAX_TEXT_BYTES))
    if is_blank(text) or is_degenerate(text):
        raise RefinementRefusedError(tool_texts.NO_TEXT)
    return text


def require_one_person(merged: Sequence[LedgerEntry]) -> None:
    """Refuse memories about different people. People without an account are distinguished by name alone.

    Raises:
        RefinementRefusedError: if there are several people.
    """
    people: dict[tuple[str | None, str], list[LedgerEntry]] = defaultdict(list)
    for entry in merged:
        people[entry.subject_user_id, entry.subject_user_id or entry.subject.casefold()].append(entry)
    if len(people) > 1:
        raise RefinementRefusedError(tool_texts.several_people([*people.values()]))


def require_typed_lines(key: str, text: str, replaced: Sequence[LedgerEntry]) -> None:
    """Refuse a text that changes the lines, or joins the authors, of memories that others read as they were typed.

    Args:
        key: the scope key of the memories.
        text: the new text.
        replaced: the memories that it replaces.

    Raises:
        RefinementRefusedError: if a line is new, or if the memories have several authors.
    """
    if not _are_typed(key, replaced):
        return
    lines: set[str] = set()
    authors: set[str | None] = set()
    for entry in replaced:
        lines.update(entry.content.splitlines())
        if entry.said is not None:
            authors.add(entry.author)
    if not lines.issuperset(text.splitlines()):
        raise RefinementRefusedError(tool_texts.CHANGED_LINES)
    if len(authors) > 1:
        raise RefinementRefusedError(tool_texts.SEVERAL_AUTHORS)


def _are_typed(key: str, entries: Sequence[LedgerEntry]) -> bool:
    """Return whether other people read these memories as they were typed; all of a group's memories are."""
    if not is_shared(key):
        return False
    if split_scope_key(key)[0] == "group":
        return True
    return any(entry.said is not None or entry.kind == "consolidation" for entry in entries)


def require_no_longer(text: str, replaced: Sequence[Replaced]) -> None:
    """Refuse a text that is longer than the memories that it replaces.

    Raises:
        RefinementRefusedError: if it is longer.
    """
    tokens, limit = count_tokens(text), sum(memory.max_tokens for memory in replaced)
    if tokens > limit:
        raise RefinementRefusedError(tool_texts.too_long(tokens, limit))
