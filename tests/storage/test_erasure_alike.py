"""What says the same as an erased memory goes with it; a dry run tells the same beforehand, and what stays."""

import psycopg

from mnemic.state.records import Message, NewMemory, Supersession
from mnemic.storage import inbox, memories, scopes
from mnemic.storage.database import Database
from tests.support.erasing import ANA, CANARY, erase, form, places, problems, states, told
from tests.support.scripted import scripted_memory, scripted_model
from tests.support.server import Clone
from tests.support.worlds import MORNING, identity, memory, message, operate, remember

CREW = identity(groups=["crew"], session="s1")


def crews(content: str, *sources: Message) -> NewMemory:
    return memory(content, key="group:crew", sources=sources)


async def test_messages_that_say_the_same_go_formed_or_not(
    db: Database, clean_db: Clone, superuser: psycopg.Connection
) -> None:
    said, echo = message(f"I keep a {CANARY}"), message(f"You keep a {CANARY}?", user=None, role="assistant")
    again, other = message(f"Well, I keep one {CANARY} at home", session="s2"), message("I keep bees")
    kept = memory(f"Ana keeps a {CANARY}.", sources=[said])
    await form(db, ANA, [said, echo, other], kept)
    await form(db, identity(session="s2"), [again])
    waiting = [message(f"I keep a {CANARY}, did you know?", session="s3"), message("Yes", session="s3")]
    async with db.scoped(identity(session="s3")) as scoped:
        await scopes.enter_agent(scoped)
        await inbox.observe(scoped, "s3", waiting)
        await inbox.set_aside(scoped, [waiting[0].id])
    assert await erase(db, kept.id) == [kept.id]
    assert told(superuser, [said, echo, again, other, *waiting]) == [other, waiting[1]]
    assert places(superuser) == set()
    assert problems(clean_db) == []


async def test_what_was_drawn_from_the_same_message_goes_even_after_the_message_went(
    db: Database, clean_db: Clone, superuser: psycopg.Connection
) -> None:
    said = message(f"I am well, and keep a {CANARY}")
    well, kept = memory("Ana is well.", sources=[said]), memory(f"Ana keeps a {CANARY}.", sources=[said])
    drawn = memory(f"Ana is calm since she keeps a {CANARY}.", kind="reflection", sources=[said])
    await form(db, ANA, [said], well, kept, drawn)
    assert await erase(db, well.id) == [well.id]
    assert {*await erase(db, kept.id)} == {kept.id, drawn.id}
    assert places(superuser) == set()
    assert problems(clean_db) == []


async def test_an_update_goes_with_what_it_renewed_and_the_other_way_round(
    db: Database, clean_db: Clone, superuser: psycopg.Connection
) -> None:
    for chosen in (0, 1):
        old, new = memory(f"Ana keeps a {CANARY} {chosen}."), memory(f"Ana keeps a {CANARY} called Bob {chosen}.")
        apart = memory(f"Number {chosen} sails often.")
        change = Supersession(old_id=old.id, old_version=1, new_id=new.id)
        await remember(db, ANA, old, apart)
        await remember(db, ANA, new)
        await operate(db, ANA, lambda scoped, one=change: memories.supersede(scoped, [(one, MORNING)]))  # type: ignore[misc]
        assert {*await erase(db, (old, new)[chosen].id)} == {old.id, new.id}
        assert states(superuser, old.id, new.id, apart.id) == ["purged", "purged", "active"]
    assert places(superuser) == set()
    assert problems(clean_db) == []


async def test_a_dry_run_tells_what_goes_and_what_stays_and_the_act_does_that(
    db: Database, clean_db: Clone, superuser: psycopg.Connection
) -> None:
    hers, his = message(f"I keep a {CANARY}"), message(f"Ana keeps a {CANARY}", user="bo")
    own, shared = memory(f"Ana keeps a {CANARY}.", sources=[hers, his]), crews(f"Ana keeps a {CANARY} for all.", his)
    await form(db, CREW, [hers, his], own, shared, also=["user:bo"])
    before = superuser.execute("select count(*) from mnemic.history").fetchone()
    with scripted_model() as model:
        async with scripted_memory(clean_db, model) as memory_service:
            told_first = await memory_service.erase(CREW, own.id, dry_run=True)
            assert [(one.id, one.content) for one in told_first.going] == [
                (own.id, own.content),
                (hers.id, hers.content),
            ]
            assert {(one.id, one.content, one.stays) for one in told_first.staying} == {
                (his.id, None, "said by another"),
                (shared.id, shared.content, "shared"),
            }
            assert superuser.execute("select count(*) from mnemic.history").fetchone() == before
            assert superuser.execute("select count(*) from mnemic.erasures").fetchone() == (0,)
            whole = await memory_service.erase_person(CREW, dry_run=True)
            assert {one.id for one in whole.going} == {own.id, hers.id}
            done = await memory_service.erase(CREW, own.id)
            assert (done.erased, done.messages) == ((own.id,), 1)
            assert states(superuser, own.id, shared.id) == ["purged", "active"]
            assert told(superuser, [hers, his]) == [his]
