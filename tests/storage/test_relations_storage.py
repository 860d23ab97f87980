"""Relations: written with the memories they lead from, only to what lives and is visible, once for a pair and type."""

import re
import uuid
from dataclasses import replace
from typing import Any, LiteralString

import psycopg
import pytest

from mnemic.state.errors import InvalidInputError, RefusedError
from mnemic.state.records import NewMemory, Relation
from mnemic.state.settings import Settings
from mnemic.storage import memories
from mnemic.storage.database import Database
from mnemic.storage.transaction import ScopedTransaction
from tests.storage.test_plans import WHO, Explaining, walk
from tests.support.searching import load_crowd
from tests.support.server import Clone
from tests.support.worlds import MODEL, identity, memory, operate, remember

ANA = identity("ana", groups=["pier"])
BO = identity("bo", groups=["pier"])


def leading_to(*targets: uuid.UUID | NewMemory, key: str = "user:ana", strength: float = 0.8) -> NewMemory:
    """A memory with a relation to each of these."""
    ids = [target if isinstance(target, uuid.UUID) else target.id for target in targets]
    relations = tuple(Relation(to_id=item, strength=strength) for item in ids)
    return replace(memory(f"A fact of {key} {uuid.uuid4()}.", key=key), relations=relations)


def pairs(superuser: psycopg.Connection) -> set[tuple[uuid.UUID, uuid.UUID]]:
    return set(superuser.execute("select from_id, to_id from mnemic.relations").fetchall())


async def seen(db: Database, who: Any) -> set[tuple[uuid.UUID, uuid.UUID]]:
    async with db.scoped(who) as scoped:
        return set(await (await scoped.execute("select from_id, to_id from relations", {})).fetchall())


async def test_a_relation_carries_its_strength_type_and_both_keys(db: Database, superuser: psycopg.Connection) -> None:
    old = memory("The ferry leaves at nine.", key="group:pier")
    await remember(db, ANA, old)
    new = replace(
        memory("The ferry is blue."),
        relations=(
            Relation(to_id=old.id, strength=0.75),
            Relation(to_id=old.id, strength=1.0, relation_type="propagated_from"),
        ),
    )
    await remember(db, ANA, new)

    rows = superuser.execute(
        "select from_id, to_id, relation_type, strength, scope_key, to_scope_key from mnemic.relations order by 3"
    ).fetchall()
    assert rows == [
        (new.id, old.id, "propagated_from", 1.0, "user:ana", "group:pier"),
        (new.id, old.id, "related_to", 0.75, "user:ana", "group:pier"),
    ]


async def test_a_pair_is_related_once_within_a_batch_too_and_nothing_to_itself(
    db: Database, superuser: psycopg.Connection
) -> None:
    first = memory("The ferry leaves at nine.")
    second = leading_to(first, first)
    itself = replace(second, relations=(*second.relations, Relation(to_id=second.id, strength=1.0)))
    await remember(db, ANA, first, itself)

    assert superuser.execute("select from_id, to_id from mnemic.relations").fetchall() == [(second.id, first.id)]


async def test_what_is_unknown_closed_or_somebody_elses_is_left_out(
    db: Database, superuser: psycopg.Connection
) -> None:
    closed, foreign, group = memory("Closed."), memory("Bo's.", key="user:bo"), memory("Ours.", key="group:pier")
    await remember(db, ANA, closed, group)
    await remember(db, BO, foreign)
    await operate(db, ANA, lambda scoped: _forget(scoped, closed.id))
    new = leading_to(uuid.uuid4(), closed, foreign, group)
    assert await remember(db, ANA, new) == {new.id}

    assert pairs(superuser) == {(new.id, group.id)}


async def _forget(scoped: ScopedTransaction, memory_id: uuid.UUID) -> None:
    read = await memories.find(scoped, memory_id)
    assert read
    await memories.forget(scoped, read)


async def test_a_twin_that_is_left_out_has_no_edges(db: Database, superuser: psycopg.Connection) -> None:
    old, first = memory("The ferry leaves at nine."), memory("The ferry is blue.")
    await remember(db, ANA, old, first)
    twin = replace(memory("The ferry is blue."), relations=(Relation(to_id=old.id, strength=0.9),))
    to_the_twin = leading_to(twin)
    assert await remember(db, ANA, twin, to_the_twin) == {to_the_twin.id}

    assert pairs(superuser) == set()


@pytest.mark.parametrize("strength", [-0.1, 1.1, float("nan")])
async def test_a_strength_that_is_none_is_refused(db: Database, strength: float) -> None:
    old = memory("The ferry leaves at nine.")
    await remember(db, ANA, old)
    with pytest.raises(InvalidInputError):
        await remember(db, ANA, leading_to(old, strength=strength))


SEEN_BY_ALL: LiteralString = "alter policy service on mnemic.relations using (true)"


async def related_worlds(db: Database) -> tuple[uuid.UUID, uuid.UUID]:
    """A group's memory, and one of Ana's that leads to it."""
    ours = memory("The ferry leaves at nine.", key="group:pier")
    await remember(db, ANA, ours)
    mine = leading_to(ours)
    await remember(db, ANA, mine)
    return mine.id, ours.id


async def test_a_link_is_seen_by_those_alone_who_may_see_both_ends(db: Database) -> None:
    edge = await related_worlds(db)

    assert await seen(db, ANA) == {edge}
    for other in (BO, identity("ana"), identity("ana", agent="museum", groups=["pier"])):
        assert await seen(db, other) == set()


@pytest.mark.thorough
async def test_control_without_the_policy_all_see_it(fresh_db: Clone) -> None:
    async with fresh_db.database() as db:
        edge = await related_worlds(db)
        with fresh_db.as_superuser() as superuser:
            superuser.execute(SEEN_BY_ALL)

        assert await seen(db, BO) == {edge}


async def test_a_relation_to_a_key_outside_the_transaction_cannot_be_written(db: Database) -> None:
    """The statement looks the other end up; the policy holds where it did not."""
    foreign, mine = memory("Bo's.", key="user:bo"), memory("Mine.")
    await remember(db, BO, foreign)
    await remember(db, ANA, mine)
    forged: LiteralString = (
        "insert into relations (agent_id, from_id, to_id, strength, scope_key, to_scope_key)"
        " values (%(agent_id)s, %(from_id)s, %(to_id)s, 1, 'user:ana', 'user:bo')"
    )
    with pytest.raises(RefusedError, match="row-level security"):
        async with db.scoped(ANA) as scoped:
            await scoped.execute(forged, {"from_id": mine.id, "to_id": foreign.id})


# -- the plan


class ExplainingInsert(Explaining):
    """With the values that the statement is given, too."""

    async def tuples(self, statement: LiteralString, values: Any) -> list[tuple[Any, ...]]:
        cursor = await self.execute("explain (analyze, format json) " + statement, values)
        ((plans,),) = await cursor.fetchall()
        self.nodes.extend(walk(plans[0]["Plan"]))
        return []


async def lookups(clone: Clone) -> list[dict[str, Any]]:
    """How the statement reads memories for a hundred relations, of 10,000 that are there."""
    load_crowd(clone)
    async with clone.database(Settings(pool_size=1)) as db, db.scoped(WHO) as scoped:
        await scoped.begin_operation("formation")
        cursor = await scoped.execute("select id from memories where scope_key = 'user:7' limit 5", {})
        targets = [row[0] for row in await cursor.fetchall()]
        explaining = ExplainingInsert(**vars(scoped))
        new = [leading_to(*targets, key="user:7") for _ in range(20)]
        await memories.insert(explaining, new, model=MODEL, vectors={}, run_id=None)
    return [node for node in explaining.scans("memories") if node["Node Type"] != "ModifyTable"]


def assert_each_by_its_key(nodes: list[dict[str, Any]]) -> None:
    (lookup,) = nodes
    assert (lookup["Node Type"], lookup.get("Index Name")) == ("Index Scan", "memories_pkey")
    assert (lookup["Actual Loops"], lookup["Actual Rows"]) == (100, 1)


@pytest.mark.thorough
async def test_each_end_is_looked_up_by_its_key(fresh_db: Clone) -> None:
    assert_each_by_its_key(await lookups(fresh_db))


@pytest.mark.thorough
async def test_control_a_plain_join_reads_all_that_is_visible(fresh_db: Clone, monkeypatch: pytest.MonkeyPatch) -> None:
    joined = re.sub(r"\s+limit 1\) as m", ") as m", memories._SQL["insert"])
    monkeypatch.setattr(memories, "_SQL", {**memories._SQL, "insert": joined})
    with pytest.raises(AssertionError):
        assert_each_by_its_key(await lookups(fresh_db))
