"""Which changes the header tells of: by name, and for any course that memories can take."""

import itertools
from dataclasses import dataclass, field
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from mnemic.memory.recall.delta import MAX_BULLETS, header
from mnemic.state.kinds import ChangeEvent, State
from mnemic.state.query import MAX_TEXT_LENGTH, Bullet, Change, Changes, Known

#: What becomes of a memory.
STATES: dict[ChangeEvent, State] = {
    "SUPERSEDE": "superseded",
    "ABSORB": "absorbed",
    "DELETE": "soft_deleted",
    "PURGE": "purged",
    "RESTORE": "active",
}


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
            kind="fact",
        )
        self.happens("ADD", memory_id)
        return memory_id

    def happens(self, event: ChangeEvent, memory_id: UUID, by: UUID | None = None) -> None:
        """To a memory; one that is superseded or absorbed has a successor."""
        known = self.known[memory_id]
        if event in STATES:
            self.known[memory_id] = known._replace(state=STATES[event], successor=by)
        self.log.append(Change(revision=len(self.log) + 1, event=event, memory_id=memory_id, category=known.category))

    def since(self, revision: int) -> Changes:
        changes = tuple(change for change in self.log if change.revision > revision)
        shown = frozenset(change.memory_id for change in self.log)
        return Changes(since=revision, revision=len(self.log), changes=changes, known=self.known, shown=shown)

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
    course.happens("DELETE", first)  # the agent knows of that already
    assert header(Changes(since=0, revision=2, changes=(course.log[0],), known=course.known)) is None


def test_a_chain_of_replacements_is_one_bullet_that_shows_the_last() -> None:
    course = Course()
    chain = [course.add() for _ in range(4)]
    before = course.now
    for old, new in itertools.pairwise(chain):
        course.happens("SUPERSEDE", old, by=new)

    assert bullets_of(course, before) == [("↑updated", "Memory 4.", 0)]
    assert bullets_of(course) == [("+created", "Memory 4.", 0)]


def test_a_successor_that_may_not_be_seen_is_not_shown() -> None:
    course = Course()
    old, new = course.add(category="tasks"), course.add(content="Hidden.")
    course.happens("SUPERSEDE", old, by=new)
    del course.known[new]

    delta = header(course.since(2))
    assert delta
    assert delta.bullets == (Bullet(sign="↑updated", category="tasks", text="", kind="fact"),)
    assert header(course.since(2)._replace(shown=frozenset({new}))) == delta
    assert header(course.since(2)._replace(shown=frozenset())) is None


def test_the_most_important_come_first_and_then_the_newest() -> None:
    course = Course()
    for importance in (2, 5, 3, 5, 1, 3):
        course.add(importance=importance)

    delta = header(course.since(0))
    assert delta
    assert [bullet.text for bullet in delta.bullets] == ["Memory 4.", "Memory 2.", "Memory 6."]
    assert [bullet.importance for bullet in delta.bullets] == [5, 5, 3]
    assert (delta.since, delta.total) == (0, 6)


def test_a_text_is_cut_to_one_line() -> None:
    course = Course()
    course.add(content=" Ana\n keeps\t" + " bees" * 100)
    ((_, text, _),) = bullets_of(course)
    assert text == "Ana keeps" + " bees" * 28 + "…"


# -- any course

_EVENTS = st.sampled_from(["ADD", "UPDATE", *STATES])
steps = st.lists(st.tuples(_EVENTS, st.integers(0, 20), st.integers(0, 20), st.integers(1, 5)), max_size=60)


def lived(acts: list[tuple[ChangeEvent, int, int, int]]) -> Course:
    """The acts that the database would let happen, one after the other."""
    course = Course()
    for event, first, second, importance in acts:
        active = [memory_id for memory_id, known in course.known.items() if known.state == "active"]
        gone = [memory_id for memory_id, known in course.known.items() if known.state not in ("active", "purged")]
        those = {"RESTORE": gone, "PURGE": [*active, *gone]}.get(event, active)
        if event == "ADD":
            course.add(importance=importance)
        elif those:
            memory = those[first % len(those)]
            by = active[second % len(active)] if event in ("SUPERSEDE", "ABSORB") else None
            if by != memory:
                course.happens(event, memory, by)
    return course


@given(acts=steps, since=st.integers(0, 60), hidden=st.sets(st.integers(0, 40), max_size=5))
def test_whatever_happens_the_header_is_short_ordered_and_true(
    acts: list[tuple[ChangeEvent, int, int, int]], since: int, hidden: set[int]
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
    assert 1 <= len(delta.bullets) == min(delta.total, MAX_BULLETS)
    assert delta.total <= len(touched)
    texts = [bullet.text for bullet in delta.bullets if bullet.text]
    assert len(texts) == len(set(texts))
    by_text = {known.beginning: (memory_id, known) for memory_id, known in course.known.items()}
    created = {change.memory_id for change in changes.changes if change.event == "ADD"}
    for bullet in delta.bullets:
        assert len(bullet.text) <= MAX_TEXT_LENGTH
        if not bullet.text:
            assert bullet.importance is None
            continue
        memory_id, known = by_text[bullet.text]
        assert bullet.importance == known.importance
        assert (known.state, bullet.kind) == ("active", None)
        assert bullet.sign not in ("~soft-deleted", "−deleted")
        assert (bullet.combined > 0) == (bullet.sign == "↔merged")
        assert bullet.sign != "+created" or memory_id in created


@given(acts=steps)
def test_every_memory_that_is_new_and_lives_is_counted(acts: list[tuple[ChangeEvent, int, int, int]]) -> None:
    course = lived(acts)
    delta = header(course.since(0))
    living = sum(known.state == "active" for known in course.known.values())
    removed = sum(known.state in ("soft_deleted", "purged") for known in course.known.values())

    assert (delta.total if delta else 0) == living + removed


def test_each_change_has_its_sign() -> None:
    course = Course()
    ids = [course.add() for _ in range(5)]
    acts: list[tuple[ChangeEvent, UUID, tuple[str, str, int]]] = [
        ("UPDATE", ids[0], ("↑updated", "Memory 1.", 0)),
        ("DELETE", ids[1], ("~soft-deleted", "", 0)),
        ("RESTORE", ids[1], ("⟲restored", "Memory 2.", 0)),
        ("PURGE", ids[1], ("−deleted", "", 0)),
    ]
    for event, memory, bullet in acts:
        before = course.now
        course.happens(event, memory)
        assert bullets_of(course, before) == [bullet]

    before = course.now
    course.happens("UPDATE", course.add())
    assert bullets_of(course, before) == [("+created", "Memory 6.", 0)]
    before = course.now
    course.happens("SUPERSEDE", course.add(), by=ids[4])  # a twin that was there before
    assert bullets_of(course, before) == [("↑updated", "Memory 5.", 0)]
    before = course.now
    for memory in (ids[0], ids[2]):
        course.happens("ABSORB", memory, by=ids[3])
    assert bullets_of(course, before) == [("↔merged", "Memory 4.", 2)]
    for memory in (ids[0], ids[2]):
        course.happens("RESTORE", memory)
    assert [sign for sign, *_ in bullets_of(course, before)] == ["⟲restored", "⟲restored"]
