"""Operations of every kind at once, and no deadlock: whoever writes memories locks the agent's head first."""

import uuid
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from random import Random

import psycopg
import pytest

from mnemic.state.errors import MnemicError
from mnemic.state.identity import Identity
from mnemic.state.kinds import Usage
from mnemic.state.records import Memory, Message, ScopeSettings, Supersession
from mnemic.state.settings import Settings
from mnemic.storage import inbox, memories, scopes
from mnemic.storage.database import Database
from mnemic.storage.transaction import ScopedTransaction
from tests.faults.chaos import deadlocks, storm
from tests.support.chain import assert_chain_is_whole
from tests.support.deadlocks import see_deadlocks_quickly
from tests.support.mutating import open_beside_the_head
from tests.support.server import Clone
from tests.support.worlds import MODEL, MORNING, direction, identity, memory, message

pytestmark = pytest.mark.thorough

WORKERS = 8
USERS = 3
#: Few sentences, so that several writers often store the same ones.
SENTENCES = [f"The ferry leaves from quay {number}." for number in range(12)]


class Harbour:
    """Agents whose few users, group and session are written to by everybody at once."""

    def __init__(self, db: Database, admin: psycopg.AsyncConnection, agents: int) -> None:
        self.db, self.admin = db, admin
        self.ends: Counter[str] = Counter()
        self.people = [
            identity(f"u{user}", agent=f"agent{agent}", groups=["crew"], session="s1")
            for agent in range(agents)
            for user in range(USERS)
        ]
        self._said = {
            who.agent_id: [message(sentence, user=f"u{place % USERS}") for place, sentence in enumerate(SENTENCES)]
            for who in self.people
        }
        self.acts = [self.save, self.save, self.save, self.consolidate, self.consolidate, self.observe, self.configure,
                      self.spend, self.protect, self.weigh, self.weigh]  # fmt: skip

    async def settle_in(self) -> None:
        """Everybody's first operation, one after the other."""
        for who in self.people:
            await self._observe(who, self._said[who.agent_id])
            await self.save(who, Random(0))

    async def act(self, seed: int) -> None:
        """One operation; what it was read on may have changed meanwhile, or somebody may have protected it."""
        chance = Random(seed)
        act = chance.choice(self.acts)
        try:
            await act(chance.choice(self.people), chance)
        except (MnemicError, psycopg.Error) as error:
            self.ends[f"{type(error).__name__} {error.sqlstate}"] += 1
        else:
            self.ends[act.__name__] += 1

    async def save(self, who: Identity, chance: Random) -> None:
        """Facts and a reflection in random order of scope keys, two facts closed, messages settled and indexed."""
        async with self.db.scoped(who) as scoped:
            known = await memories.living(scoped, ["fact"], most=20)
        old = [fact for fact in chance.sample(known, min(2, len(known))) if not fact.protected]
        new = [
            memory(chance.choice(SENTENCES), key=chance.choice(who.scope_keys[:3]), sources=self._some(who, chance, 1))
            for _ in range(3)
        ]
        thought = memory(f"{who.user_id} is at sea {uuid.uuid4()}.", kind="reflection", key=f"user:{who.user_id}")

        async def act(scoped: ScopedTransaction) -> None:
            await scoped.begin_operation("formation")
            vectors = {one.id: direction(chance.uniform(0, 90)) for one in new}
            await memories.insert(scoped, [*new, thought], model=MODEL, vectors=vectors, run_id=None)
            closing = [Supersession(old_id=one.id, old_version=one.version, new_id=thought.id) for one in old]
            if closing:
                await memories.supersede(scoped, [(change, MORNING) for change in closing])
            await inbox.forget_later(scoped, [one.id for one in self._some(who, chance, 4)], timedelta(0))
            await inbox.forget_due(scoped)
            await scopes.touch(scoped, who.scope_keys)

        await self.db.write(who, act)

    async def consolidate(self, who: Identity, chance: Random) -> None:
        """Everybody's reflections of one user go into that user's text."""
        key = f"user:{who.user_id}"
        async with self.db.scoped(who) as scoped:
            texts = await memories.living(scoped, ["consolidation"], most=20)
            waiting = [one for one in await memories.living(scoped, ["reflection"], most=4) if one.scope_key == key]
        await self.db.write(who, lambda scoped: self._absorb(scoped, key, texts, waiting))

    async def _absorb(self, scoped: ScopedTransaction, key: str, texts: list[Memory], waiting: list[Memory]) -> None:
        await scoped.begin_operation("consolidation")
        text = f"All is well {uuid.uuid4()}."
        if texts:
            await memories.rewrite_consolidation(scoped, texts[0], text)
            text_id = texts[0].id
        else:
            first = memory(text, kind="consolidation", key=key)
            await memories.insert(scoped, [first], model="", vectors={}, run_id=None)
            text_id = first.id
        await memories.absorb(scoped, text_id, [one.id for one in waiting])
        await scopes.touch(scoped, [key], consolidated=True)

    async def weigh(self, who: Identity, chance: Random) -> None:
        """One operation of two statements, on facts in any order: what a whole save does in one."""
        async with self.db.scoped(who) as scoped:
            known = await memories.living(scoped, ["fact"], most=20)
        chosen = [fact.id for fact in chance.sample(known, min(2, len(known))) if not fact.protected]

        async def act(scoped: ScopedTransaction) -> None:
            await scoped.begin_operation("weighing")
            for fact_id in chosen:
                await scoped.execute(
                    "update memories set importance = 6 - importance where agent_id = %(agent_id)s and id = %(id)s",
                    {"id": fact_id},
                )

        await self.db.write(who, act)

    async def observe(self, who: Identity, chance: Random) -> None:
        """Overlapping lists of the same session, each in an order of its own."""
        await self._observe(who, self._some(who, chance, 8))

    async def _observe(self, who: Identity, said: list[Message]) -> None:
        keys = [one.scope_key for one in said]
        await self.db.write(who, lambda scoped: inbox.observe(scoped, "s1", said), also=keys)

    async def configure(self, who: Identity, chance: Random) -> None:
        """Settings of a scope key, or of the agent."""
        own = ScopeSettings(scope_key=chance.choice(who.scope_keys), threshold=chance.randint(1, 9))
        if chance.random() < 0.5:
            await self.db.write(who, lambda scoped: scopes.configure_scope(scoped, own))
        else:
            await self.db.write(who, lambda scoped: scopes.configure_agent(scoped, {"rag": True}))

    async def spend(self, who: Identity, chance: Random) -> None:
        """Tokens of one step."""
        spent = Usage(step=chance.choice(["decide", "extract_facts"]), model="m", calls=1)
        await self.db.write(who, lambda scoped: scopes.record_usage(scoped, spent))

    async def protect(self, who: Identity, chance: Random) -> None:
        """An administrator protects a fact, or lifts the protection."""
        async with self.db.scoped(who) as scoped:
            known = await memories.living(scoped, ["fact"], most=20)
        one = chance.choice(known)
        await self.admin.execute(
            "select mnemic.set_protection(%s, %s, %s, 'admin')", (who.agent_id, one.id, not one.protected)
        )

    def _some(self, who: Identity, chance: Random, count: int) -> list[Message]:
        return chance.sample(self._said[who.agent_id], count)


@asynccontextmanager
async def harbour(clone: Clone, agents: int) -> AsyncIterator[Harbour]:
    """Its people on as many connections as workers, and an administrator on one."""
    see_deadlocks_quickly(clone)
    async with (
        clone.database(Settings(pool_size=WORKERS)) as db,
        await psycopg.AsyncConnection.connect(clone.dsn_of("mnemic_admin"), autocommit=True) as admin,
    ):
        yield Harbour(db, admin, agents)


@pytest.mark.parametrize(
    ("operations", "agents"),
    [(500, 1), *[pytest.param(2000, agents, marks=pytest.mark.slow) for agents in (1, 3)]],
)
async def test_operations_of_every_kind_meet_no_deadlock(fresh_db: Clone, operations: int, agents: int) -> None:
    async with harbour(fresh_db, agents) as lived:
        await lived.settle_in()
        await storm(range(operations), lived.act, workers=WORKERS)

    done = {act.__name__ for act in lived.acts}
    assert sum(lived.ends.values()) == operations
    assert min(lived.ends[act] for act in done) > operations / 40
    assert set(lived.ends) <= done | {"ConcurrentChangeError None", "RefusedError 42501"}
    assert deadlocks(fresh_db) == 0
    with fresh_db.as_superuser() as superuser:
        for agent in range(agents):
            assert_chain_is_whole(superuser, f"agent{agent}")


async def test_control_with_the_head_locked_last_the_same_operations_deadlock(fresh_db: Clone) -> None:
    async with harbour(fresh_db, 1) as lived:
        await lived.settle_in()
        with fresh_db.as_superuser() as superuser:
            open_beside_the_head(superuser)
        await storm(range(300), lived.act, workers=WORKERS)

    assert deadlocks(fresh_db) > 0
