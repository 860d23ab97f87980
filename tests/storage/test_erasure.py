"""What an erasure takes, table by table and rule by rule, and what it leaves: with a control for each part of it."""

import uuid
from contextlib import nullcontext
from dataclasses import replace

import pytest
from psycopg.errors import InsufficientPrivilege

from mnemic.memory.governance import retention
from mnemic.state.errors import RefusedError
from mnemic.state.records import Message, NewMemory, Supersession
from mnemic.storage import inbox, memories, scopes
from mnemic.storage.database import Database
from tests.support.erasing import ANA, CANARY, World, erase, erase_person, expire, forget, form, places
from tests.support.erasing import world as world
from tests.support.refinements import in_a_session
from tests.support.rollbacks import administrator_of
from tests.support.scripted import scripted_memory, scripted_model
from tests.support.server import Clone
from tests.support.worlds import AGENT, MORNING, executing, identity, memory, message, operate, remember


async def told_and_changed(db: Database, clone: Clone) -> uuid.UUID:
    """A memory with the canary in everything that is told of it: changed, used, protected."""
    said = message(f"I have a {CANARY}")
    kept = replace(memory(f"Ana has a {CANARY}.", kind="reflection", sources=[said]), subject=f"Ana {CANARY}")
    await form(db, ANA, [replace(said, author=f"Ana {CANARY}")], kept)
    change = f"update memories set content = 'Ana has two {CANARY}s', tags = array['{CANARY}']"
    use = "insert into memory_use select agent_id, id, scope_key, 1, now() from memories"
    await operate(db, ANA, in_a_session("user:ana", executing(change)), executing(use))
    with clone.as_role("mnemic_admin") as admin:
        admin.execute("select set_protection(%s, %s, true, 'the administrator')", (AGENT, kept.id))
    return kept.id


async def test_of_an_erased_memory_no_more_than_a_skeleton_is_left(world: World) -> None:
    memory_id = await told_and_changed(world.db, world.clone)
    assert world.places() == {"memories", "messages", "entries", "history_contents"}
    assert await erase(world.db, memory_id) == [memory_id]
    assert world.places() == set()
    row = world.superuser.execute(
        "select state, content, subject, tags, protected, pinned, scope_key from mnemic.memories"
    ).fetchall()
    assert row == [("purged", "", "", None, False, False, "user:ana")]
    for table in ("entries", "memory_use"):
        assert world.superuser.execute(f"select count(*) from mnemic.{table}".encode()).fetchone() == (0,)
    (source,) = world.superuser.execute("select to_jsonb(s) from mnemic.sources s").fetchone() or ({},)
    (message_id,) = world.superuser.execute("select id from mnemic.messages").fetchone() or ("",)
    ids = {"agent_id": AGENT, "memory_id": str(memory_id), "message_id": str(message_id), "scope_key": "user:ana"}
    assert source == ids  # what rested on what: who is erased later is found by it
    events = world.superuser.execute(
        "select event, actor, actor_kind, reason from mnemic.history order by revision desc"
    ).fetchall()
    assert events[0] == ("ERASE", "ana", "person", "erasure")
    assert await erase(world.db, memory_id) == []
    assert len(events) == world.superuser.execute("select count(*) from mnemic.history").fetchone()[0]  # type: ignore[index]


#: The function, beginning and end of a part of it, and the table in which its loss is noticed.
PARTS = [
    ("erase_contents", "content = '', ", "", "memories"),
    ("erase_contents", "subject = '', ", "", "memories"),
    ("erase_contents", "tags = null, ", "", "memories"),
    ("erase_contents", "    delete from history_contents", ";", "history_contents"),
    ("erase_contents", "    delete from entries", ";", "entries"),
    ("clear_messages", "    delete from entries", ";", "entries"),
    ("clear_messages", "    update messages", ";", "messages"),
    ("clear_messages", "author = '', ", "", "messages"),
]


@pytest.mark.thorough
@pytest.mark.parametrize(("function", "beginning", "end", "left_in"), PARTS)
async def test_without_any_part_of_it_something_would_be_left(
    fresh_db: Clone, function: str, beginning: str, end: str, left_in: str
) -> None:
    with fresh_db.as_superuser() as superuser:
        row = superuser.execute("select pg_get_functiondef(%s::regproc)", (f"mnemic.{function}",)).fetchone()
        assert row
        before, _, rest = row[0].partition(beginning)
        assert rest
        superuser.execute((before + (rest.partition(end)[2] if end else rest)).encode())
        async with fresh_db.database() as db:
            memory_id = await told_and_changed(db, fresh_db)
            await erase(db, memory_id)
        assert left_in in places(superuser)


async def test_other_memories_live_on_and_lose_the_shared_message(world: World) -> None:
    said, others = message(f"I have a {CANARY} and bees"), message("So do I", user="bo")
    first, second = memory(f"Ana has a {CANARY}.", sources=[said, others]), memory("Ana keeps bees.", sources=[said])
    await form(world.db, ANA, [said, others], first, second, also=["user:bo"])
    assert await erase(world.db, first.id) == [first.id]
    assert world.states(first.id, second.id) == ["purged", "active"]
    assert world.told([said, others]) == [others]
    assert world.places() == set()
    rests = world.superuser.execute("select memory_id, message_id from mnemic.sources").fetchall()
    assert {*rests} == {(first.id, said.id), (first.id, others.id), (second.id, said.id)}


async def test_nobody_erases_what_is_not_their_own(world: World) -> None:
    crew = identity(groups=["crew"], session="s1")
    own, bos, shared, wide = (
        replace(memory(CANARY, key=key), actor_id=None if key == "user:ana" else "bo")
        for key in ("user:ana", "user:bo", "group:crew", "agent:harbor")
    )
    await remember(world.db, crew, own, bos, shared, wide, also=["user:bo"])
    ids = [bos.id, shared.id, wide.id, uuid.uuid4()]
    assert await erase(world.db, *ids, who=crew) == []
    assert await erase(world.db, *ids, who=crew, keys=["user:ana", "user:bo"]) == []
    assert await erase(world.db, own.id, who=identity("bo"), keys=["user:ana", "user:bo"]) == []
    assert await erase(world.db, own.id, who=identity(agent="museum")) == []
    assert world.states(own.id, *ids[:3]) == ["active"] * 4
    assert await erase_person(world.db, user="bo") == set()
    assert world.states(own.id, *ids[:3]) == ["active"] * 4
    assert {*await erase(world.db, *ids, who=identity("bo"), keys=["user:bo"])} == {bos.id, shared.id, wide.id}


async def test_an_erased_memory_is_never_brought_back(world: World) -> None:
    kept = memory(CANARY)
    await remember(world.db, ANA, kept)
    for state in ("purged", "active"):
        change = f"update memories set state = '{state}', superseded_by = null"
        with pytest.raises(RefusedError):
            await operate(world.db, ANA, executing(change))
        await erase(world.db, kept.id)
    with world.clone.as_superuser() as owner:
        owner.execute("set role mnemic_owner; set search_path = mnemic")
        with pytest.raises(InsufficientPrivilege, match="an erased memory does not change"):
            owner.execute("update memories set content = 'back'")


async def test_contents_of_the_history_go_by_an_erasure_alone(world: World) -> None:
    await remember(world.db, ANA, memory(CANARY))
    with pytest.raises(RefusedError, match="permission denied"):
        await operate(world.db, ANA, executing("select erase_contents('harbor', '{}', '{}', gen_random_uuid())"))
    with world.clone.as_superuser() as owner:
        owner.execute("set role mnemic_owner; set search_path = mnemic")
        owner.execute("select set_config('mnemic.erasing', 'yes', false)")
        for reason in (None, "formation", "erasure"):
            begin = f"select open_operation('harbor', gen_random_uuid(), 'a', 'person', '{reason}', null, null, '{{}}')"
            refused = pytest.raises(InsufficientPrivilege, match="append-only")
            with nullcontext() if reason == "erasure" else refused, owner.transaction(force_rollback=True):
                if reason:
                    owner.execute(begin.encode())
                owner.execute("delete from history_contents")


async def test_the_planners_samples_keep_nothing_of_what_was_said(fresh_db: Clone) -> None:
    samples = "select count(*) from pg_stats s where schemaname = 'mnemic' and s::text ilike %s"
    with fresh_db.as_superuser() as superuser:
        async with fresh_db.database() as db:
            said = [message(f"{n} {CANARY}") for n in range(3)]
            await form(db, ANA, said, *(memory(f"{n} {CANARY}", sources=said) for n in range(3)))
            superuser.execute("analyze")
            assert superuser.execute(samples, (f"%{CANARY}%",)).fetchone() == (0,)
            for table, column in (("messages", "content"), ("entries", "tsv"), ("history_contents", "after")):
                superuser.execute(f"alter table mnemic.{table} alter {column} set statistics -1".encode())
            superuser.execute("analyze")
            await erase_person(db)
        assert places(superuser) == set()
        assert superuser.execute(samples, (f"%{CANARY}%",)).fetchone() == (3,)


async def test_the_purge_takes_what_expired_long_ago_and_nothing_else(world: World) -> None:
    shared, own = message(f"shared {CANARY}"), message(f"own {CANARY}")
    expired = [memory(f"{kind} {CANARY}", kind=kind, sources=[own, shared]) for kind in ("fact", "episode", "insight")]
    others = {name: memory(f"{name} says {CANARY}") for name in ("pinned", "protected", "forgotten", "living", "back")}
    others["living"] = replace(others["living"], source_message_ids=(shared.id,))
    kinds = [memory(f"{kind} {CANARY}", kind=kind) for kind in ("reflection", "core", "procedure", "journal")]
    await form(world.db, ANA, [shared, own], *expired, *others.values(), *kinds)
    await operate(world.db, ANA, executing("update memories set pinned = true where content like 'pinned%%'"))
    with world.clone.as_role("mnemic_admin") as admin:
        admin.execute("select set_protection(%s, %s, true, 'admin')", (AGENT, others["protected"].id))
    expire(world.superuser, *(item.id for item in [*expired, *kinds, others["pinned"], others["back"]]))
    await forget(world.db, others["forgotten"].id)
    for state in ("active", "soft_deleted"):  # restored after its expiry, and closed again by somebody
        back = f"update memories set state = '{state}' where id = '{others['back'].id}'"
        await operate(world.db, ANA, executing(back))
    async with administrator_of(world.clone, AGENT) as office:
        assert await retention.purge(office, 1) == []
        assert await retention.purge(office, 0) == sorted(item.id for item in expired)
    assert "purged" not in world.states(*(item.id for item in [*others.values(), *kinds]))
    assert world.told([shared, own]) == [shared]
    events = world.superuser.execute(
        "select distinct event, actor_kind, reason from mnemic.history where event = 'PURGE'"
    )
    assert events.fetchall() == [("PURGE", "admin", "retention")]


async def test_the_purge_takes_a_message_that_besides_only_the_erased_rests_on(world: World) -> None:
    bos, also_living = message(f"I have a {CANARY}", user="bo"), message(f"Two {CANARY}s", user="bo")
    erased, expired = (memory(f"{text} {CANARY}", sources=[bos, also_living]) for text in ("erased", "expired"))
    living = memory("Bo is well off.", sources=[also_living])
    await form(world.db, ANA, [bos, also_living], erased, expired, living, also=["user:bo"])
    await erase(world.db, erased.id)
    assert world.told([bos, also_living]) == [bos, also_living]  # what somebody else said stays theirs
    expire(world.superuser, expired.id)
    async with administrator_of(world.clone, AGENT) as office:
        assert await retention.purge(office, 0) == [expired.id]
    assert world.told([bos, also_living]) == [also_living]


# -- what says the same goes with it; a dry run tells the same beforehand, and what stays

CREW = identity(groups=["crew"], session="s1")


def crews(content: str, *sources: Message) -> NewMemory:
    return memory(content, key="group:crew", sources=sources)


async def test_messages_that_say_the_same_go_formed_or_not(world: World) -> None:
    said, echo = message(f"I keep a {CANARY}"), message(f"You keep a {CANARY}?", user=None, role="assistant")
    again, other = message(f"Well, I keep one {CANARY} at home", session="s2"), message("I keep bees")
    kept = memory(f"Ana keeps a {CANARY}.", sources=[said])
    await form(world.db, ANA, [said, echo, other], kept)
    await form(world.db, identity(session="s2"), [again])
    waiting = [message(f"I keep a {CANARY}, did you know?", session="s3"), message("Yes", session="s3")]
    async with world.db.transaction(identity(session="s3")) as tx:
        await scopes.ensure_agent(tx)
        await inbox.observe(tx, "s3", waiting)
        await inbox.quarantine(tx, [waiting[0].id])
    assert await erase(world.db, kept.id) == [kept.id]
    assert world.told([said, echo, again, other, *waiting]) == [other, waiting[1]]
    assert world.places() == set()


async def test_memories_of_a_message_are_erased_even_after_the_message_is_gone(world: World) -> None:
    said = message(f"I am well, and keep a {CANARY}")
    well, kept = memory("Ana is well.", sources=[said]), memory(f"Ana keeps a {CANARY}.", sources=[said])
    drawn = memory(f"Ana is calm since she keeps a {CANARY}.", kind="reflection", sources=[said])
    await form(world.db, ANA, [said], well, kept, drawn)
    assert await erase(world.db, well.id) == [well.id]
    assert {*await erase(world.db, kept.id)} == {kept.id, drawn.id}
    assert world.places() == set()


async def test_an_update_goes_with_what_it_renewed_and_the_other_way_round(world: World) -> None:
    for chosen in (0, 1):
        old, new = memory(f"Ana keeps a {CANARY} {chosen}."), memory(f"Ana keeps a {CANARY} called Bob {chosen}.")
        apart = memory(f"Number {chosen} sails often.")
        change = Supersession(old_id=old.id, old_version=1, new_id=new.id, until=MORNING)
        await remember(world.db, ANA, old, apart)
        await remember(world.db, ANA, new)
        await operate(world.db, ANA, lambda tx, one=change: memories.supersede(tx, [one]))  # type: ignore[misc]
        assert {*await erase(world.db, (old, new)[chosen].id)} == {old.id, new.id}
        assert world.states(old.id, new.id, apart.id) == ["purged", "purged", "active"]
    assert world.places() == set()


async def test_a_dry_run_tells_what_goes_and_what_stays_and_the_act_does_that(world: World) -> None:
    hers, his = message(f"I keep a {CANARY}"), message(f"Ana keeps a {CANARY}", user="bo")
    own = memory(f"Ana keeps a {CANARY}.", sources=[hers, his])
    shared = replace(crews(f"Ana keeps a {CANARY} for all.", his), actor_id="bo")
    await form(world.db, CREW, [hers, his], own, shared, also=["user:bo"])
    before = world.superuser.execute("select count(*) from mnemic.history").fetchone()
    with scripted_model() as model:
        async with scripted_memory(world.clone, model) as memory_service:
            told_first = await memory_service.privacy.erase(CREW, own.id, dry_run=True)
            assert [(item.id, item.content) for item in told_first.going] == [
                (own.id, own.content),
                (hers.id, hers.content),
            ]
            assert {(item.id, item.content, item.stays) for item in told_first.staying} == {
                (his.id, None, "said by another"),
                (shared.id, shared.content, "shared"),
            }
            assert world.superuser.execute("select count(*) from mnemic.history").fetchone() == before
            assert world.superuser.execute("select count(*) from mnemic.erasures").fetchone() == (0,)
            whole = await memory_service.privacy.erase_person(CREW, dry_run=True)
            assert {item.id for item in whole.going} == {own.id, hers.id}
            done = await memory_service.privacy.erase(CREW, own.id)
            assert (done.erased, done.messages) == ((own.id,), 1)
            assert world.states(own.id, shared.id) == ["purged", "active"]
            assert world.told([hers, his]) == [his]
