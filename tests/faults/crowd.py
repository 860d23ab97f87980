"""One crowd on few connections that reads, writes, consolidates and fails all at once."""

import asyncio
import itertools
import re
import uuid
from collections import Counter
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from random import Random

import psycopg

from mnemic.state.errors import MnemicError
from mnemic.state.identity import Identity
from mnemic.state.query import MemoryQuery
from mnemic.state.records import IndexedText, Memory, ScopeSettings, Supersession
from mnemic.state.settings import Settings
from mnemic.storage import inbox, memories, scopes
from mnemic.storage.database import Database
from mnemic.storage.transaction import ScopedTransaction
from tests.support.searching import searched
from tests.support.server import Clone
from tests.support.worlds import MODEL, MORNING, direction, identity, memory, message

WORKERS = 10
POOL = 6
AGENTS = ("harbor", "museum")
PEOPLE = [
    identity(f"u{number}", agent=agent, groups=[f"g{number % 2}"], session=f"s{number}")
    for number in range(4)
    for agent in AGENTS
]
#: Per cent of the transactions.
FAULTS = {"none": 79, "error": 4, "timeout": 4, "cut": 8, "killed": 1, "forgotten": 4}
#: A mark: agent and scope key of whoever a text belongs to.
_MARK = re.compile(r"(\w+)\|(\w+:\w+)")
#: What a reflection is known by, in the text that has absorbed it too.
TOKEN = re.compile(r"\bk\d+\b")
_EVERYTHING = """
select agent_id || '|' || scope_key from memories
union select agent_id || '|' || scope_key from messages
union select agent_id || '|' || scope_key from entries
union select agent_id || '|' || scope_key from history
union select agent_id || '|' || scope_key from scopes
union select agent_id || '|session:' || session_id from sessions
"""


# -- who does what: each reads, and then changes something, and says what it has seen


async def _standing(tx: ScopedTransaction) -> Iterable[str]:
    return [part.text for part in (await memories.read_context(tx)).scopes]


async def _everything(tx: ScopedTransaction) -> Iterable[str]:
    """Every table without any condition: the policies alone."""
    return [row[0] for row in await (await tx.execute(_EVERYTHING, {})).fetchall()]


async def _search(tx: ScopedTransaction) -> Iterable[str]:
    request = MemoryQuery(query="Which ferry leaves?", search_type="hybrid", top_k=10)
    return [found.content for found in await searched(tx, request, direction(0), ["profile", "message"])]


READS = (_standing, _everything, _search)


class UpsetError(Exception):
    """What goes wrong in a caller's own code."""


@dataclass(frozen=True)
class Deed:
    """One planned transaction."""

    who: Identity
    act: str
    fault: str
    #: Seconds until a `cut` one is cancelled, wherever it is; counted from the connection on if it is let in.
    patience: float
    is_let_in: bool
    chance: Random


def plan(count: int, seed: int) -> list[Deed]:
    """So many transactions; the same ones for the same seed."""
    chance = Random(seed)
    return [
        Deed(
            who=chance.choice(PEOPLE),
            act=chance.choices(["save", "consolidate", "weigh", "protect"], [3, 3, 2, 1])[0],
            fault=chance.choices(list(FAULTS), list(FAULTS.values()))[0],
            patience=chance.uniform(0, 0.01),
            is_let_in=chance.random() < 0.5,
            chance=Random(chance.random()),
        )
        for _ in range(count)
    ]


@dataclass
class Crowd:
    """The people on one pool, and what they have seen."""

    db: Database
    #: Ends backends, and protects facts as an administrator does.
    superuser: psycopg.Connection
    tokens: Iterable[int] = field(default_factory=itertools.count)
    #: Texts that came back, those among them of others, and every transaction by its end.
    seen: int = 0
    foreign: list[str] = field(default_factory=list)
    ends: Counter[str] = field(default_factory=Counter)

    async def live(self, deed: Deed) -> None:
        """One transaction, with its fault; whatever is not expected of it is raised."""
        entered: list[bool] = []
        try:
            if deed.fault == "forgotten":
                await self._forget()
            else:
                is_cut = deed.fault == "cut"
                async with asyncio.timeout(deed.patience if is_cut and not deed.is_let_in else None) as limit:
                    await self._transact(deed, entered, limit if is_cut and deed.is_let_in else None)
        except UpsetError:
            self.ends["error"] += 1
        except TimeoutError:
            self.ends["timeout" if deed.fault == "timeout" else "cut within" if entered else "cut while waiting"] += 1
        except (MnemicError, psycopg.Error) as error:
            self.ends[f"{type(error).__name__} {error.sqlstate}"] += 1
        else:
            self.ends["forgotten" if deed.fault == "forgotten" else deed.act] += 1

    async def _transact(self, deed: Deed, entered: list[bool], limit: asyncio.Timeout | None) -> None:
        async with self.db.transaction(deed.who) as tx:
            entered.append(True)
            if limit:
                limit.reschedule(asyncio.get_running_loop().time() + deed.patience)
            self._check(deed.who, await deed.chance.choice(READS)(tx))
            known = await memories.list_memories(tx, ["fact"], limit=20)
            await self._fail(deed, tx)
            await getattr(self, deed.act)(tx, deed, known)

    async def _fail(self, deed: Deed, tx: ScopedTransaction) -> None:
        if deed.fault == "error":
            raise UpsetError
        if deed.fault == "timeout":
            # short: a cancellation that overtakes its statement goes unheard, and the driver waits for the end then
            async with asyncio.timeout(0.005):
                await tx.execute("select pg_sleep(0.1)", {})
        if deed.fault == "killed":
            self.superuser.execute("select pg_terminate_backend(%s)", (tx.connection.info.backend_pid,))
            await tx.execute("select pg_sleep(20)", {})

    async def _forget(self) -> None:
        """A statement of somebody who did not say who is asking, on whatever connection comes next."""
        async with self.db.catalog() as connection:
            rows = await (await connection.execute(_EVERYTHING)).fetchall()
        self.foreign += [row[0] for row in rows]

    def _check(self, who: Identity, texts: Iterable[str]) -> None:
        marks = [mark for text in texts for mark in _MARK.findall(text)]
        self.seen += len(marks)
        self.foreign += [f"{agent}|{key}" for agent, key in marks if agent != who.agent_id or key not in who.scope_keys]

    async def save(self, tx: ScopedTransaction, deed: Deed, known: list[Memory]) -> None:
        """Facts that others store too, a reflection and a message; two known facts are closed."""
        who, chance = deed.who, deed.chance
        own = message(f"The ferry of {who.agent_id}|user:{who.user_id} leaves {uuid.uuid4()}.",
                      session=who.session_id or "", user=who.user_id)  # fmt: skip
        facts = [
            memory(f"The ferry of {who.agent_id}|{key} leaves from quay {chance.randrange(3)}.", key=key, sources=[own])
            for key in chance.sample(who.scope_keys[:3], 3)
        ]
        key = who.scope_keys[0]
        thought = memory(f"Said of {who.agent_id}|{key}: k{next(iter(self.tokens))}.", kind="reflection", key=key)
        await tx.begin_operation("formation")
        await inbox.observe(tx, own.session_id, [own])
        vectors = {item.id: direction(chance.uniform(0, 90)) for item in facts}
        await memories.insert(tx, [*facts, thought], model=MODEL, vectors=vectors, run_id=None)
        closing = [Supersession(old_id=old.id, old_version=old.version, new_id=thought.id, until=MORNING)
                   for old in chance.sample(known, min(2, len(known))) if not old.protected]  # fmt: skip
        await memories.supersede(tx, closing)
        await asyncio.sleep(chance.uniform(0, 0.01))
        await inbox.index_messages(tx, MODEL, [IndexedText(item_id=own.id, text=own.content, vector=direction(5))])

    async def consolidate(self, tx: ScopedTransaction, deed: Deed, known: list[Memory]) -> None:
        """All reflections of the agent go into one text, after a moment in which others may have been faster."""
        key = deed.who.scope_keys[0]
        texts, waiting = [
            [item for item in await memories.list_memories(tx, [kind], limit=50) if item.scope_key == key]
            for kind in ("consolidation", "reflection")
        ]
        await asyncio.sleep(deed.chance.choice((0, 0, 0.02, 0.4)))
        tokens = [token for item in (*texts, *waiting) for token in TOKEN.findall(item.content)]
        text = memory(f"Of {deed.who.agent_id}|{key}: {' '.join(tokens)}.", kind="consolidation", key=key)
        await tx.begin_operation("consolidation")
        if texts:
            await memories.rewrite(tx, texts[0], text.content)
        elif not await memories.insert(tx, [text], model="", vectors={}, run_id=None):
            return  # somebody else wrote the first one
        await memories.absorb(tx, texts[0].id if texts else text.id, [item.id for item in waiting])

    async def weigh(self, tx: ScopedTransaction, deed: Deed, known: list[Memory]) -> None:
        """One operation of some statements, on facts in any order: what a whole save does in one."""
        await tx.begin_operation("weighing")
        for fact in deed.chance.sample(known, min(3, len(known))):
            await asyncio.sleep(0.005)
            await tx.execute(
                "update memories set importance = 6 - importance"
                " where agent_id = %(agent_id)s and id = %(id)s and not protected",
                {"id": fact.id},
            )

    async def protect(self, tx: ScopedTransaction, deed: Deed, known: list[Memory]) -> None:
        """An administrator protects a fact, or lifts the protection."""
        fact = deed.chance.choice(known)
        async with await psycopg.AsyncConnection.connect(self.superuser.info.dsn, autocommit=True) as admin:
            await admin.execute("set role mnemic_admin")
            await admin.execute(
                "select mnemic.set_protection(%s, %s, %s, 'admin')", (deed.who.agent_id, fact.id, not fact.protected)
            )


async def settle_in(crowd: Crowd) -> None:
    """First memories, a message and names in every scope key."""
    for deed in plan(40, seed=0):
        async with crowd.db.transaction(deed.who) as tx:
            await crowd.save(tx, deed, [])
    for who in PEOPLE:
        async with crowd.db.transaction(who) as tx:
            for key in who.scope_keys:
                await scopes.configure_scope(tx, ScopeSettings(scope_key=key, name=f"{who.agent_id}|{key}"))


@asynccontextmanager
async def crowd_on(clone: Clone) -> AsyncIterator[Crowd]:
    async with clone.database(Settings(pool_size=POOL)) as db:
        with clone.as_superuser() as superuser:
            yield Crowd(db, superuser)


async def storm(deeds: Iterable[Deed], crowd: Crowd) -> None:
    """The crowd lives through every deed, so many at a time; the first error that it lets pass ends the storm."""
    waiting = iter(deeds)

    async def work() -> None:
        for deed in waiting:
            await crowd.live(deed)

    async with asyncio.TaskGroup() as group:
        for _ in range(WORKERS):
            group.create_task(work())
