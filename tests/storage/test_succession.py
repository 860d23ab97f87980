"""What replaced a memory gives it back when it goes: each way of being replaced, each way of going, with a control."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from uuid import UUID

import pytest

from mnemic.memory.governance import retention, rollback
from mnemic.memory.runtime.principal import Principal
from mnemic.state.governance import Rollback, RollbackOptions
from mnemic.state.identity import Identity
from mnemic.state.records import Message, NewMemory, Relation, Supersession
from mnemic.storage import erasure, history, memories, pairs, refinements
from mnemic.storage.transaction import ScopedTransaction
from tests.support.erasing import CANARY, World, erase, expire, form
from tests.support.erasing import world as world
from tests.support.matrix import few_first, mostly_thorough
from tests.support.mutating import mutate
from tests.support.refinements import begun, within
from tests.support.rollbacks import administrator_of, op_ids, restore, undo
from tests.support.server import Clone
from tests.support.worlds import AGENT, MORNING, identity, memory, message, storing

ANA = identity("ana", session="s1", groups=["crew"])
BO = identity("bo", session="s2", groups=["crew"])
MAINTENANCE = Identity(agent_id=AGENT, group_ids=("crew",), actor_id="maintenance")
CREW, ALL = "group:crew", "agent:harbor"
CASCADE = RollbackOptions(cascade=True)
Act = Callable[[ScopedTransaction], Awaitable[object]]


@dataclass
class Case:
    """Bo's memories, and Ana's in whose place they went out of force."""

    new: NewMemory
    old: list[NewMemory] = field(default_factory=list)


def crews(content: str, *sources: Message, kind: str = "fact", **fields: object) -> NewMemory:
    return replace(memory(content, key=CREW, sources=sources), kind=kind, **fields)  # type: ignore[arg-type]


def superseding(new: NewMemory, *old: NewMemory, ends: bool = True) -> Act:
    changes = [Supersession(each.id, 1, new.id, MORNING if ends else None) for each in old]
    return lambda tx: memories.supersede(tx, changes)


async def act(world: World, who: Identity, reason: str, *acts: Act) -> None:
    """One operation."""
    async with world.db.transaction(who) as tx:
        await tx.begin_operation(reason)
        for each in acts:
            await each(tx)


async def bos(world: World, *texts: str, kind: str = "fact") -> list[NewMemory]:
    """What Bo said for the crew, each in a message of its own."""
    said = [message(f"Listen: {text}", user="bo", session="s2") for text in texts]
    new = [crews(text, each, kind=kind) for text, each in zip(texts, said, strict=True)]
    await form(world.db, BO, said, *new)
    return new


async def anas(world: World, text: str = f"The {CANARY} starts at dawn.", *, kind: str = "fact") -> NewMemory:
    """What Ana said for the crew."""
    said = message(f"Look: {text}", session="s1")
    new = crews(text, said, kind=kind, importance=5)
    await form(world.db, ANA, [said], new)
    return new


async def by_formation(world: World, *, ends: bool = True) -> Case:
    (old,) = await bos(world, "The pump stands at the pier.")
    said = message(f"Look: the {CANARY} starts at dawn.")
    new = crews(f"The {CANARY} starts at dawn.", said)
    await form(world.db, ANA, [said])
    await act(world, ANA, "formation", storing(new), superseding(new, old, ends=ends))
    return Case(new, [old])


async def by_rewording(world: World) -> Case:
    return await by_formation(world, ends=False)


async def by_correction(world: World) -> Case:
    """With the reflection that rests on the corrected fact alone."""
    said = message("Listen: the pump stands at the pier.", user="bo", session="s2")
    old = crews("The pump stands at the pier.", said)
    drawn = crews("The crew likes its pump close by.", said, kind="reflection")
    await form(world.db, BO, [said], old, drawn)
    new = crews(f"The {CANARY} starts at dawn.")
    correcting = (storing(new), superseding(new, old), lambda tx: memories.forget_derived(tx, old.id))
    await act(world, ANA, "correct", *correcting)
    return Case(new, [old, drawn])


async def by_correction_twice(world: World) -> Case:
    """Ana corrects Bo, and then herself."""
    case = await by_correction(world)
    again = crews(f"The {CANARY} starts at noon.")
    await act(world, ANA, "correct", storing(again), superseding(again, case.new))
    return Case(again, case.old)


async def by_a_later_fact(world: World) -> Case:
    """Maintenance finds that a fact which is there already replaces another."""
    (old,), new = await bos(world, "The pump stands at the pier."), await anas(world)
    await act(world, MAINTENANCE, "maintenance", superseding(new, old))
    return Case(new, [old])


async def by_near_duplicates(world: World) -> Case:
    """Maintenance stores one fact for two."""
    (old,), new = await bos(world, "The pump stands at the pier."), await anas(world)
    merged = crews(f"At the pier a {CANARY} and a pump start at dawn.", provenance="consolidated")

    def related(old_id: UUID) -> Act:
        one = Relation(to_id=old_id, strength=1.0, relation_type="merged_from")
        return lambda tx: pairs.relate(tx, merged.id, one)

    closing = superseding(merged, old, new, ends=False)
    await act(world, MAINTENANCE, "maintenance", closing, storing(merged), related(old.id), related(new.id))
    return Case(new, [old])


async def by_a_merge(world: World) -> Case:
    (old,) = await bos(world, "The pump stands at the pier.", kind="core")
    new = await anas(world, kind="core")
    session = await begun(world.db, ANA, CREW)

    async def merge(tx: ScopedTransaction) -> None:
        ledger = await refinements.read_ledger(tx)
        text = f"At the pier a {CANARY} and a pump start."
        await refinements.merge(tx, [row for row in ledger if row.id in (old.id, new.id)], "profile", text)

    await within(world.db, ANA, session, merge, reason="merge")
    return Case(new, [old])


async def as_a_duplicate(world: World) -> Case:
    (old,) = await bos(world, f"The {CANARY} starts at dawn.", kind="core")
    new = await anas(world, f"The  {CANARY} starts at dawn.", kind="core")
    session = await begun(world.db, ANA, CREW)
    await within(world.db, ANA, session, refinements.remove_duplicates, reason="dedup")
    return Case(new, [old])


async def by_absorption(world: World) -> Case:
    (old,) = await bos(world, "The crew likes its pump close by.", kind="reflection")
    new = await anas(world, f"The crew likes the {CANARY} early.", kind="reflection")
    text = crews(f"The crew likes pump and {CANARY}.", kind="consolidation", provenance="consolidated")
    await act(
        world,
        MAINTENANCE,
        "consolidation",
        storing(text),
        lambda tx: memories.absorb(tx, text.id, [old.id, new.id]),
    )
    return Case(new, [old])


async def by_closing(world: World) -> Case:
    """A consolidation takes the place of a reflection that was said to be outdated."""
    (old,) = await bos(world, "The crew likes its pump close by.", kind="reflection")
    new = await anas(world, f"The crew likes the {CANARY} early.", kind="reflection")
    text = crews(f"The crew likes the {CANARY}.", kind="consolidation", provenance="consolidated")
    await act(
        world,
        MAINTENANCE,
        "consolidation",
        storing(text),
        lambda tx: memories.absorb(tx, text.id, [new.id]),
        lambda tx: memories.close_parts(tx, text.id, [old.id]),
    )
    return Case(new, [old])


async def with_a_raised_copy(world: World) -> Case:
    """A copy of the corrected fact had been raised to all, and was withdrawn with it."""
    (old,) = await bos(world, "The pump stands at the pier.")
    raised = Relation(to_id=old.id, strength=1.0, relation_type="propagated_from")
    copy = replace(memory(old.content, key=ALL), relations=(raised,), actor_id="bo")
    await act(world, BO, "propagation", storing(copy))
    new = crews(f"The {CANARY} starts at dawn.")
    await act(world, ANA, "correct", storing(new), superseding(new, old))

    async def withdraw(tx: ScopedTransaction) -> None:
        found = await memories.find(tx, copy.id)
        assert found
        await memories.forget(tx, found)

    await act(world, BO, "propagation", withdraw)
    return Case(new, [old, copy])


WAYS: dict[str, Callable[[World], Awaitable[Case]]] = {
    "superseded": by_formation,
    "reworded": by_rewording,
    "corrected": by_correction,
    "corrected twice": by_correction_twice,
    "replaced by a later fact": by_a_later_fact,
    "near duplicate": by_near_duplicates,
    "merged": by_a_merge,
    "duplicate": as_a_duplicate,
    "absorbed": by_absorption,
    "closed": by_closing,
    "raised and withdrawn": with_a_raised_copy,
}


async def erased_by_id(world: World, case: Case) -> None:
    assert case.new.id in await erase(world.db, case.new.id, who=ANA)


async def erased_with_its_author(world: World, case: Case) -> None:
    done = await erasure.erase(world.db, ANA, ["user:ana"], None)
    assert (case.new.id in done.erased, done.left) == (True, 0)


async def unshared(world: World, case: Case) -> Rollback:
    return await rollback.unshare(Principal.person(world.db, ANA), "ana", CASCADE)


async def undone(world: World, case: Case) -> Rollback:
    found = world.superuser.execute(
        "select op_id from mnemic.history where memory_id = %s and event = 'ADD'", (case.new.id,)
    ).fetchone()
    assert found
    async with administrator_of(world.clone, AGENT) as office:
        return await undo(office, found[0], cascade=True)


async def purged(world: World, case: Case) -> None:
    expire(world.superuser, case.new.id)
    async with administrator_of(world.clone, AGENT) as office:
        assert case.new.id in await retention.purge(office, 0)


GOINGS: dict[str, Callable[[World, Case], Awaitable[Rollback | None]]] = {
    "erase": erased_by_id,
    "erase_person": erased_with_its_author,
    "unshare": unshared,
    "undo": undone,
    "purge": purged,
}
#: A purge takes facts that were in force until they expired; and what was corrected twice goes back one step alone.
_NOT_SO = {("corrected twice", "undo"), ("corrected twice", "purge")} | {
    (way, "purge") for way in ("near duplicate", "merged", "duplicate", "absorbed", "closed")
}
CASES = [(way, going) for way in WAYS for going in GOINGS if (way, going) not in _NOT_SO]


async def given_back(world: World, way: str, going: str) -> None:
    """The promise: what was replaced is in force, for everybody who reads it, and what replaced it is not."""
    case = await WAYS[way](world)
    ids = [old.id for old in case.old]
    before = world.states(*ids)
    assert "active" not in before
    done = await GOINGS[going](world, case)
    assert world.states(*ids) == ["active"] * len(ids)
    assert world.states(case.new.id) != ["active"]
    for who in (ANA, BO, identity("cleo", groups=["crew"])):
        async with world.db.transaction(who) as tx:
            rows = await memories.list_memories(tx, ["fact", "core", "reflection", "consolidation"], limit=10)
        assert {row.id for row in rows} == {*ids}
        assert {row.valid_until for row in rows} == {None}
    if done:
        async with administrator_of(world.clone, AGENT) as office:
            assert done.op_id
            await undo(office, done.op_id)
        assert world.states(*ids) == before


@pytest.mark.parametrize(
    ("way", "going"), few_first(sorted(CASES, key=lambda case: (case[1] != "erase_person", case[0] != "corrected")), 11)
)
async def test_what_was_replaced_is_in_force_once_that_which_replaced_it_goes(
    world: World, way: str, going: str
) -> None:
    await given_back(world, way, going)


@pytest.mark.parametrize("way", mostly_thorough([*WAYS], "corrected"))
async def test_without_the_rule_it_stays_out_of_force(fresh_db: Clone, way: str) -> None:
    nothing = (
        "create or replace function mnemic.replaced_memories(p_agent text, p_gone uuid[], p_since bigint[])"
        " returns setof uuid language sql"
    )
    with fresh_db.as_superuser() as superuser:
        superuser.execute(f"{nothing} as 'select null::uuid where false'")
        async with fresh_db.database() as db:
            with pytest.raises(AssertionError, match="active"):
                await given_back(World(db, fresh_db, superuser), way, "erase_person")


async def forgets(world: World, memory_id: UUID) -> None:
    """Bo forgets a memory of the crew."""

    async def forget(tx: ScopedTransaction) -> None:
        found = await memories.find(tx, memory_id)
        assert found
        await memories.forget(tx, found)

    await act(world, BO, "forget", forget)


async def undo_newest(world: World) -> UUID:
    async with administrator_of(world.clone, AGENT) as office:
        done = await undo(office, op_ids(world.superuser)[-1])
    assert done.op_id
    return done.op_id


@pytest.mark.parametrize("way", mostly_thorough([*WAYS], "corrected"))
async def test_redone_forget_leaves_replaced_memories_as_the_forget_did(world: World, way: str) -> None:
    case = await WAYS[way](world)
    ((active,),) = world.superuser.execute("select id from mnemic.memories where state = 'active'").fetchall()
    await forgets(world, active)
    ids = [active, *(old.id for old in case.old)]
    forgotten = world.states(*ids)
    assert "active" not in forgotten
    await undo_newest(world)
    assert world.states(*ids) == ["active", *forgotten[1:]]
    await undo_newest(world)
    assert world.states(*ids) == forgotten


async def test_redone_forget_returns_a_memory_that_was_replaced_in_between(world: World) -> None:
    (old,), new = await bos(world, "The pump stands at the pier."), await anas(world)
    await forgets(world, new.id)
    undone = await undo_newest(world)
    await act(world, MAINTENANCE, "maintenance", superseding(new, old))
    async with administrator_of(world.clone, AGENT) as office:
        await undo(office, undone)
    assert world.states(old.id, new.id) == ["active", "soft_deleted"]


async def test_undone_creation_returns_the_replaced_memory_although_a_forget_was_undone(world: World) -> None:
    case = await by_a_later_fact(world)
    await forgets(world, case.new.id)
    await undo_newest(world)
    await undone(world, case)
    assert world.states(case.old[0].id, case.new.id) == ["active", "soft_deleted"]


@pytest.mark.parametrize("first", ["forget", "supersession"])
async def test_restore_closes_both_a_forgotten_memory_and_the_one_it_had_replaced(world: World, first: str) -> None:
    case = await by_a_later_fact(world)
    ids = (case.old[0].id, case.new.id)
    superseded = op_ids(world.superuser)[-1]
    await forgets(world, case.new.id)
    forgot = op_ids(world.superuser)[-1]
    async with administrator_of(world.clone, AGENT) as office:
        newest, *_ = await rollback.operations(office, limit=1)
        for op_id in sorted([superseded, forgot], key=lambda each: (each == forgot) != (first == "forget")):
            await undo(office, op_id)
        assert world.states(*ids) == ["active", "active"]
        await restore(office, CREW, newest.last_revision)
    assert world.states(*ids) == ["superseded", "soft_deleted"]


async def test_memory_replaced_by_two_in_turn_returns_with_the_last_one_only(world: World) -> None:
    """Ana corrects Bo, Cleo corrects Ana. What Cleo said is in force until it goes, also if Ana took her words back."""
    for takes_back in (erased_by_id, unshared):
        case = await by_correction(world)
        cleo = identity("cleo", groups=["crew"])
        last = crews("Somebody else moved it.")
        await act(world, cleo, "correct", storing(last), superseding(last, case.new))
        await takes_back(world, case)
        ids: Sequence[UUID] = [old.id for old in case.old]
        assert world.states(last.id, ids[0]) == ["active", "superseded"]
        assert await erase(world.db, last.id, who=cleo, keys=["user:cleo"]) == [last.id]
        assert world.states(ids[0]) == ["active"]
        assert world.states(case.new.id) != ["active"]
        await erasure.erase(world.db, BO, ["user:bo"], None)


EDITED = "The pump stands at the pier."
DRAFT = "Pump: at the pier."


async def by_an_edit(world: World) -> tuple[NewMemory, NewMemory]:
    """A refinement writes Ana's words into Bo's memory, and deletes hers."""
    typed = message(EDITED, user="bo", session="s2")
    old = replace(crews(EDITED, typed, kind="core"), said=EDITED, draft=DRAFT)
    await form(world.db, BO, [typed], old)
    new = await anas(world, kind="core")
    session = await begun(world.db, ANA, CREW)

    async def edit(tx: ScopedTransaction) -> None:
        (entry,) = [row for row in await refinements.read_ledger(tx) if row.id == old.id]
        await memories.rewrite(tx, entry, f"Pump at pier, {CANARY} at dawn.")

    async def delete(tx: ScopedTransaction) -> None:
        (entry,) = [row for row in await refinements.read_ledger(tx) if row.id == new.id]
        await memories.forget(tx, entry)

    await within(world.db, ANA, session, edit)
    await within(world.db, ANA, session, delete, reason="delete")
    return old, new


async def edited(world: World, going: str) -> None:
    old, new = await by_an_edit(world)
    await GOINGS[going](world, Case(new, [old]))
    for who in (BO, identity("cleo", groups=["crew"])):
        async with world.db.transaction(who) as tx:
            rows = await memories.list_memories(tx, ["core"], limit=10, with_closed=True)
        assert [row.content for row in rows if row.state == "active"] == [EDITED]
        assert CANARY not in "".join(row.content for row in rows)
        async with world.db.transaction(who) as tx:
            told = await history.read_memory_history(tx, old.id)
        assert CANARY not in repr(told)
    query = "select said, draft from mnemic.memories where state = 'active' and kind = 'core'"
    assert world.superuser.execute(query).fetchall() == [(EDITED, DRAFT)]
    if going != "unshare":
        assert world.places() == set()


@pytest.mark.parametrize("going", ["erase", "erase_person", "unshare"])
async def test_a_memory_that_was_given_anothers_words_has_its_own_again(world: World, going: str) -> None:
    await edited(world, going)


@pytest.mark.thorough
async def test_without_the_rule_it_is_lost(fresh_db: Clone) -> None:
    with fresh_db.as_superuser() as superuser:
        mutate(superuser, "former_version", "c.before is not null", "false")
        async with fresh_db.database() as db:
            with pytest.raises(AssertionError, match="pump"):
                await edited(World(db, fresh_db, superuser), "erase_person")
