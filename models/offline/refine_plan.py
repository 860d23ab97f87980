"""What a batch comes to: which memories are put together, in which words, until the target is reached."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from mnemic.models.offline.compression import AS_IT_IS, SHORTENED, TELEGRAPHIC, UNHEDGED
from mnemic.models.offline.refine_losing import Losing
from mnemic.models.offline.refine_merging import merged
from mnemic.models.offline.refine_statements import Statement, current, dated, worded
from mnemic.policy.refinement.batching import batches
from mnemic.policy.refinement.limits import lost_memories
from mnemic.policy.text.degenerate import is_degenerate
from mnemic.policy.text.retention import missing_details
from mnemic.policy.text.tokens import count_tokens
from mnemic.state.refinement import LedgerEntry

#: Tokens of memories that are put together. Of conversations' facts brought from 8,000 to 5,000 tokens 94 % of the
#: words that answer questions are still said; with 120 it is 91 %, for names and verbs stand more often.
_TOGETHER = 250
#: A whole statement may go only where this share of its words is said of the same person elsewhere; of a memory that is
#: twice as long as it shall be, more has to go than is said twice.
_COVERED = (0.6, 0.4)


class Rewrite(NamedTuple):
    """Memories and the text that takes their place."""

    handles: tuple[int, ...]
    text: str
    saved: int


@dataclass
class _Group:
    """Memories that may go together, and how they are put at present."""

    entries: tuple[LedgerEntry, ...]
    #: What is left of them, in full words.
    statements: list[Statement]
    #: What must be kept.
    sources: list[str]
    text: str = ""

    @property
    def tokens(self) -> int:
        """As they stand in the ledger."""
        return sum(entry.tokens for entry in self.entries)

    @property
    def saved(self) -> int:
        """Tokens saved so far."""
        return self.tokens - count_tokens(self.text) if self.text else 0

    def is_kept_in(self, text: str) -> bool:
        """Whether a text holds every detail to be kept, and of each memory so much that none counts as taken away."""
        about = [entry.subject for entry in self.entries]
        every = [entry.content for entry in self.entries]
        return not missing_details(self.sources, text) and not any(lost_memories(every, text, about=about))

    def take(self, text: str) -> None:
        """Takes a text that keeps them where it is shorter than what stands, and does not repeat itself."""
        shorter = self.tokens - count_tokens(text) > self.saved
        if text and shorter and self.is_kept_in(text) and not is_degenerate(text):
            self.text = text


def rewrites(entries: Sequence[LedgerEntry], needed: int) -> list[Rewrite]:
    """Disjoint rewrites that save so many tokens, or as many as there are, by what costs least meaning first.

    First memories that others repeat go; then memories on one subject are put together, in tighter and tighter words;
    last remarks and statements are left out that say least.
    """
    duplicates = [found for group in _groups(entries) for found in _repeated(group)]
    if sum(found.saved for found in duplicates) >= needed:
        return _until(duplicates, needed)
    groups = [_group(group) for group in _groups(entries)]
    for level in (AS_IT_IS, SHORTENED, TELEGRAPHIC, UNHEDGED):
        if _reworded(groups, level, needed):
            return _done(groups)
    _left_out(groups, needed)
    return _done(groups)


def _groups(entries: Sequence[LedgerEntry]) -> list[tuple[LedgerEntry, ...]]:
    """Similar memories on the same person, of one category, seen by the same."""
    found: dict[tuple[object, ...], list[LedgerEntry]] = defaultdict(list)
    for entry in entries:
        key = (entry.subject_user_id, entry.subject.casefold(), entry.category, entry.private, entry.pinned)
        found[key].append(entry)
    return [group for together in found.values() for group in batches(together, tokens=_TOGETHER)]


def _repeated(group: tuple[LedgerEntry, ...]) -> list[Rewrite]:
    """Memories that others of the group repeat word by word or in more detail, each put together with that one."""
    left = list(group)
    found: list[Rewrite] = []
    for entry in group:
        for other in left:
            if entry is other or entry not in left:
                continue
            both = current((entry, other))
            kept = {id(statement.entry) for statement in both.statements}
            if not both.outdated and kept == {id(other)} and not missing_details([entry.content], other.content):
                found.append(Rewrite((entry.handle, other.handle), other.content, entry.tokens))
                left = [one for one in left if one is not entry and one is not other]
    return found


def _until(found: Sequence[Rewrite], needed: int) -> list[Rewrite]:
    """The first that save enough."""
    saved = 0
    kept: list[Rewrite] = []
    for one in found:
        if saved >= needed:
            break
        kept.append(one)
        saved += one.saved
    return kept


def _group(entries: tuple[LedgerEntry, ...]) -> _Group:
    held = current(entries)
    sources = [entry.content for entry in entries]
    if held.outdated:  # what no longer holds need not be kept
        sources = [statement.source for statement in held.statements]
    alone = len(entries) == 1
    return _Group(entries, held.statements if alone else [dated(one) for one in held.statements], sources)


def _reworded(groups: Sequence[_Group], level: int, needed: int) -> bool:
    """Puts one group after the other into the words of a level; whether that saves enough."""
    for group in groups:
        if sum(one.saved for one in groups) >= needed:
            return True
        if len(group.entries) > 1 or level > AS_IT_IS:
            statements = [worded(statement, level) for statement in group.statements]
            group.take(merged(statements, shared=level >= TELEGRAPHIC))
    return sum(one.saved for one in groups) >= needed


def _left_out(groups: Sequence[_Group], needed: int) -> None:
    """Leaves out remarks and statements, the cheapest first, until enough is saved."""
    left = [[worded(statement, UNHEDGED) for statement in group.statements] for group in groups]
    saved = [group.saved for group in groups]
    texts: dict[int, str] = {}
    missing = needed - sum(saved)
    for covered in _COVERED:
        losing = Losing(left, covered, lambda number, text: groups[number].is_kept_in(text))
        while missing > 0 and (number := losing.next()) is not None:
            texts[number] = losing.text(number)
            before, saved[number] = (
                saved[number],
                max(saved[number], groups[number].tokens - count_tokens(texts[number])),
            )
            missing -= saved[number] - before
        left = [losing.group(number) for number in range(len(groups))]
    for number, text in texts.items():
        groups[number].take(text)


def _done(groups: Sequence[_Group]) -> list[Rewrite]:
    return [
        Rewrite(tuple(entry.handle for entry in group.entries), group.text, group.saved)
        for group in groups
        if group.text
    ]
