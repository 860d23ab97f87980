"""Many users, few connections, and everything that goes wrong at once: nobody ever sees a row of somebody else."""

import asyncio
import re
import uuid
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from random import Random
from typing import Literal

import psycopg
import pytest

from mnemic.state.errors import DatabaseUnavailableError
from mnemic.state.identity import Identity
from mnemic.state.query import MemoryQuery
from mnemic.state.records import IndexedText, ScopeSettings
from mnemic.state.settings import Settings
from mnemic.storage import database, history, inbox, memories, scopes
from mnemic.storage.database import Database
from mnemic.storage.transaction import ScopedTransaction
from tests.faults.chaos import assert_pool_is_whole, storm
from tests.support.asking import searched
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
_TOKEN = re.compile(r"t[0-9a-f]{32}")
_EVERYTHING = """
select agent_id || '|' || scope_key from memories
union select agent_id || '|' || scope_key from messages
union select agent_id || '|' || scope_key from entries
union select agent_id || '|' || scope_key from history
union select agent_id || '|' || scope_key from scopes
union select agent_id || '|session:' || session_id from sessions
"""


class UpsetError(Exception):
    """What goes wrong in a caller's own code."""


@dataclass(frozen=True)
class Deed:
    """One planned transaction."""

    who: Identity
    acts: tuple[str, ...]
    fault: Fault
    #: Whose memory or session is asked for, which is often somebody else's.
    whose: Identity
    #: What it writes is known by this.
    token: str
    #: Seconds until a `cut` one is cancelled, wherever it is; counted from the connection on if it is let in.
    patience: float
    is_let_in: bool


def plan(count: int, seed: int) -> list[Deed]:
    """So many transactions; the same ones for the same seed."""
    chance = Random(seed)
    return [_deed(chance) for _ in range(count)]


def _deed(chance: Random) -> Deed:
    who = chance.choice(PEOPLE)
    return Deed(
        who=who,
        acts=tuple(chance.choices([*READS, "write"], [2] * len(READS) + [3], k=2)),
        fault=chance.choices(list(FAULTS), list(FAULTS.values()))[0],
        whose=chance.choice([who, chance.choice(PEOPLE)]),
        token=f"t{chance.getrandbits(128):032x}",
        patience=chance.uniform(0, 0.004),
        is_let_in=chance.random() < 0.5,
    )


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
    committed: set[str] = field(default_factory=set)
    rolled_back: set[str] = field(default_factory=set)

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
            self._roll_back(deed, "error")
        except TimeoutError:
            # a cut one may have been in its COMMIT, whose fate nobody knows then
            if deed.fault == "timeout" or not entered:
                self._roll_back(deed, "timeout" if entered else "cut while waiting")
            else:
                self.ends["cut within"] += 1
        except DatabaseUnavailableError as error:
            self._roll_back(deed, f"SQL state {error.sqlstate}")
        else:
            self.committed |= {deed.token} if "write" in deed.acts and deed.fault != "forgotten" else set()
            self.ends["forgotten" if deed.fault == "forgotten" else "committed"] += 1

    def _roll_back(self, deed: Deed, end: str) -> None:
        self.rolled_back.add(deed.token)
        self.ends[end] += 1

    async def _transact(self, deed: Deed, entered: list[bool], limit: asyncio.Timeout | None = None) -> None:
        async with self.db.scoped(deed.who) as scoped:
            entered.append(True)
            if limit and deed.is_let_in:
                limit.reschedule(asyncio.get_running_loop().time() + deed.patience)
            first, second = deed.acts
            self._check(deed.who, await _act(first, scoped, deed))
            await self._fail(deed.fault, scoped)
            self._check(deed.who, await _act(second, scoped, deed))

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
        deed = Deed(who, (), "none", who, _first_token(who), 0, False)
        async with db.scoped(who) as scoped:
            await _write(scoped, deed)
            for key in who.scope_keys:
                await scopes.configure_scope(scoped, ScopeSettings(scope_key=key, name=f"{who.agent_id}|{key}"))


def _first_token(who: Identity) -> str:
    return f"t{PEOPLE.index(who):032x}"


def _memory_id(who: Identity, key: str, token: str) -> uuid.UUID:
    """The id of what somebody wrote, so that others can ask for it."""
    return uuid.uuid5(uuid.NAMESPACE_OID, f"{who.agent_id} {key} {token}")


def tokens_in(superuser: psycopg.Connection) -> set[str]:
    """What has been stored, looked at from behind the policies."""
    rows = superuser.execute(
        "select content from mnemic.memories union all select content from mnemic.messages"
    ).fetchall()
    return {token for (content,) in rows for token in _TOKEN.findall(content or "")}


async def _act(name: str, scoped: ScopedTransaction, deed: Deed) -> Iterable[str]:
    if name == "write":
        await _write(scoped, deed)
        return ()
    return await READS[name](scoped, deed)


async def _write(scoped: ScopedTransaction, deed: Deed) -> None:
    """A fact or reflection in every scope key, and a message; each names its owner."""
    who = deed.who
    said = message(
        f"The ferry of {who.agent_id}|user:{who.user_id} leaves. {deed.token}",
        session=who.session_id or "",
        user=who.user_id,
    )
    new = [
        replace(
            memory(f"The ferry of {who.agent_id}|{key} leaves. {deed.token}", key=key, sources=[said]),
            id=_memory_id(who, key, deed.token),
            kind="reflection" if key.startswith("session") else "fact",
        )
        for key in who.scope_keys
    ]
    vectors = {one.id: direction(place) for place, one in enumerate(new)}
    await inbox.observe(scoped, said.session_id, [said])
    await scoped.begin_operation("formation")
    await memories.insert(scoped, new, model=MODEL, vectors=vectors, run_id=None)
    text = IndexedText(item_id=said.id, text=said.content, vector=direction(5))
    await inbox.index_messages(scoped, MODEL, [text])


async def _standing(scoped: ScopedTransaction, _: Deed) -> list[str]:
    return [part.text for part in (await memories.standing(scoped)).scopes]


async def _history(scoped: ScopedTransaction, deed: Deed) -> list[str]:
    """The history of somebody's first memory, which is often somebody else's."""
    whose = deed.whose
    events = await history.of_memory(scoped, _memory_id(whose, f"user:{whose.user_id}", _first_token(whose)))
    return [f"{event.before} {event.after}" for event in events]


async def _everything(scoped: ScopedTransaction, _: Deed) -> list[str]:
    """Every table without any condition: the policies alone."""
    return [row[0] for row in await (await scoped.execute(_EVERYTHING, {})).fetchall()]


async def _search(scoped: ScopedTransaction, _: Deed) -> list[str]:
    request = MemoryQuery(query="Which ferry leaves?", search_type="hybrid", top_k=10)
    return [found.content for found in await searched(scoped, request, direction(0), ["profile", "message"])]


READS: dict[str, Callable[[ScopedTransaction, Deed], Awaitable[list[str]]]] = {
    "standing": _standing,
    "history": _history,
    "everything": _everything,
    "search": _search,
}


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


def assert_as_promised(lived: Town) -> None:
    stored = tokens_in(lived.superuser)
    assert lived.foreign == []
    assert lived.committed <= stored
    assert not lived.rolled_back & stored


@pytest.mark.parametrize("transactions", [1000, SLOW])
async def test_eight_tasks_on_three_connections_see_no_foreign_row(fresh_db: Clone, transactions: int) -> None:
    async with town(fresh_db) as lived:
        await settle_in(lived.db)
        deeds = plan(transactions, seed=1)
        await storm(deeds, lived.live)

        assert_as_promised(lived)
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
            assert_as_promised(lived)
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
