"""Many users, few connections, and everything that goes wrong at once: nobody ever sees a row of somebody else."""

import asyncio
import re
import uuid
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from random import Random
from typing import Literal

import psycopg
import pytest

from mnemic.state.errors import DatabaseUnavailableError
from mnemic.state.identity import Identity
from mnemic.state.query import MemoryQuery
from mnemic.state.records import IndexedText, ScopeSettings
from mnemic.state.settings import Settings
from mnemic.storage import database, inbox, memories, scopes
from mnemic.storage.database import Database
from mnemic.storage.transaction import ScopedTransaction
from tests.faults.chaos import assert_pool_is_whole, storm
from tests.support.searching import searched
from tests.support.server import Clone
from tests.support.worlds import MODEL, direction, identity, memory, message

pytestmark = pytest.mark.thorough

Fault = Literal["none", "error", "timeout", "cut", "killed", "forgotten"]
#: Per cent of the transactions.
FAULTS: dict[Fault, int] = {"none": 57, "error": 10, "timeout": 10, "cut": 10, "killed": 3, "forgotten": 10}
USERS = 50
PEOPLE = [
    identity(f"u{number:02}", agent=agent, groups=[f"g{number % 5}"], session=f"s{number:02}")
    for number in range(USERS)
    for agent in ("harbor", "museum")
]
#: A mark: agent and scope key of whoever a text belongs to.
_MARK = re.compile(r"(\w+)\|(\w+:\w+)")
_EVERYTHING = """
select agent_id || '|' || scope_key from memories
union select agent_id || '|' || scope_key from messages
union select agent_id || '|' || scope_key from entries
union select agent_id || '|' || scope_key from history
union select agent_id || '|' || scope_key from scopes
union select agent_id || '|session:' || session_id from sessions
"""


#: Reads or writes; returns the texts that came back.
Act = Callable[[ScopedTransaction, Identity], Awaitable[Iterable[str]]]


class UpsetError(Exception):
    """What goes wrong in a caller's own code."""


@dataclass(frozen=True)
class Deed:
    """One planned transaction."""

    who: Identity
    acts: tuple[Act, ...]
    fault: Fault
    #: Seconds until a `cut` one is cancelled, wherever it is; counted from the connection on if it is let in.
    patience: float
    is_let_in: bool


def plan(count: int, seed: int) -> list[Deed]:
    """So many transactions; the same ones for the same seed."""
    chance = Random(seed)
    return [
        Deed(
            who=chance.choice(PEOPLE),
            acts=tuple(chance.choices([_standing, _everything, _search, _write], k=2)),
            fault=chance.choices(list(FAULTS), list(FAULTS.values()))[0],
            patience=chance.uniform(0, 0.004),
            is_let_in=chance.random() < 0.5,
        )
        for _ in range(count)
    ]


@dataclass
class Town:
    """The people on one pool, and what they have seen."""

    db: Database
    #: Ends backends.
    superuser: psycopg.Connection
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
            elif deed.fault == "cut":
                async with asyncio.timeout(None if deed.is_let_in else deed.patience) as limit:
                    await self._transact(deed, entered, limit)
            else:
                await self._transact(deed, entered)
        except UpsetError:
            self.ends["error"] += 1
        except TimeoutError:
            self.ends["timeout" if deed.fault == "timeout" else "cut within" if entered else "cut while waiting"] += 1
        except DatabaseUnavailableError as error:
            self.ends[f"SQL state {error.sqlstate}"] += 1
        else:
            self.ends["forgotten" if deed.fault == "forgotten" else "committed"] += 1

    async def _transact(self, deed: Deed, entered: list[bool], limit: asyncio.Timeout | None = None) -> None:
        async with self.db.scoped(deed.who) as scoped:
            entered.append(True)
            if limit and deed.is_let_in:
                limit.reschedule(asyncio.get_running_loop().time() + deed.patience)
            first, second = deed.acts
            self._check(deed.who, await first(scoped, deed.who))
            await self._fail(deed.fault, scoped)
            self._check(deed.who, await second(scoped, deed.who))

    async def _fail(self, fault: Fault, scoped: ScopedTransaction) -> None:
        if fault == "error":
            raise UpsetError
        if fault == "timeout":
            # short: a cancellation that overtakes its statement goes unheard, and the driver waits for the end then
            async with asyncio.timeout(0.005):
                await scoped.execute("select pg_sleep(0.1)", {})
        if fault == "killed":
            self.superuser.execute("select pg_terminate_backend(%s)", (scoped.connection.info.backend_pid,))
            await scoped.execute("select pg_sleep(20)", {})

    async def _forget(self) -> None:
        """A statement of somebody who did not say who is asking, on whatever connection comes next."""
        async with self.db.catalog() as connection:
            rows = await (await connection.execute(_EVERYTHING)).fetchall()
        self.foreign += [row[0] for row in rows]

    def _check(self, who: Identity, texts: Iterable[str]) -> None:
        marks = [mark for text in texts for mark in _MARK.findall(text)]
        self.seen += len(marks)
        self.foreign += [f"{agent}|{key}" for agent, key in marks if agent != who.agent_id or key not in who.scope_keys]


async def settle_in(db: Database) -> None:
    """A first memory, message and name in every scope key."""
    for who in PEOPLE:
        async with db.scoped(who) as scoped:
            await _write(scoped, who)
            for key in who.scope_keys:
                await scopes.configure_scope(scoped, ScopeSettings(scope_key=key, name=f"{who.agent_id}|{key}"))


async def _write(scoped: ScopedTransaction, who: Identity) -> Iterable[str]:
    """A fact or reflection in every scope key, and a message; each names its owner."""
    text = f"leaves for the {uuid.uuid4()}th time."
    own = message(
        f"The ferry of {who.agent_id}|user:{who.user_id} {text}", session=who.session_id or "", user=who.user_id
    )
    new = [
        memory(
            f"The ferry of {who.agent_id}|{key} {text}",
            key=key,
            kind="reflection" if key.startswith("session") else "fact",
            sources=[own],
        )
        for key in who.scope_keys
    ]
    vectors = {item.id: direction(place) for place, item in enumerate(new)}
    await inbox.observe(scoped, own.session_id, [own])
    await scoped.begin_operation("formation")
    await memories.insert(scoped, new, model=MODEL, vectors=vectors, run_id=None)
    await inbox.index_messages(scoped, MODEL, [IndexedText(item_id=own.id, text=own.content, vector=direction(5))])
    return ()


async def _standing(scoped: ScopedTransaction, _: Identity) -> Iterable[str]:
    return [part.text for part in (await memories.standing(scoped)).scopes]


async def _everything(scoped: ScopedTransaction, _: Identity) -> Iterable[str]:
    """Every table without any condition: the policies alone."""
    return [row[0] for row in await (await scoped.execute(_EVERYTHING, {})).fetchall()]


async def _search(scoped: ScopedTransaction, _: Identity) -> Iterable[str]:
    request = MemoryQuery(query="Which ferry leaves?", search_type="hybrid", top_k=10)
    return [found.content for found in await searched(scoped, request, direction(0), ["profile", "message"])]


POOL = 3
KILLED = "SQL state 57P01"
THREADS = 8
#: Half a minute each where it is slow, on a busy machine of two cores.
SLOW = pytest.param(5000, marks=pytest.mark.slow)
SETTINGS = Settings(pool_size=POOL)


@asynccontextmanager
async def town(clone: Clone) -> AsyncIterator[Town]:
    async with clone.database(SETTINGS) as db:
        with clone.as_superuser() as superuser:
            yield Town(db, superuser)


@pytest.mark.parametrize("transactions", [1000, SLOW])
async def test_eight_tasks_on_three_connections_see_no_foreign_row(fresh_db: Clone, transactions: int) -> None:
    async with town(fresh_db) as lived:
        await settle_in(lived.db)
        deeds = plan(transactions, seed=1)
        await storm(deeds, lived.live)

        assert lived.foreign == []
        assert sum(lived.ends.values()) == transactions
        assert lived.seen > 2 * transactions
        # a killed backend costs its own transaction and no other one
        assert 0 < lived.ends[KILLED] <= sum(deed.fault == "killed" for deed in deeds)
        assert min(lived.ends[end] for end in ("error", "timeout", "cut while waiting", "cut within")) > 0
        await assert_pool_is_whole(lived.db, fresh_db, PEOPLE[0], size=POOL)


@pytest.mark.parametrize("transactions", [80, SLOW])
def test_eight_threads_each_with_its_own_pool_see_no_foreign_row(fresh_db: Clone, transactions: int) -> None:
    async def live(seed: int) -> Town:
        async with town(fresh_db) as lived:
            await storm(plan(transactions // THREADS, seed), lived.live)
            await assert_pool_is_whole(lived.db, fresh_db, PEOPLE[0], size=POOL)
            assert lived.foreign == []
            return lived

    async def begin() -> None:
        async with town(fresh_db) as lived:
            await settle_in(lived.db)

    asyncio.run(begin())
    with ThreadPoolExecutor(THREADS) as threads:
        towns = list(threads.map(lambda seed: asyncio.run(live(seed)), range(THREADS)))
    assert sum(sum(lived.ends.values()) for lived in towns) == transactions
    assert sum(lived.seen for lived in towns) > 2 * transactions


@pytest.mark.parametrize("mistake", ["a scope that outlives its transaction", "no policy"])
async def test_control_the_same_storm_shows_foreign_rows_where_isolation_is_broken(
    fresh_db: Clone, monkeypatch: pytest.MonkeyPatch, mistake: str
) -> None:
    if mistake == "no policy":
        with fresh_db.as_superuser() as connection:
            connection.execute("alter table mnemic.memories disable row level security")
    else:
        monkeypatch.setattr(database, "_SCOPE", database._SCOPE.replace("set local", "set session"))
    async with town(fresh_db) as lived:
        await settle_in(lived.db)
        await storm(plan(300, seed=2), lived.live)
    assert len(lived.foreign) > 50
