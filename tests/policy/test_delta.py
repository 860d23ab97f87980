"""Which changes the header tells of: by name, and for any course that memories can take."""

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from mnemic.policy.recall.delta import LONGEST_TEXT, MOST_BULLETS, SIGNS, header
from mnemic.state.query import Bullet, Change, Changes, Event, Known

GONE = {"DELETE": "soft_deleted", "PURGE": "purged"}


@dataclass
class Course:
    """Memories and what happens to them, as the database writes it down."""

    known: dict[UUID, Known] = field(default_factory=dict)
    log: list[Change] = field(default_factory=list)

    def add(self, *, importance: int = 3, content: str = "", category: str = "goals") -> UUID:
        memory_id = UUID(int=len(self.known) + 1)
        self.known[memory_id] = Known(
            state="active",
            category=category,
            importance=importance,
            beginning=content or f"Memory {memory_id.int}.",
            successor=None,
        )
        self._happens("ADD", memory_id)
        return memory_id

    def update(self, memory_id: UUID) -> None:
        self._happens("UPDATE", memory_id)

    def close(self, memory_id: UUID, by: UUID, *, absorbing: bool = False) -> None:
        self._becomes(memory_id, state="absorbed" if absorbing else "superseded", successor=by)
        self._happens("ABSORB" if absorbing else "SUPERSEDE", memory_id)

    def remove(self, memory_id: UUID, event: Event = "DELETE") -> None:
        self._becomes(memory_id, state=GONE[event], successor=None)
        self._happens(event, memory_id)

    def restore(self, memory_id: UUID) -> None:
        self._becomes(memory_id, state="active", successor=None)
        self._happens("RESTORE", memory_id)

    def _becomes(self, memory_id: UUID, **changes: Any) -> None:
        self.known[memory_id] = self.known[memory_id]._replace(**changes)

    def _happens(self, event: Event, memory_id: UUID) -> None:
        category = self.known[memory_id].category
        self.log.append(Change(seq=len(self.log) + 1, event=event, memory_id=memory_id, category=category))

    def since(self, seq: int) -> Changes:
        changes = tuple(change for change in self.log if change.seq > seq)
        return Changes(since=seq, revision=len(self.log), changes=changes, known=self.known)

    @property
    def now(self) -> int:
        return len(self.log)


def bullets_of(course: Course, since: int = 0) -> list[tuple[str, str, int]]:
    delta = header(course.since(since))
    return [(bullet.sign, bullet.text, bullet.combined) for bullet in delta.bullets] if delta else []


def test_nothing_is_said_of_nothing() -> None:
    course = Course()
    assert header(course.since(0)) is None
    first = course.add()
    assert header(course.since(course.now)) is None
    assert header(Changes(since=None, revision=1)) is None
    course.remove(first)  # the agent knows of that already
    assert header(Changes(since=0, revision=2, changes=(course.log[0],), known=course.known)) is None


def test_a_chain_of_replacements_is_one_bullet_that_shows_the_last() -> None:
    course = Course()
    chain = [course.add() for _ in range(4)]
    before = course.now
    for old, new in itertools.pairwise(chain):
        course.close(old, by=new)

    assert bullets_of(course, before) == [("↑updated", "Memory 4.", 0)]
    assert bullets_of(course) == [("+created", "Memory 4.", 0)]


def test_a_successor_that_may_not_be_seen_is_not_shown() -> None:
    course = Course()
    old, new = course.add(category="tasks"), course.add(content="Hidden.")
    course.close(old, by=new)
    del course.known[new]

    delta = header(course.since(2))
    assert delta
    assert delta.bullets == (Bullet(sign="↑updated", category="tasks", text=""),)


def test_the_most_important_come_first_and_then_the_newest() -> None:
    course = Course()
    for importance in (2, 5, 3, 5, 1, 3):
        course.add(importance=importance)

    delta = header(course.since(0))
    assert delta
    assert [bullet.text for bullet in delta.bullets] == ["Memory 4.", "Memory 2.", "Memory 6."]
    assert (delta.since, delta.total) == (0, 6)


def test_a_text_is_cut_to_one_line() -> None:
    course = Course()
    course.add(content=" Ana\n keeps\t" + " bees" * 100)
    ((_, text, _),) = bullets_of(course)
    assert text == "Ana keeps" + " bees" * 30 + "…"


# -- any course

steps = st.lists(
    st.tuples(st.sampled_from(list(SIGNS)), st.integers(0, 20), st.integers(0, 20), st.integers(1, 5)), max_size=60
)


def lived(acts: list[tuple[Event, int, int, int]]) -> Course:
    """The acts that the database would let happen, one after the other."""
    course = Course()
    for event, first, second, importance in acts:
        active = [memory_id for memory_id, known in course.known.items() if known.state == "active"]
        gone = [memory_id for memory_id, known in course.known.items() if known.state not in ("active", "purged")]
        if event == "ADD":
            course.add(importance=importance)
        elif event == "RESTORE" and gone:
            course.restore(gone[first % len(gone)])
        elif event in ("UPDATE", "DELETE") and active:
            memory = active[first % len(active)]
            course.update(memory) if event == "UPDATE" else course.remove(memory)
        elif event == "PURGE" and (active or gone):
            course.remove([*active, *gone][first % len([*active, *gone])], "PURGE")
        elif event in ("SUPERSEDE", "ABSORB") and len(active) > 1:
            memory, successor = active[first % len(active)], active[second % len(active)]
            if memory != successor:
                course.close(memory, by=successor, absorbing=event == "ABSORB")
    return course


@given(acts=steps, since=st.integers(0, 60), hidden=st.sets(st.integers(0, 40), max_size=5))
def test_whatever_happens_the_header_is_short_ordered_and_true(
    acts: list[tuple[Event, int, int, int]], since: int, hidden: set[int]
) -> None:
    course = lived(acts)
    changes = course.since(min(since, course.now))
    for number in hidden:
        course.known.pop(UUID(int=number), None)
    delta = header(changes)

    touched = {change.memory_id for change in changes.changes}
    if delta is None:
        assert not touched  # nothing is left out where all that happened since is in the window
        return
    assert 1 <= len(delta.bullets) == min(delta.total, MOST_BULLETS)
    assert delta.total <= len(touched)
    texts = [bullet.text for bullet in delta.bullets if bullet.text]
    assert len(texts) == len(set(texts))
    by_text = {known.beginning: (memory_id, known) for memory_id, known in course.known.items()}
    created = {change.memory_id for change in changes.changes if change.event == "ADD"}
    for bullet in delta.bullets:
        assert len(bullet.text) <= LONGEST_TEXT
        if not bullet.text:
            continue
        memory_id, known = by_text[bullet.text]
        assert known.state == ("soft_deleted" if bullet.sign == "~soft-deleted" else "active")
        assert bullet.sign != "−deleted"
        assert (bullet.combined > 0) == (bullet.sign == "↔merged")
        assert bullet.sign != "+created" or memory_id in created


@given(acts=steps)
def test_every_memory_that_is_new_and_lives_is_counted(acts: list[tuple[Event, int, int, int]]) -> None:
    course = lived(acts)
    delta = header(course.since(0))
    living = sum(known.state == "active" for known in course.known.values())
    removed = sum(known.state in GONE.values() for known in course.known.values())

    assert (delta.total if delta else 0) == living + removed


def test_each_change_has_its_sign() -> None:
    course = Course()
    ids = [course.add() for _ in range(5)]
    acts: list[tuple[Callable[[], None], tuple[str, str, int]]] = [
        (lambda: course.update(ids[0]), ("↑updated", "Memory 1.", 0)),
        (lambda: course.remove(ids[1]), ("~soft-deleted", "Memory 2.", 0)),
        (lambda: course.restore(ids[1]), ("⟲restored", "Memory 2.", 0)),
        (lambda: course.remove(ids[1], "PURGE"), ("−deleted", "", 0)),
        (lambda: course.update(course.add()), ("+created", "Memory 6.", 0)),
        (lambda: course.close(course.add(), by=ids[4]), ("↑updated", "Memory 5.", 0)),  # a twin that was there before
    ]
    for act, bullet in acts:
        before = course.now
        act()
        assert bullets_of(course, before) == [bullet]

    before = course.now
    course.close(ids[0], by=ids[3], absorbing=True)
    course.close(ids[2], by=ids[3], absorbing=True)
    assert bullets_of(course, before) == [("↔merged", "Memory 4.", 2)]
    course.restore(ids[0])
    course.restore(ids[2])
    assert [sign for sign, *_ in bullets_of(course, before)] == ["⟲restored", "⟲restored"]
