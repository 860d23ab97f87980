"""The context memories inside one operation of a refinement, with the checks of every change."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple
from uuid import UUID

from mnemic.memory.refinement.losses import lost_memories, max_removals
from mnemic.memory.text.shape import count_tokens
from mnemic.prompts.refinement import tools as tool_texts
from mnemic.state.errors import RefinementRefusedError
from mnemic.state.refinement import LedgerEntry
from mnemic.storage import refinements
from mnemic.storage.refinements import Original
from mnemic.storage.transaction import ScopedTransaction

if TYPE_CHECKING:
    from mnemic.memory.refinement.session import RefinementSession


class Replaced(NamedTuple):
    """A memory that a text replaces, with its originals at the beginning of the session."""

    entry: LedgerEntry
    originals: Sequence[Original]

    @property
    def max_tokens(self) -> int:
        """Maximum length of its replacement: a text that an earlier step has shortened may grow again."""
        return max(self.entry.tokens, sum(count_tokens(original.content) for original in self.originals))


@dataclass(frozen=True)
class ContextMemoryEditor:
    """The context memories inside one operation."""

    session: "RefinementSession"
    tx: ScopedTransaction
    #: The current entries by id.
    entries: dict[UUID, LedgerEntry]

    def require_editable(self, *numbers: int, may_be_consolidation: bool = False) -> list[LedgerEntry]:
        """Return the memories behind these numbers, as the model saw them.

        Raises:
            RefinementRefusedError: if a number is named twice or unknown, or if its memory is gone, was changed since,
                is protected, or is the consolidation and may not be.
        """
        repeated = [number for number in numbers if numbers.count(number) > 1]
        if repeated:
            raise RefinementRefusedError(tool_texts.named_twice(repeated))
        entries: list[LedgerEntry] = []
        unknown: list[int] = []
        for number in numbers:
            shown = self.session.by_number.get(number)
            if shown is None or shown.id not in self.entries:
                unknown.append(number)
            else:
                entries.append(replace(self.entries[shown.id], handle=number))
        if unknown:
            raise RefinementRefusedError(tool_texts.unknown(unknown))
        protected = [entry.handle for entry in entries if entry.protected]
        if protected:
            raise RefinementRefusedError(tool_texts.is_protected(protected))
        for entry in entries:
            if self.session.by_number[entry.handle].version != entry.version:
                raise RefinementRefusedError(tool_texts.changed_meanwhile(entry.handle))
            if entry.kind == "consolidation" and not may_be_consolidation:
                raise RefinementRefusedError(tool_texts.is_consolidation(entry.handle))
        return entries

    def duplicate_of(self, text: str) -> str | None:
        """Return the name of a memory with this text, or None without one."""
        for entry in self.entries.values():
            if entry.content == text:
                return self._name_of(entry)
        return None

    def duplicate_beside(self, updated: LedgerEntry, text: str) -> str | None:
        """Return the name of another memory with this text, of the updated one's kind and person, or None."""
        for entry in self.entries.values():
            is_same_kind = (entry.kind, entry.subject_user_id) == (updated.kind, updated.subject_user_id)
            if entry.content == text and is_same_kind and entry.id != updated.id:
                return self._name_of(entry)
        return None

    def _name_of(self, entry: LedgerEntry) -> str:
        number = self.session.number_of(entry.id)
        if number is None:  # a conversation stored it since, and it was not shown
            return tool_texts.ANOTHER_MEMORY
        return f"[{number}]"

    async def replaced(self, entries: Sequence[LedgerEntry]) -> list[Replaced]:
        """Return the memories, each with its originals."""
        replaced: list[Replaced] = []
        for entry in entries:
            originals = await refinements.read_originals(self.tx, self.session.claim, entry)
            replaced.append(Replaced(entry, originals))
        return replaced

    async def count_lost(self, replaced: Sequence[Replaced], text: str) -> tuple[list[int], int]:
        """Count the memories that a text loses; return their numbers, and how many more may be lost.

        Each original from before the session counts once. A text is compared with the originals at the beginning of
        the session, so many small steps lose no more than one. The losses of an earlier step do not count again.

        Raises:
            RefinementRefusedError: if the session would lose too many.
        """
        numbers: list[int] = []
        lost_before: list[bool] = []
        originals: list[Original] = []
        for entry, of_entry in replaced:
            numbers += [entry.handle] * len(of_entry)
            lost_before += _lost(of_entry, entry.content)
            originals += of_entry
        lost: list[int] = []
        for number, was_lost, is_lost in zip(numbers, lost_before, _lost(originals, text), strict=True):
            if is_lost and not was_lost:
                lost.append(number)
        progress = await refinements.add_progress(self.tx, self.session.claim, removed=len(lost))
        limit = max_removals(self.session.settings.refinement_removed_percent, progress.memories_before)
        if progress.removed > limit:
            raise RefinementRefusedError(tool_texts.removes_too_many(limit, lost))
        return lost, limit - progress.removed


def _lost(originals: Sequence[Original], text: str) -> list[bool]:
    contents: list[str] = []
    subjects: list[str] = []
    for original in originals:
        contents.append(original.content)
        subjects.append(original.subject)
    return lost_memories(contents, text, about=subjects)
