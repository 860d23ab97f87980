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
from mnemic.state.records import Memory, Supersession
from mnemic.state.settings import Settings
from mnemic.storage import inbox, memories, scopes
from mnemic.storage.database import Database
from mnemic.storage.transaction import ScopedTransaction
from tests.faults.chaos import deadlocks, storm
from tests.support.audited import assert_chain_is_whole
from tests.support.mutating import open_beside_the_head
from tests.support.server import Clone, see_deadlocks_quickly
from tests.support.worlds import AGENT, MODEL, MORNING, direction, identity, memory, message

pytestmark = pytest.mark.thorough

WORKERS = 8
USERS = 3
EVERYBODY = [f"user:u{user}" for user in range(USERS)]
#: Few sentences, so that several writers often store the same ones.
SENTENCES = [f"The ferry leaves from quay {number}." for number in range(12)]


class Harbour:
    """An agent whose few users, group and session are written to by everybody at once."""

    def __init__(self, db: Database, admin: psycopg.AsyncConnection) -> None:
        self.db, self.admin = db, admin
        self.ends: Counter[str] = Counter()
        self.people = [identity(f"u{user}", groups=["crew"], session="s1") for user in range(USERS)]
        self.said = [message(sentence, user=f"u{place % USERS}") for place, sentence in enumerate(SENTENCES)]
        self.acts = [self.save, self.save, self.consolidate, self.protect, self.weigh, self.weigh]

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
            memory(chance.choice(SENTENCES), key=chance.choice(who.scope_keys[:3]), sources=chance.sample(self.said, 1))
            for _ in range(3)
        ]
        thought = memory(f"{who.user_id} is at sea {uuid.uuid4()}.", kind="reflection", key=f"user:{who.user_id}")

        async def act(scoped: ScopedTransaction) -> None:
            await scoped.begin_operation("formation")
            vectors = {item.id: direction(chance.uniform(0, 90)) for item in new}
            await memories.insert(scoped, [*new, thought], model=MODEL, vectors=vectors, run_id=None)
            closing = [Supersession(old_id=item.id, old_version=item.version, new_id=thought.id) for item in old]
            if closing:
                await memories.supersede(scoped, [(change, MORNING) for change in closing])
            await inbox.forget_later(scoped, [said.id for said in chance.sample(self.said, 4)], timedelta(0))
            await inbox.forget_due(scoped)
            await scopes.touch(scoped, who.scope_keys)

        await self.db.write(who, act)

    async def consolidate(self, who: Identity, chance: Random) -> None:
        """Everybody's reflections of one user go into that user's text."""
        key = f"user:{who.user_id}"
        async with self.db.scoped(who) as scoped:
            texts = await memories.living(scoped, ["consolidation"], most=20)
            waiting = [item for item in await memories.living(scoped, ["reflection"], most=4) if item.scope_key == key]
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
        await memories.absorb(scoped, text_id, [item.id for item in waiting])
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

    async def protect(self, who: Identity, chance: Random) -> None:
        """An administrator protects a fact, or lifts the protection."""
        async with self.db.scoped(who) as scoped:
            known = await memories.living(scoped, ["fact"], most=20)
        item = chance.choice(known)
        await self.admin.execute(
            "select mnemic.set_protection(%s, %s, %s, 'admin')", (who.agent_id, item.id, not item.protected)
        )


@asynccontextmanager
async def harbour(clone: Clone) -> AsyncIterator[Harbour]:
    """Its people on as many connections as workers, and an administrator on one."""
    see_deadlocks_quickly(clone)
    async with (
        clone.database(Settings(pool_size=WORKERS)) as db,
        await psycopg.AsyncConnection.connect(clone.dsn_of("mnemic_admin"), autocommit=True) as admin,
    ):
        lived = Harbour(db, admin)
        for who in lived.people:  # everybody's first operation, one after the other
            await db.write(who, lambda scoped: inbox.observe(scoped, "s1", lived.said), also=EVERYBODY)
            await lived.save(who, Random(0))
        yield lived


async def test_operations_of_every_kind_meet_no_deadlock(fresh_db: Clone) -> None:
    operations = 500
    async with harbour(fresh_db) as lived:
        await storm(range(operations), lived.act, workers=WORKERS)

    done = {act.__name__ for act in lived.acts}
    assert sum(lived.ends.values()) == operations
    assert min(lived.ends[act] for act in done) > operations / 40
    assert set(lived.ends) <= done | {"ConcurrentChangeError None", "RefusedError 42501"}
    assert deadlocks(fresh_db) == 0
    with fresh_db.as_superuser() as superuser:
        assert_chain_is_whole(superuser, AGENT)


async def test_control_with_the_head_locked_last_the_same_operations_deadlock(fresh_db: Clone) -> None:
    async with harbour(fresh_db) as lived:
        with fresh_db.as_superuser() as superuser:
            open_beside_the_head(superuser)
        await storm(range(300), lived.act, workers=WORKERS)

    assert deadlocks(fresh_db) > 0
