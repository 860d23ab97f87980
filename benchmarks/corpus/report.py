"""Compares what was formed with what was expected."""

from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.corpus.forming import Formed
from benchmarks.corpus.matching import Expected, Trap, expectations, is_about, matches, says
from mnemic.state.records import Memory


@dataclass(frozen=True, kw_only=True)
class Row:
    """Figures of one kind of fact."""

    kind: str
    expected: int
    found: int
    #: Of those found, how many only in another scope than expected.
    elsewhere: int

    @property
    def missed(self) -> int:
        """Expected and not found."""
        return self.expected - self.found

    @property
    def found_share(self) -> float:
        """0..1."""
        return self.found / self.expected if self.expected else 0.0


@dataclass(frozen=True, kw_only=True)
class Report:
    """The comparison."""

    rows: tuple[Row, ...]
    formed: Formed
    #: For each expected fact the memories that say it.
    found: dict[str, tuple[Memory, ...]]
    facts: tuple[Expected, ...]
    #: Memories on no list, and those that fell into a trap.
    unlisted: tuple[Memory, ...]
    trapped: tuple[tuple[Trap, Memory], ...]

    @property
    def wrong_share(self) -> float:
        """Share of formed memories that are on no list or in a trap (0..1)."""
        wrong = {memory.id for memory in self.unlisted} | {memory.id for _, memory in self.trapped}
        return len(wrong) / len(self.formed.memories) if self.formed.memories else 0.0

    @property
    def first_pass_share(self) -> float:
        """Share of new texts that passed the validator at once (0..1)."""
        total = sum(self.formed.checks.values())
        return self.formed.checks.get("first_pass", 0) / total if total else 0.0

    def changes(self) -> list[tuple[Expected, Expected, bool]]:
        """Return changed facts with their old and new memory, and whether only the new one is current."""
        by_id = {fact.id: fact for fact in self.facts}
        pairs = [(old, by_id[old.replaced_by]) for old in self.facts if old.replaced_by]
        return [
            (old, new, self._is_closed(old, new)) for old, new in pairs if self.found[old.id] and self.found[new.id]
        ]

    def _is_closed(self, old: Expected, new: Expected) -> bool:
        """Return whether the old one is closed and the new one is current, or was replaced by a still newer one."""
        newer = {memory.id for memory in self.found[new.id]}
        olds = [memory for memory in self.found[old.id] if memory.id not in newer]
        has_new = any(memory.state == "active" for memory in self.found[new.id]) or not new.current
        return bool(olds) and has_new and all(memory.state != "active" for memory in olds)

    def summary(self) -> list[str]:
        """Return the figures in words."""
        changes = self.changes()
        return [
            f"{len(self.formed.memories)} facts and reflections were formed; "
            f"{len(self.unlisted)} are on no list, {len(self.trapped)} fell into a trap: {self.wrong_share:.1%} wrong",
            f"{self.first_pass_share:.1%} of new texts passed the validator at first {self.formed.checks}",
            f"{sum(closed for *_, closed in changes)} of {len(changes)} changed facts found in both forms "
            "leave exactly one current",
        ]

    def wrong_lines(self) -> list[str]:
        """Each wrong memory."""
        trapped = [f"{trap.id} ({trap.why}): {memory.content}" for trap, memory in self.trapped]
        return trapped + [f"unlisted [{memory.source_session_id}] {memory.content}" for memory in self.unlisted]

    def change_lines(self) -> list[str]:
        """Each changed fact that was found before and after."""
        return [
            f"{'ok ' if closed else 'BOTH CURRENT'} {old.id} {old.statement}  ->  {new.id} {new.statement}"
            for old, new, closed in self.changes()
        ]

    def missed_lines(self) -> list[str]:
        """Each expected fact that nothing says."""
        return [f"{fact.id} [{fact.session}] {fact.statement}" for fact in self.facts if not self.found[fact.id]]

    def found_lines(self) -> list[str]:
        """Each expected fact with the memories that say it."""
        return [
            f"{fact.id} {fact.statement}  <-  " + " | ".join(f"({m.state}) {m.content}" for m in self.found[fact.id])
            for fact in self.facts
            if self.found[fact.id]
        ]


def make_report(formed: Formed) -> Report:
    """Compare all lists with all memories."""
    facts, traps = expectations()
    found = {fact.id: tuple(memory for memory in formed.memories if is_about(fact, memory)) for fact in facts}
    listed = {memory.id for memory in formed.memories if any(says(fact, memory) for fact in facts)}
    by_kind = [
        _row(kind, [fact for fact in facts if fact.kind == kind], found)
        for kind in sorted({fact.kind for fact in facts})
    ]
    return Report(
        rows=(*by_kind, _row("all", facts, found)),
        formed=formed,
        found=found,
        facts=tuple(facts),
        unlisted=tuple(memory for memory in formed.memories if memory.id not in listed),
        trapped=tuple(
            (trap, memory)
            for trap in traps
            for memory in formed.memories
            if memory.source_session_id == trap.session and matches(trap.never, memory.content)
        ),
    )


def _row(kind: str, facts: Sequence[Expected], found: dict[str, tuple[Memory, ...]]) -> Row:
    hit = [fact for fact in facts if found[fact.id]]
    elsewhere = [fact for fact in hit if all(memory.scope_key != fact.scope_key for memory in found[fact.id])]
    return Row(kind=kind, expected=len(facts), found=len(hit), elsewhere=len(elsewhere))
