"""Leaving out what costs least meaning, where wording alone does not reach the target."""

import heapq
import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import NamedTuple

from mnemic.models.offline.compression import is_binding, is_english
from mnemic.models.offline.frames import analysed
from mnemic.models.offline.refine_cuts import remarks
from mnemic.models.offline.refine_merging import merged
from mnemic.models.offline.refine_statements import Statement
from mnemic.models.offline.text import content_stems
from mnemic.policy.text.retention import missing_details

#: Importance of an ordinary memory.
_ORDINARY = 3


class _Cut(NamedTuple):
    """One thing that may be left out, by its place."""

    cost: float
    group: int
    place: int
    #: What remains; empty for nothing.
    rest: str


class Losing:
    """Groups of statements, from which it takes what is said best elsewhere.

    Args:
        groups: the statements that stand together.
        covered: the share of a whole statement's words that has to be said of the same person elsewhere if it goes.
        is_kept_in: whether a text holds enough of what a group was, by the group's number.
    """

    def __init__(
        self, groups: Sequence[Sequence[Statement]], covered: float, is_kept_in: Callable[[int, str], bool]
    ) -> None:
        self._covered = covered
        self._is_kept_in = is_kept_in
        self.groups: list[list[Statement | None]] = [list(group) for group in groups]
        every = [statement for group in groups for statement in group]
        self._said = Counter(stem for statement in every for stem in _stems(statement.body))
        self._said_of = Counter((_person(statement), stem) for statement in every for stem in _stems(statement.body))
        self._many = len(every)
        self._waiting = [
            self._cut(group, place, rest)
            for group, statements in enumerate(groups)
            for place, statement in enumerate(statements)
            for rest in (*remarks(statement.body), *([""] if _may_go(statement) else []))
        ]
        heapq.heapify(self._waiting)

    def group(self, number: int) -> list[Statement]:
        """What is left of a group."""
        return [statement for statement in self.groups[number] if statement is not None]

    def text(self, number: int) -> str:
        """A group in one text."""
        return merged(self.group(number), shared=True)

    def next(self) -> int | None:
        """Leaves out the cheapest thing; the group it stood in, or None when nothing is left to leave out."""
        while self._waiting:
            cut = heapq.heappop(self._waiting)
            statement = self.groups[cut.group][cut.place]
            if statement is None or len(cut.rest) >= len(statement.body):
                continue
            now = self._cut(cut.group, cut.place, cut.rest)
            if now.cost > cut.cost:  # what said the same has gone meanwhile
                heapq.heappush(self._waiting, now)
            elif self._apply(cut, statement):
                return cut.group
        return None

    def _cut(self, group: int, place: int, rest: str) -> _Cut:
        """The meaning a cut costs, for each character it saves."""
        statement = self.groups[group][place]
        assert statement is not None  # only what is left is weighed
        lost = sum(map(self._worth, _stems(statement.body) - _stems(rest)))
        lost *= statement.entry.importance / _ORDINARY
        return _Cut(lost / (len(statement.body) - len(rest)), group, place, rest)

    def _worth(self, stem: str) -> float:
        """A rare word tells more; one that is said elsewhere is hardly lost."""
        times = self._said[stem]
        return math.log(1 + self._many / times) / times**2

    def _is_covered(self, statement: Statement) -> bool:
        stems = _stems(statement.body)
        elsewhere = sum(self._said_of[_person(statement), stem] > 1 for stem in stems)
        return elsewhere >= self._covered * len(stems)

    def _apply(self, cut: _Cut, statement: Statement) -> bool:
        if not cut.rest and not self._is_covered(statement):
            return False
        group = self.groups[cut.group]
        group[cut.place] = replace(statement, body=cut.rest) if cut.rest else None
        text = self.text(cut.group)
        untold = not cut.rest and not _is_told(statement, self.group(cut.group), text)
        if untold or not self._is_kept_in(cut.group, text):
            group[cut.place] = statement
            return False
        lost = _stems(statement.body) - _stems(cut.rest)
        self._said.subtract(lost)
        self._said_of.subtract((_person(statement), stem) for stem in lost)
        return True


def _is_told(statement: Statement, others: Sequence[Statement], text: str) -> bool:
    """Whether a text tells each detail of a statement, days that were made dates too; its numbers in one of the others.

    What a number belongs to is lost where another statement has the same number of something else.
    """
    numbers = _numbers(statement)
    together = not numbers or any(numbers <= _numbers(other) for other in others)
    return together and not missing_details([statement.body], text)


def _numbers(statement: Statement) -> frozenset[str]:
    return frozenset(detail for detail in analysed(statement.body).details if detail[0].isdigit())


def _person(statement: Statement) -> str:
    return statement.entry.subject_user_id or statement.entry.subject.casefold()


@lru_cache(maxsize=8192)
def _stems(text: str) -> frozenset[str]:
    return content_stems(text)


def _may_go(statement: Statement) -> bool:
    return is_english(statement.source) and not is_binding(statement.source)
