"""What a session is told of changes, as the service's own role reads it, and how its cursor moves."""

import random
from dataclasses import replace

import psycopg
import pytest

from mnemic.state.errors import InvalidInputError, RefusedError
from mnemic.state.identity import Identity
from mnemic.state.query import MAX_TEXT_LENGTH, Changes
from mnemic.state.records import NewMemory, Supersession
from mnemic.storage import inbox, memories, revisions
from mnemic.storage.database import Database
from tests.support.mutating import worsen
from tests.support.server import Clone
from tests.support.worlds import MORNING, identity, memory, remember

ANA = identity("ana", groups=["crew"], session="s1")
BEN = identity("ben", session="s2")
SECRET = "Ana's secret project."


async def told(
    db: Database, who: Identity = ANA, *, standing: bool = True, categories: list[str] | None = None
) -> Changes:
    assert who.session_id
    async with db.transaction(who, categories=categories) as tx:
        return await revisions.read_changes(tx, who.session_id, with_context=standing)


async def advance(db: Database, revision: int, who: Identity = ANA) -> None:
    assert who.session_id
    async with db.transaction(who) as tx:
        await inbox.observe(tx, who.session_id, [])
        await revisions.advance(tx, who.session_id, revision)


async def act(db: Database, who: Identity, reason: str, new: NewMemory) -> None:
    async with db.transaction(who) as tx:
        await tx.begin_operation(reason)
        await memories.insert(tx, [new], model="", vectors={}, run_id=None)


def events(changes: Changes) -> list[tuple[int, str]]:
    return [(change.revision, change.event) for change in changes.changes]


def contents(changes: Changes) -> set[str]:
    return {known.beginning for known in changes.known.values()}


async def test_each_change_is_told_until_the_cursor_has_passed_it(db: Database) -> None:
    assert await told(db) == Changes(since=None, revision=0)
    await remember(db, ANA, memory("Ana keeps bees."), memory("Ana rows.", key="group:crew"))
    assert await told(db) == Changes(since=None, revision=2)  # who was never told is told of nothing
    await advance(db, 0)
    first = await told(db)

    assert (first.since, first.revision, events(first)) == (0, 2, [(1, "ADD"), (2, "ADD")])
    assert await told(db) == first
    await advance(db, 1)
    assert events(await told(db)) == [(2, "ADD")]
    await advance(db, 2)
    assert await told(db) == Changes(since=2, revision=2)


async def test_superseded_memory_comes_with_its_successor_if_that_is_visible(db: Database) -> None:
    old, new = memory("Ana moors at quay 3."), replace(memory(SECRET), category="projects")
    await remember(db, ANA, old, new)
    await advance(db, 2)
    async with db.transaction(ANA) as tx:
        await tx.begin_operation("formation")
        await memories.supersede(tx, [Supersession(old.id, old_version=1, new_id=new.id, until=MORNING)])
    changes = await told(db)

    assert events(changes) == [(3, "SUPERSEDE")]
    assert (changes.known[old.id].state, changes.known[old.id].successor) == ("superseded", new.id)
    assert (changes.known[new.id].state, changes.known[new.id].beginning) == ("active", SECRET)
    bound = await told(db, categories=["profile"])
    assert (events(bound), set(bound.known)) == ([(3, "SUPERSEDE")], {old.id})


async def test_reflections_come_with_the_consolidation_that_took_them_in(db: Database) -> None:
    whole = memory("Ana is brief.", kind="consolidation")
    thoughts = [memory(f"Thought {n}.", kind="reflection") for n in range(3)]
    await remember(db, ANA, whole, *thoughts)
    await advance(db, 4)
    async with db.transaction(ANA) as tx:
        await tx.begin_operation("consolidation")
        await memories.absorb(tx, whole.id, [thought.id for thought in thoughts])
    changes = await told(db)

    assert [event for _, event in events(changes)] == ["ABSORB"] * 3
    assert {changes.known[thought.id].successor for thought in thoughts} == {whole.id}
    assert changes.known[whole.id].beginning == "Ana is brief."


async def test_a_long_text_comes_by_its_beginning_alone(db: Database) -> None:
    await advance(db, 0)
    await remember(db, ANA, memory("bees " * 1600))

    assert [len(text) for text in contents(await told(db))] == [2 * MAX_TEXT_LENGTH]


@pytest.mark.parametrize(
    ("who", "reason", "is_told"),
    [
        (ANA, "remember", False),
        (ANA, "forget", False),
        (ANA, "remember_procedure", False),
        (ANA, "formation", True),
        (ANA, "consolidation", True),
        (identity("ana", groups=["crew"], session="s2"), "remember", True),
        (identity("ana", groups=["crew"]), "remember", True),
    ],
    ids=["own remember", "own forget", "own procedure", "own formation", "own consolidation", "other session", "none"],
)
async def test_an_agent_is_not_told_of_what_it_did_itself_by_a_tool(
    db: Database, who: Identity, reason: str, is_told: bool
) -> None:
    await advance(db, 0)
    await act(db, who, reason, memory("Ana keeps bees."))
    changes = await told(db)

    assert (len(changes.changes), changes.revision) == (int(is_told), 1)


# -- what may be seen


@pytest.mark.parametrize("held_by", ["both", "the policies", "the statement", "neither"])
async def test_only_changes_of_visible_scope_keys_are_told(
    fresh_db: Clone, monkeypatch: pytest.MonkeyPatch, held_by: str
) -> None:
    if held_by in ("the statement", "neither"):
        with fresh_db.as_superuser() as connection:
            connection.execute("alter table mnemic.history disable row level security")
            connection.execute("alter table mnemic.memories disable row level security")
    if held_by in ("the policies", "neither"):
        worsen(monkeypatch, revisions, changes=("and h.scope_key = k.scope_key", ""))
    async with fresh_db.database() as db:
        await advance(db, 0)
        await remember(db, BEN, memory("Ben is in debt.", key="user:ben"))
        await remember(db, ANA, memory("Ana keeps bees."), memory("The crew votes.", key="group:crew"))
        await remember(db, identity("ana", agent="other"), memory("Another agent's."))
        changes = await told(db)
    assert changes.revision == 3
    assert ("Ben is in debt." in contents(changes)) == (held_by == "neither")
    if held_by != "neither":
        assert {revision for revision, _ in events(changes)} == {2, 3}
        assert contents(changes) == {"Ana keeps bees.", "The crew votes."}


async def test_only_changes_of_the_roles_categories_are_told(db: Database) -> None:
    await advance(db, 0)
    await remember(db, ANA, memory("Ana keeps bees."), replace(memory(SECRET), category="projects"))

    assert contents(await told(db, categories=["profile"])) == {"Ana keeps bees."}
    assert contents(await told(db, categories=["profile", "projects"])) == {"Ana keeps bees.", SECRET}
    assert (await told(db, categories=[])).changes == ()


@pytest.mark.parametrize("held", [True, pytest.param(False, id="control", marks=pytest.mark.thorough)])
async def test_who_may_not_read_the_standing_part_is_not_told_of_it(
    db: Database, monkeypatch: pytest.MonkeyPatch, held: bool
) -> None:
    await advance(db, 0)
    standing = [memory(f"A {kind}.", kind=kind) for kind in ("core", "reflection", "consolidation")]
    await remember(db, ANA, memory("A fact."), *standing)
    assert len(contents(await told(db))) == 4
    if not held:
        worsen(monkeypatch, revisions, changes=("(%(standing)s or m.kind", "(true or m.kind"))
    assert (contents(await told(db, standing=False)) == {"A fact."}) == held


# -- the cursor


def cursor(superuser: psycopg.Connection) -> list[int]:
    return [seen for (seen,) in superuser.execute("select seen_revision from mnemic.thread_revisions")]


async def test_the_cursor_moves_forward_only(db: Database, superuser: psycopg.Connection) -> None:
    await remember(db, ANA, *(memory(f"Fact {n}.") for n in range(5)))
    seen = []
    for revision in (2, 2, 1, 4, 0, 5, 5):
        await advance(db, revision)
        seen += cursor(superuser)

    assert seen == [2, 2, 2, 4, 4, 5, 5]


@pytest.mark.parametrize("revision", [3, 2**40])
async def test_a_revision_that_was_never_reached_is_refused_and_nothing_moves(
    db: Database, superuser: psycopg.Connection, revision: int
) -> None:
    await remember(db, ANA, memory("Ana keeps bees."), memory("Ana rows."))
    with pytest.raises(InvalidInputError, match="revision: pass the revision that a recall of this agent returned"):
        await advance(db, revision)

    assert cursor(superuser) == []
    with pytest.raises(InvalidInputError):
        await advance(db, 1, identity("ana", agent="unknown", session="s1"))


async def test_another_sessions_cursor_is_not_its_own(db: Database) -> None:
    await remember(db, ANA, memory("Ana keeps bees."))
    await advance(db, 0)
    await advance(db, 1, identity("ana", session="s9"))

    assert len((await told(db)).changes) == 1
    assert (await told(db, identity("ana", session="s9"))).changes == ()


async def test_a_foreign_sessions_cursor_cannot_be_moved(db: Database, superuser: psycopg.Connection) -> None:
    await advance(db, 0)
    await remember(db, ANA, memory("Ana keeps bees."))
    with pytest.raises(RefusedError):
        async with db.transaction(BEN) as tx:
            await revisions.advance(tx, "s1", 1)
    assert cursor(superuser) == [0]


# -- much has happened


async def test_a_long_backlog_is_told_in_parts_and_nothing_is_left_out(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(revisions, "MAX_CHANGES", 7)
    await advance(db, 0)
    keys = ("user:ana", "group:crew", "agent:harbor", "user:ben")
    chance = random.Random(3)
    for n in range(12):
        await remember(
            db, ANA, *(memory(f"Fact {n}, {m}.", key=chance.choice(keys)) for m in range(3)), also=["user:ben"]
        )
    announced, parts = [], []
    while (changes := await told(db)).changes:
        announced += [revision for revision, _ in events(changes)]
        parts.append(len(changes.changes))
        await advance(db, changes.revision)
    async with db.transaction(ANA) as tx:
        rows = await tx.execute(
            "select revision from history where scope_key = any(%(scope_keys)s) order by revision", {}
        )
        visible = [revision for (revision,) in await rows.fetchall()]

    assert announced == visible
    assert (parts[0], changes.revision) == (7, 36)
    assert len(visible) < 36
