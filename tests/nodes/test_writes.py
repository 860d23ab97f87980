"""What is stored of a run: how many memories, and related to what."""

from collections.abc import Sequence
from dataclasses import replace
from uuid import UUID, uuid4

from hypothesis import given
from hypothesis import strategies as st

from mnemic.operations.formation.selection import most_important, related_to_living, within_cap
from mnemic.state.formation import Closing
from mnemic.state.records import NewMemory, Relation
from tests.support.worlds import MORNING, memory

KNOWN = uuid4()


def rated(*importances: int) -> list[NewMemory]:
    return [replace(memory(f"m{place}"), importance=rating) for place, rating in enumerate(importances)]


def closes(old: NewMemory | UUID, new: NewMemory) -> Closing:
    stored = isinstance(old, UUID)
    return Closing(
        old_id=old if isinstance(old, UUID) else old.id, version=1, is_stored=stored, new_id=new.id, until=MORNING
    )


def test_the_most_important_stay_in_their_order_and_among_equals_the_first() -> None:
    new = rated(2, 5, 3, 3, 4)

    assert most_important(new, 3) == [new[1], new[2], new[4]]
    assert most_important(new, 9) == new
    assert most_important(new, 0) == []


def test_a_fact_the_run_itself_closes_gives_way_however_important_it_is() -> None:
    stale, current, other = rated(5, 1, 1)

    assert within_cap([stale, current, other], [closes(stale, current)], 2) == ([current, other], [])


def test_what_a_stale_fact_was_to_close_its_successor_closes() -> None:
    stale, current, other = rated(5, 1, 1)
    closing = [closes(KNOWN, stale), closes(stale, current)]

    assert within_cap([stale, current, other], closing, 2) == ([current, other], [closes(KNOWN, current)])


def test_relations_lead_from_and_to_what_lives_on() -> None:
    stale, current, other = rated(2, 2, 2)
    known, closed = uuid4(), KNOWN
    new = [
        leading_to(stale, known),
        leading_to(current, stale.id, closed, known),
        leading_to(other, current.id),
    ]
    closing = [closes(stale, current), closes(KNOWN, current)]

    left = [[relation.to_id for relation in memory.relations] for memory in related_to_living(new, closing)]
    assert left == [[], [known], [current.id]]
    assert related_to_living(new, []) == new


def leading_to(memory: NewMemory, *ids: UUID) -> NewMemory:
    return replace(memory, relations=tuple(Relation(to_id=to_id, strength=0.8) for to_id in ids))


@st.composite
def runs(draw: st.DrawFn) -> tuple[list[NewMemory], list[Closing], int]:
    """New memories, closings among them (a later one closes an earlier one) and of known facts, and a cap."""
    new = rated(*draw(st.lists(st.integers(1, 5), max_size=7)))
    closing: list[Closing] = []
    for place in range(len(new)):
        if draw(st.booleans()):
            closing.append(closes(uuid4(), new[place]))
        if place + 1 < len(new) and draw(st.booleans()):
            closing.append(closes(new[place], new[draw(st.integers(place + 1, len(new) - 1))]))
    return new, closing, draw(st.integers(0, 8))


@given(runs())
def test_the_cap_holds_and_no_closing_hangs_in_the_air(run: tuple[list[NewMemory], list[Closing], int]) -> None:
    new, closing, most = run
    kept, rows = within_cap(new, closing, most)
    ids = {memory.id for memory in kept}
    made = {memory.id for memory in new}

    assert len(kept) <= most
    assert [memory for memory in new if memory in kept] == kept
    assert all(row.new_id in ids and (row.old_id in ids or row.old_id not in made) for row in rows)
    closed = {row.old_id for row in closing}
    left_open = {memory.id for memory in kept} & closed - {row.old_id for row in rows}
    assert left_open == set()
    if len(new) > most:
        assert least(kept) >= most_of(new, kept, closed)


def least(kept: Sequence[NewMemory]) -> int:
    return min((memory.importance for memory in kept), default=9)


def most_of(new: Sequence[NewMemory], kept: Sequence[NewMemory], closed: set[UUID]) -> int:
    """The importance of the best current memory that was dropped."""
    return max((m.importance for m in new if m not in kept and m.id not in closed), default=0)
