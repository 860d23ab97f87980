"""What erasing a person takes in every scope key, and what it leaves to others: with a control for each look-up."""

from dataclasses import replace
from functools import partial
from uuid import UUID

import pytest

from mnemic.memory.governance import retention
from mnemic.state.records import Message, NewMemory, Relation, Supersession
from mnemic.storage import erasure, inbox, memories, scopes
from mnemic.storage.database import Database
from tests.support.erasing import ANA, CANARY, Rule, World, assert_is_needed, erase, erase_person, expire, form, places
from tests.support.erasing import world as world
from tests.support.rollbacks import administrator_of
from tests.support.server import Clone
from tests.support.worlds import AGENT, MODEL, MORNING, executing, identity, memory, message, operate, remember, storing

BO = identity("bo", session="s1")
CREW = identity(groups=["crew"], session="s1")


class Shared:
    """A session that Ana and Bo share, one of each alone, and memories of every sort from them."""

    def __init__(self) -> None:
        def said(text: str, user: str | None, session: str = "s1") -> Message:
            return message(f"{text} {CANARY if user != 'bo' else ''}", user=user, session=session,
                           role="user" if user else "assistant")  # fmt: skip

        self.ana, self.to_ana = said("a", "ana"), said("ra", None)
        self.bo, self.to_bo = said("b", "bo"), message("rb", user=None, role="assistant")
        self.pending = said("later", "ana")
        self.alone = [said("hello", None, "s2"), said("alone", "ana", "s2"), said("yes", None, "s2")]
        self.bos_alone = message("Well", user="bo", session="s3")
        crew = "group:crew"
        self.going = {
            "own": memory(f"own {CANARY}", sources=[self.ana]),
            "own without a source": memory(f"bare {CANARY}", kind="core"),
            "about them, said by another": memory(f"about {CANARY}", key=crew, subject_user="ana", sources=[self.bo]),
            "said for the group": memory(f"told {CANARY}", key=crew, sources=[self.ana]),
            "from the answer to them": memory(
                f"answer {CANARY}", kind="reflection", key="session:s1", sources=[self.to_ana]
            ),
            "from both of them": memory(f"both {CANARY}", key="user:bo", sources=[self.bo, self.ana]),
            "the episode of a run that read them": memory(f"ep {CANARY}", kind="episode", key=crew, sources=[self.bo]),
            "taken in": memory(f"reflection {CANARY}", kind="reflection", key=crew, sources=[self.ana]),
            "what took it in": memory(f"text {CANARY}", kind="consolidation", key=crew),
            "what replaced it": memory(f"merged {CANARY}", key=crew, sources=[self.bo]),
            "of their session": memory(f"alone {CANARY}", kind="reflection", key="session:s2", sources=[self.alone[2]]),
            "remembered in their name": memory(f"asked {CANARY}", key="agent:harbor"),
        }
        self.staying = {
            "another's own": memory("Bo sails.", key="user:bo", sources=[self.bo]),
            "said by another for the group": memory("Berth 12 is free.", key=crew, sources=[self.bo]),
            "another's, taken in": memory("Bo is calm.", kind="reflection", key=crew, sources=[self.bo]),
            "another's episode": memory("Bo was well.", kind="episode", key="user:bo", sources=[self.bos_alone]),
            "remembered by another": memory("The office closes at noon.", key="agent:harbor"),
            "remembered by them for another": memory("Bo likes tea.", key="user:bo"),
        }
        for name, item in self.staying.items():
            if item.scope_key == crew:
                self.staying[name] = replace(item, actor_id="bo")

    async def stored(self, db: Database) -> "Shared":
        ana, bo = (identity(user, groups=["crew"], session="s1") for user in ("ana", "bo"))
        explicit = ("remembered in their name", "remembered by another", "remembered by them for another")
        formed = {**self.going, **self.staying}
        last = formed.pop("another's episode")
        merged = formed.pop("what replaced it")
        asked = [formed.pop(name) for name in explicit]
        await form(db, identity(session="s2"), self.alone, formed.pop("of their session"))
        said = [self.ana, self.to_ana, self.bo, self.to_bo]
        await form(db, ana, said, *formed.values(), also=["user:bo"])
        await form(db, identity("bo", session="s3"), [self.bos_alone], last)
        await remember(db, bo, merged)
        taken = [formed[name].id for name in ("taken in", "another's, taken in")]
        closing = Supersession(old_id=formed["said for the group"].id, old_version=1, new_id=merged.id, until=MORNING)
        await operate(db, ana, lambda tx: memories.absorb(tx, formed["what took it in"].id, taken))
        await operate(db, bo, lambda tx: memories.supersede(tx, [closing]))
        by_ana = bo.model_copy(update={"actor_id": "ana"})
        for who, new in zip((ana, bo, by_ana), asked, strict=True):
            async with db.transaction(who) as tx:
                await tx.begin_operation("remember")
                await memories.insert(tx, [new], model=MODEL, vectors={}, run_id=None)
        async with db.transaction(ana) as tx:
            await inbox.observe(tx, "s1", [self.pending])
            name = "insert into scopes (agent_id, scope_key, name, extraction_guidance) values"
            for key in ("user:ana", "group:crew"):
                text = CANARY[: 6 if "ana" in key else 3]
                await tx.execute(f"{name} ('harbor', '{key}', '{text}', '{text}')", {})
        return self


async def test_erasing_a_person_takes_what_is_theirs_and_leaves_what_others_said(world: World) -> None:
    shared = await Shared().stored(world.db)
    elsewhere = memory("Ana paints.")
    await remember(world.db, identity(agent="museum"), elsewhere)
    gone = await erase_person(world.db)
    assert {name for name, item in shared.going.items() if item.id in gone} == {*shared.going}
    assert gone == {item.id for item in shared.going.values()}
    assert world.states(*(item.id for item in shared.staying.values())) == ["active"] * len(shared.staying)
    theirs = [shared.ana, shared.to_ana, shared.pending, *shared.alone]
    assert world.told([*theirs, shared.bo, shared.to_bo, shared.bos_alone]) == [
        shared.bo,
        shared.to_bo,
        shared.bos_alone,
    ]
    assert world.places() == set()
    names = world.superuser.execute("select scope_key, name from mnemic.scopes where name is not null").fetchall()
    assert names == [("group:crew", "quo")]
    assert world.superuser.execute("select content from mnemic.memories where agent_id = 'museum'").fetchone() == (
        "Ana paints.",
    )
    assert await erase_person(world.db) == set()


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["messages_of_person", "memories_of_person", "derived_memories"])
async def test_each_look_up_of_what_is_a_persons_is_needed(fresh_db: Clone, name: str) -> None:
    bodies = {
        "messages_of_person": (
            "select id, session_id, false from messages where agent_id = p_agent and user_id = p_user"
        ),
        "memories_of_person": (
            "select memory_id from messages_of_person(p_agent, p_user) s join sources on message_id = s.id"
        ),
        "derived_memories": "select unnest(p_memories)",
    }
    with fresh_db.as_superuser() as superuser:
        row = superuser.execute(f"select pg_get_functiondef('mnemic.{name}'::regproc)".encode()).fetchone()
        assert row
        head = row[0].partition("AS $function$")[0]
        superuser.execute(f"{head} AS $function$ {bodies[name]} $function$".encode())
        async with fresh_db.database() as db:
            await Shared().stored(db)
            await erase_person(db)
        assert places(superuser) > set()


async def test_a_pending_message_of_an_erased_person_is_nobodys_work(world: World) -> None:
    hers, his = message(f"I have a {CANARY}"), message("I sail.", user="bo")
    async with world.db.transaction(BO, also=["user:ana"]) as tx:
        await scopes.ensure_agent(tx)
        await inbox.observe(tx, "s1", [hers, his])
        await inbox.quarantine(tx, [hers.id])
    await erase_person(world.db)
    async with world.db.transaction(BO) as tx:
        box = await inbox.read_inbox(tx, "s1", limit=10)
    assert ([item.id for item in box.messages], box.pending, box.quarantined) == ([his.id], 1, 0)
    async with world.db.transaction(ANA) as tx:  # the host sends all of it again, and one new message
        new = message("Good morning")
        observed = await inbox.observe(tx, "s1", [hers, new])
        box = await inbox.read_inbox(tx, "s1", limit=10)
    assert (observed.accepted, [item.id for item in box.messages]) == (1, [his.id, new.id])
    assert world.places() == set()


@pytest.mark.parametrize("before", [True, False], ids=["parts of it first", "at once"])
async def test_derivatives_of_words_go_whether_or_not_parts_went_before(world: World, before: bool) -> None:
    """What rests on the same message, a consolidation, and a fact that was merged from an older one."""
    hers, his = [message(f"a {CANARY} {n}") for n in range(3)], message("b", user="bo")
    own, crews = memory("own", sources=hers[:1]), memory(f"told {CANARY}", key="group:crew", sources=hers[:1])
    thought = memory("told everything plainly", kind="reflection", key="session:s1", sources=hers[1:2])
    from_his = memory("from b", kind="reflection", key="session:s1", sources=[his])
    whole = memory(f"whole {CANARY}", kind="consolidation", key="session:s1")
    old = memory(f"old {CANARY}", key="group:crew", sources=hers[2:])
    merged = replace(memory(f"merged {CANARY}", key="group:crew", sources=[his]), actor_id="bo")
    beside = replace(memory("Berth 12 is free.", key="group:crew", sources=[his]), actor_id="bo")
    await form(world.db, CREW, [*hers, his], own, crews, thought, from_his, old, also=["user:bo"])
    taken = [thought.id, from_his.id]
    await operate(world.db, CREW, storing(whole), lambda tx: memories.absorb(tx, whole.id, taken))
    closing = Supersession(old_id=old.id, old_version=1, new_id=merged.id, until=MORNING)
    await operate(world.db, CREW, storing(merged), lambda tx: memories.supersede(tx, [closing]))
    await operate(world.db, CREW, storing(beside))
    if before:
        await erase(world.db, own.id, thought.id)
        expire(world.superuser, old.id)
        async with administrator_of(world.clone, AGENT) as office:
            await retention.purge(office, 0)
        assert world.states(own.id, thought.id, old.id) == ["purged"] * 3
        assert world.states(crews.id, whole.id, merged.id) == ["active"] * 3
    await erase_person(world.db)
    going = (own, thought, old, crews, whole, merged)
    assert world.states(*(item.id for item in going)) == ["purged"] * 6
    assert world.states(from_his.id, beside.id) == ["active", "active"]
    assert world.places() == set()


async def test_memory_another_user_wrote_in_a_session_of_the_person_stays(world: World) -> None:
    """A session that both may enter, and in which the other one said nothing."""
    hers = message(f"a {CANARY}", session="s9")
    formed = memory(f"own {CANARY}", kind="reflection", key="session:s9", sources=[hers])
    await form(world.db, identity(session="s9").model_copy(update={"members": ("bo",)}), [hers], formed)
    bos, anas = (
        replace(memory(f"{key} likes tea", key=key), source_session_id="s9") for key in ("user:bo", "user:ana")
    )
    for user, new in (("bo", bos), ("ana", anas)):
        await operate(
            world.db, identity(user, session="s9").model_copy(update={"members": ("ana", "bo")}), storing(new)
        )
    await erase_person(world.db)
    assert world.states(formed.id, anas.id, bos.id) == ["purged", "purged", "active"]
    assert world.places() == set()


class Quoted:
    """Ana, Bo, and then the assistant, which quotes Ana to Bo; and what was formed from each."""

    def __init__(self) -> None:
        self.hers = message(f"I keep a {CANARY} in the shed. Good morning to you all!")
        self.plain = message("The blue door sticks in winter.")
        self.his = message("What did Ana say?", user="bo")
        self.quote = message(f"Ana told us that she keeps a {CANARY} in her shed.", user=None, role="assistant")
        self.again = message("She said that the blue door sticks in winter", user=None, role="assistant")
        self.other = message("Good morning, Bo! The ferry leaves at nine.", user=None, role="assistant")
        self.own = memory(f"Ana keeps a {CANARY} in the shed.", sources=[self.hers])
        self.from_quote = memory(f"Bo asked about a {CANARY}.", key="user:bo", sources=[self.his, self.quote])
        self.from_other = memory("Bo takes the ferry at nine.", key="user:bo", sources=[self.his, self.other])

    async def stored(self, db: Database) -> "Quoted":
        said = [self.hers, self.plain, self.his, self.quote, self.again, self.other]
        await form(db, ANA, said, self.own, self.from_quote, self.from_other, also=["user:bo"])
        return self


async def test_words_of_a_person_go_from_answers_to_others_and_their_derivatives(world: World) -> None:
    quoted = await Quoted().stored(world.db)
    assert await erase_person(world.db) == {quoted.own.id, quoted.from_quote.id}
    said = [quoted.hers, quoted.plain, quoted.his, quoted.quote, quoted.again, quoted.other]
    assert world.told(said) == [quoted.his, quoted.other]
    assert world.states(quoted.from_other.id) == ["active"]
    assert world.places() == set()


@pytest.mark.parametrize("stored", [Quoted, Shared])
async def test_erasing_a_person_reaches_all_that_erasing_each_id_reaches(
    world: World, stored: type[Quoted | Shared]
) -> None:
    await stored().stored(world.db)
    items = world.superuser.execute(
        "select id from mnemic.messages where user_id = 'ana' union select id from mnemic.memories"
    ).fetchall()
    whole = {item.id for item in (await erasure.preview(world.db, CREW, ["user:ana"], None)).going}
    by_id: set[UUID] = set()
    for (item,) in items:
        by_id |= {gone.id for gone in (await erasure.preview(world.db, CREW, ["user:ana"], [item])).going}
    assert len(by_id) > len(whole) / 2
    assert by_id <= whole


async def test_message_goes_with_its_memories_and_their_derivatives(world: World) -> None:
    """And with the record that a pair with it was judged, which holds the person's id."""
    said, other = message(f"I keep a {CANARY} in the shed."), message("I paint.")
    fact, paints = memory(f"Ana keeps a {CANARY}.", sources=[said]), memory("Ana paints.", sources=[other])
    await form(world.db, ANA, [said, other], fact, paints)

    def insight(text: str, of: NewMemory) -> NewMemory:
        drawn = Relation(to_id=of.id, strength=1.0, relation_type="drawn_from")
        return replace(memory(text, kind="insight"), relations=(drawn,))

    gone, stays = insight("She likes company.", fact), insight("She likes colours.", paints)
    from_words = memory("She likes sheds.", kind="insight", sources=[said])
    await remember(world.db, ANA, gone, stays, from_words)
    judged = "insert into checked_pairs (agent_id, scope_key, fingerprint, earlier_id, later_id) values"
    await operate(
        world.db,
        ANA,
        executing(f"{judged} ('harbor', 'user:ana', gen_random_uuid(), '{fact.id}', '{paints.id}')"),
        executing(f"{judged} ('harbor', 'user:ana', gen_random_uuid(), '{stays.id}', '{paints.id}')"),
    )

    assert {*await erase(world.db, said.id)} == {said.id, fact.id, gone.id, from_words.id}

    pairs = "select earlier_id from mnemic.checked_pairs"
    assert world.superuser.execute(pairs).fetchall() == [(stays.id,)]
    assert world.states(stays.id, paints.id) == ["active", "active"]
    await erase_person(world.db)
    assert world.superuser.execute(pairs).fetchall() == []


_WITH_SOURCES = (
    "delete from sources where agent_id = p_agent and (memory_id = any(p_memories) or message_id = any(p_messages));"
    " delete from memory_use"
)
_OWN = "and (m.scope_key not like 'user:%' or m.scope_key = 'user:' || p_user)\n"
_PARTS_FIRST = partial(test_derivatives_of_words_go_whether_or_not_parts_went_before, before=True)
#: A rule about what is tied to a person.
RULES: dict[str, Rule] = {
    "sources stay": (_PARTS_FIRST, "erase_contents", "delete from memory_use", _WITH_SOURCES),
    "what was taken in tells of what took it": (
        _PARTS_FIRST, "derived_memories", "in ('ABSORB', 'SUPERSEDE')", "= 'SUPERSEDE'",
    ),
    "what was replaced tells of what replaced it": (
        _PARTS_FIRST, "derived_memories", "(h).event = 'SUPERSEDE'", "false",
    ),
    "answers to others are looked through": (
        test_words_of_a_person_go_from_answers_to_others_and_their_derivatives,
        "plan_quotations", "not e.is_whole or", "true or",
    ),
    "insights have a lineage": (
        test_message_goes_with_its_memories_and_their_derivatives,
        "drawn_from", "r.relation_type = 'drawn_from'", "false",
    ),
    "a message by its id reaches what rests on it": (
        test_message_goes_with_its_memories_and_their_derivatives,
        "plan_erasure", "message_id = any(named)", "false",
    ),
    "pairs that were judged are forgotten": (
        test_message_goes_with_its_memories_and_their_derivatives,
        "erase_contents", "(earlier_id = any(p_memories) or later_id = any(p_memories))", "false",
    ),
    "what others remembered stays theirs": (
        test_memory_another_user_wrote_in_a_session_of_the_person_stays,
        "memories_of_person", _OWN, "\n",
    ),
}  # fmt: skip


@pytest.mark.thorough
@pytest.mark.parametrize("rule", RULES)
async def test_each_rule_about_what_is_tied_to_a_person_is_needed(fresh_db: Clone, rule: str) -> None:
    await assert_is_needed(fresh_db, RULES[rule], match="purged|UUID")
