"""Memories: twins, stale versions, what is read back, and their relations."""

import uuid
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import timedelta

import psycopg
import pytest

from mnemic.state.errors import ConcurrentChangeError, InvalidInputError
from mnemic.state.identity import Identity
from mnemic.state.kinds import Kind
from mnemic.state.query import MemoryQuery
from mnemic.state.records import Memory, NewMemory, Relation, Supersession
from mnemic.storage import memories, scopes
from mnemic.storage.database import Database
from mnemic.storage.transaction import ScopedTransaction
from tests.support.erasing import forget
from tests.support.searching import searched
from tests.support.server import Clone
from tests.support.worlds import MODEL, MORNING, direction, identity, memory, operate, remember

ME = identity(groups=["pier"])
BO = identity("bo", groups=["pier"])


async def living(db: Database) -> list[Memory]:
    async with db.transaction(ME) as tx:
        return await memories.list_memories(tx, ["fact", "reflection", "consolidation"], limit=20)


async def test_active_duplicate_blocks_its_copy_in_key_subject_and_kind_only(
    db: Database, superuser: psycopg.Connection
) -> None:
    text = "The ferry leaves at nine."
    first = memory(text)
    assert await remember(db, ME, first) == {first.id}
    assert await remember(db, ME, memory(text)) == set()
    others = [memory(text, key="group:pier"), memory(text, subject_user="bob"), memory(text, kind="reflection")]
    assert await remember(db, ME, *others) == {item.id for item in others}
    assert len(await remember(db, ME, memory("In one batch."), memory("In one batch."))) == 1
    assert superuser.execute("select count(*) from mnemic.entries").fetchone() == (5,)  # of those that were stored


@pytest.mark.parametrize("closed", ["superseded", "soft-deleted"])
async def test_a_closed_twin_does_not_keep_its_copy_out(db: Database, closed: str) -> None:
    first, again = memory("Ana lives in Porto."), memory("Ana lives in Porto.")
    await remember(db, ME, first)
    if closed == "superseded":
        await supersede(db, first.id, 1)
    else:
        await forget(db, first.id)
    assert await remember(db, ME, again) == {again.id}


async def supersede(db: Database, old_id: uuid.UUID, version: int) -> None:
    change = Supersession(old_id, version, new_id=uuid.uuid4(), until=MORNING + timedelta(days=1))
    await operate(db, ME, lambda tx: memories.supersede(tx, [change]))


def stale_acts(old: Memory) -> dict[str, Callable[[ScopedTransaction], Awaitable[None]]]:
    change = Supersession(old_id=old.id, old_version=old.version, new_id=uuid.uuid4(), until=MORNING)
    return {
        "supersede": lambda tx: memories.supersede(tx, [change]),
        "absorb": lambda tx: memories.absorb(tx, uuid.uuid4(), [old.id]),
        "rewrite": lambda tx: memories.rewrite(tx, old, "newer text"),
    }


@pytest.mark.parametrize("act", ["supersede", "absorb", "rewrite"])
async def test_what_changed_since_it_was_read_is_not_written(db: Database, act: str) -> None:
    kind: Kind = "consolidation" if act == "rewrite" else "reflection"
    await remember(db, ME, memory("Ana keeps bees.", kind=kind))
    (read,) = await living(db)
    await operate(db, ME, stale_acts(read)[act])  # meanwhile another run does the same
    after_first = await living(db)
    unwritten = memory("must not stay")
    with pytest.raises(ConcurrentChangeError):
        await operate(
            db,
            ME,
            lambda tx: memories.insert(tx, [unwritten], model=MODEL, vectors={}, run_id=None),
            stale_acts(read)[act],
        )
    assert await living(db) == after_first
    if act == "rewrite":
        assert [(item.id, item.version, item.content) for item in after_first] == [(read.id, 2, "newer text")]


async def test_the_standing_part_comes_scope_key_by_scope_key_in_order(db: Database) -> None:
    def at(minute: int, kind: Kind, key: str) -> NewMemory:
        moment = MORNING + timedelta(minutes=minute)
        return memory(f"{kind} {minute}", kind=kind, key=key, valid_from=moment)

    stored = [at(3, "reflection", "user:ana"), at(1, "reflection", "user:ana"), at(2, "core", "group:pier"),
              at(0, "fact", "agent:harbor"), at(5, "consolidation", "group:pier")]  # fmt: skip
    await remember(db, ME, *stored)
    async with db.transaction(ME) as tx:
        group, user = (await memories.read_context(tx)).scopes
    assert (group.scope_key, group.text) == ("group:pier", "core 2\nconsolidation 5")
    assert (user.scope_key, user.text) == ("user:ana", "reflection 1\nreflection 3")


async def test_similar_facts_come_nearest_first_for_each_place(db: Database) -> None:
    near, far, group = memory("near"), memory("far"), memory("group", key="group:pier")
    reflection = memory("no fact", kind="reflection")
    vectors = {near.id: direction(10), far.id: direction(60), group.id: direction(0), reflection.id: direction(0)}
    await remember(db, ME, near, far, group, reflection, vectors=vectors)
    async with db.transaction(ME) as tx:
        keys, questions = ["group:pier", "user:ana", "user:bob"], [direction(0)] * 3
        results = await memories.find_nearest(tx, keys, questions, model=MODEL, limit=5)
        best = await memories.find_nearest(tx, ["user:ana"], [direction(50)], model=MODEL, limit=1)
    assert [(item.place, item.id, round(item.similarity, 2)) for item in results] == [
        (0, group.id, 1.0), (1, near.id, 0.98), (1, far.id, 0.5)
    ]  # fmt: skip
    assert [item.id for item in best] == [far.id]


async def test_candidates_match_by_meaning_words_and_subject_within_their_keys(db: Database) -> None:
    def about(content: str, subject: str, key: str = "user:ana", importance: int = 2) -> NewMemory:
        return replace(memory(content, key=key), subject=subject, importance=importance)

    new = about("The ferry leaves at nine.", "Ferry")
    near, words = about("Boats go in the morning.", "Boats"), about("At ten the ferry is there.", "Quay")
    same, lesser = about("Sie fährt jetzt um zehn.", "ferry", importance=4), about("Ein Schiff.", "FERRY")
    theirs, closed = about("Another ferry leaves.", "Ferry", "group:pier"), about("The ferry leaves at six.", "Ferry")
    pending = about("A ferry leaves.", "Pier")
    everything = (near, words, same, lesser, theirs, closed, pending)
    vectors = {item.id: direction(90) for item in everything} | {near.id: direction(10), pending.id: None}
    await remember(db, ME, *everything, vectors=vectors)
    await supersede(db, closed.id, 1)
    async with db.transaction(ME) as tx:

        async def found(most: int, *keys: str) -> list[tuple[int, uuid.UUID]]:
            given = [[*keys], ["user:bob"]]
            rows = await memories.find_candidates(tx, [new] * 2, given, [direction(0)] * 2, model=MODEL, limit=most)
            assert {(row.id, round(row.similarity, 2)) for row in rows} >= {(near.id, 0.98)}
            return [(row.place, row.id) for row in rows]

        own = await found(9, "user:ana")
        assert sorted(own) == sorted((0, item.id) for item in (near, words, same, lesser, pending))
        assert own.index((0, same.id)) < own.index((0, lesser.id))
        assert {item for _, item in await found(9, "user:ana", "group:pier")} == {item for _, item in own} | {theirs.id}
        assert len(await found(3, "user:ana")) == 3


async def test_two_embedding_models_are_never_mixed(db: Database) -> None:
    old, new = memory("old model"), memory("new model")
    await remember(db, ME, old, vectors={old.id: direction(0, size=4)}, model="old")
    await remember(db, ME, new, vectors={new.id: direction(0)}, model="new")
    async with db.transaction(ME) as tx:
        similar = await memories.find_nearest(tx, ["user:ana"], [direction(0)], model="new", limit=5)
        request = MemoryQuery(query="anything", top_k=20, search_type="semantic")
        found = await searched(tx, request, direction(0, size=4), ["profile"], model="old")
    assert ([item.id for item in similar], [item.id for item in found]) == ([new.id], [old.id])


async def count(db: Database, written: int, who: Identity = ME) -> int:
    """The day's total after so many more."""
    async with db.transaction(who) as tx:
        return await scopes.count_turn_writes(tx, f"user:{who.user_id}", written)


async def today(db: Database, who: Identity = ME) -> int:
    async with db.transaction(who) as tx:
        return await scopes.turn_writes_today(tx, f"user:{who.user_id}")


async def test_writes_of_user_turns_are_counted_by_user_agent_and_day(
    db: Database, superuser: psycopg.Connection
) -> None:
    for agent in ("harbor", "lighthouse"):
        async with db.transaction(identity(agent=agent)) as tx:
            await scopes.ensure_agent(tx)
    superuser.execute("insert into mnemic.scopes (agent_id, scope_key, name) values ('harbor', 'user:ana', 'Ana Lind')")
    assert await today(db) == 0
    assert [await count(db, 3), await count(db, 0), await count(db, 17)] == [3, 3, 20]
    for who in (identity("bo"), identity("ana", agent="lighthouse")):
        assert await today(db, who) == 0
    assert await count(db, 1, identity("bo")) == 1
    assert await today(db) == 20
    async with db.transaction(identity("bo")) as tx:  # nobody sees another's
        assert await scopes.turn_writes_today(tx, "user:ana") == 0
    superuser.execute("update mnemic.scopes set turn_writes_on = turn_writes_on - 1")
    assert [await today(db), await count(db, 2), await today(db)] == [0, 2, 2]
    kept = superuser.execute("select name from mnemic.scopes where scope_key = 'user:ana' and agent_id = 'harbor'")
    assert kept.fetchall() == [("Ana Lind",)]


# -- relations: written with the memories they lead from, only to what lives and is visible


def leading_to(*targets: uuid.UUID | NewMemory, key: str = "user:ana", strength: float = 0.8) -> NewMemory:
    """A memory with a relation to each of these."""
    ids = [target if isinstance(target, uuid.UUID) else target.id for target in targets]
    relations = tuple(Relation(to_id=item, strength=strength) for item in ids)
    return replace(memory(f"A fact of {key} {uuid.uuid4()}.", key=key), relations=relations)


async def seen(db: Database, who: Identity) -> set[tuple[uuid.UUID, uuid.UUID]]:
    async with db.transaction(who) as tx:
        return set(await (await tx.execute("select from_id, to_id from relations", {})).fetchall())


async def test_relation_has_its_strength_type_and_both_keys_and_is_stored_once(
    db: Database, superuser: psycopg.Connection
) -> None:
    old, new = memory("The ferry leaves at nine.", key="group:pier"), memory("The ferry is blue.")
    related = Relation(to_id=old.id, strength=0.75)
    others = Relation(to_id=old.id, strength=1.0, relation_type="propagated_from"), Relation(to_id=new.id, strength=1.0)
    await remember(db, ME, old, replace(new, relations=(related, related, *others)))

    rows = superuser.execute(
        "select from_id, to_id, relation_type, strength, scope_key, to_scope_key from mnemic.relations order by 3"
    ).fetchall()
    assert rows == [
        (new.id, old.id, "propagated_from", 1.0, "user:ana", "group:pier"),
        (new.id, old.id, "related_to", 0.75, "user:ana", "group:pier"),
    ]


async def test_what_is_unknown_closed_or_somebody_elses_is_left_out(
    db: Database, superuser: psycopg.Connection
) -> None:
    closed, foreign, group = memory("Closed."), memory("Bo's.", key="user:bo"), memory("Ours.", key="group:pier")
    await remember(db, ME, closed, group)
    await remember(db, BO, foreign)
    await forget(db, closed.id)
    new = leading_to(uuid.uuid4(), closed, foreign, group)
    assert await remember(db, ME, new) == {new.id}

    assert superuser.execute("select from_id, to_id from mnemic.relations").fetchall() == [(new.id, group.id)]


async def test_a_twin_that_is_left_out_has_no_edges(db: Database, superuser: psycopg.Connection) -> None:
    old, first = memory("The ferry leaves at nine."), memory("The ferry is blue.")
    await remember(db, ME, old, first)
    twin = replace(memory("The ferry is blue."), relations=(Relation(to_id=old.id, strength=0.9),))
    to_the_twin = leading_to(twin)
    assert await remember(db, ME, twin, to_the_twin) == {to_the_twin.id}

    assert superuser.execute("select from_id, to_id from mnemic.relations").fetchall() == []


@pytest.mark.parametrize("strength", [-0.1, 1.1, float("nan")])
async def test_a_strength_that_is_none_is_refused(db: Database, strength: float) -> None:
    old = memory("The ferry leaves at nine.")
    await remember(db, ME, old)
    with pytest.raises(InvalidInputError):
        await remember(db, ME, leading_to(old, strength=strength))


async def related_worlds(db: Database) -> tuple[uuid.UUID, uuid.UUID]:
    """A group's memory, and one of Ana's that leads to it."""
    ours = memory("The ferry leaves at nine.", key="group:pier")
    await remember(db, ME, ours)
    mine = leading_to(ours)
    await remember(db, ME, mine)
    return mine.id, ours.id


async def test_a_link_is_seen_by_those_alone_who_may_see_both_ends(db: Database) -> None:
    edge = await related_worlds(db)

    assert await seen(db, ME) == {edge}
    for other in (BO, identity("ana"), identity("ana", agent="museum", groups=["pier"])):
        assert await seen(db, other) == set()


@pytest.mark.thorough
async def test_control_without_the_policy_all_see_it(fresh_db: Clone) -> None:
    async with fresh_db.database() as db:
        edge = await related_worlds(db)
        with fresh_db.as_superuser() as superuser:
            superuser.execute("alter policy service on mnemic.relations using (true)")

        assert await seen(db, BO) == {edge}
