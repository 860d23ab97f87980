"""480 changes by eight writers at once, of which sessions are told meanwhile: none is missed, none is told twice."""

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field

import pytest

from mnemic.policy.recall.delta import MOST_BULLETS
from mnemic.service.memory import Mnemic
from mnemic.state.identity import Identity
from mnemic.state.records import NewMemory, Supersession
from mnemic.state.settings import Settings
from mnemic.storage import memories, opening, revisions
from mnemic.storage.database import Database
from mnemic.storage.transaction import ScopedTransaction
from tests.faults.chaos import storm, worsen
from tests.support.mutating import open_beside_the_head
from tests.support.scripted import scripted_memory, scripted_model
from tests.support.server import Clone
from tests.support.worlds import MORNING, identity, memory

pytestmark = pytest.mark.thorough

WRITERS = 8
#: Of six changes each that the readers may see: 480 in all.
ROUNDS = 10
READERS = [identity("ana", groups=["crew"], session=f"reader{number}") for number in range(2)]
KEYS = ("agent:harbor", "group:crew", "user:ana")
#: The audit without the head's lock: seqs come from a sequence, in whatever order the transactions commit.
_UNLOCKED = """
create sequence mnemic.loose;
grant usage on sequence mnemic.loose to mnemic_owner;
do $do$
declare
    recording text := pg_get_functiondef('mnemic.record_history'::regproc);
begin
    recording := replace(recording, 'h.seq := h.seq + 1;', 'h.seq := nextval(''mnemic.loose'');');
    execute replace(recording, 'update heads set seq = h.seq, hash = h.hash where agent_id = h.agent_id;', '');
end $do$;
"""

Act = Callable[[ScopedTransaction], Awaitable[object]]


@dataclass
class Reader:
    """A session that asks for its context again and again, and passes on what it was told."""

    memory: Mnemic
    who: Identity
    told: Counter[int] = field(default_factory=Counter)
    #: Bullets of each header.
    bullets: list[int] = field(default_factory=list)

    async def poll(self) -> None:
        recalled = await self.memory.recall(self.who)
        assert recalled["degraded"] is None
        self.told.update(update["seq"] for update in recalled["updates"])
        header = recalled["context"].partition("<Updates")[2].partition("</Updates>")[0]
        self.bullets.append(header.count("\n- "))
        await self.memory.observe(self.who, [], revision=recalled["revision"])

    async def read(self, writing: "asyncio.Task[None]") -> None:
        while not writing.done():
            await self.poll()
        await self.poll()


@asynccontextmanager
async def two_readers(clone: Clone) -> AsyncIterator[list[Reader]]:
    """Two sessions of two services, as two processes would have them."""
    with scripted_model() as model:
        async with AsyncExitStack() as stack:
            services = [scripted_memory(clone, model, embedder="hash") for _ in READERS]
            yield [
                Reader(await stack.enter_async_context(service), who)
                for service, who in zip(services, READERS, strict=True)
            ]


@dataclass
class Writer:
    """One of eight, who stores, supersedes and absorbs, with a pause before each commit."""

    db: Database
    number: int

    def __post_init__(self) -> None:
        self.who = identity("ana", groups=["crew"], session=f"writer{self.number}")
        self.chance = random.Random(self.number)

    async def write(self, rounds: int) -> None:
        for turn in range(rounds):
            key = self.chance.choice(KEYS)
            old, new, other = (memory(f"Fact {self.number}.{turn}.{n}.", key=key) for n in range(3))
            thought = memory(f"Thought {self.number}.{turn}.", key=key, kind="reflection")
            foreign = memory(f"Ben's {self.number}.{turn}.", key="user:ben")
            closing = Supersession(old_id=old.id, old_version=1, new_id=new.id)
            await self.operate(stored(old, thought), stored(foreign))
            await self.operate(stored(new, other), superseded(closing))
            await self.operate(absorbed(thought, by=other))

    async def operate(self, *acts: Act) -> None:
        async def operation(scoped: ScopedTransaction) -> None:
            await scoped.begin_operation("formation")
            for act in acts:
                await act(scoped)
                await asyncio.sleep(self.chance.uniform(0, 0.004))

        await self.db.write(self.who, operation, also=["user:ben"])


def stored(*new: NewMemory) -> Act:
    return lambda scoped: memories.insert(scoped, new, model="", vectors={}, run_id=None)


def superseded(closing: Supersession) -> Act:
    return lambda scoped: memories.supersede(scoped, [(closing, MORNING)])


def absorbed(thought: NewMemory, *, by: NewMemory) -> Act:
    return lambda scoped: memories.absorb(scoped, by.id, [thought.id])


async def watched(clone: Clone, rounds: int = 4) -> tuple[list[Reader], set[int]]:
    """The storm, watched by both readers; and the seqs that they should have been told of."""
    async with two_readers(clone) as readers, clone.database(Settings(pool_size=WRITERS)) as db:
        async with db.scoped(READERS[0]) as scoped:
            await scoped.execute("insert into agents (agent_id) values (%(agent_id)s)", {})
        for reader in readers:
            await reader.poll()
        writers = [Writer(db, number) for number in range(WRITERS)]
        writing = asyncio.create_task(storm(writers, lambda writer: writer.write(rounds), workers=WRITERS))
        await asyncio.gather(*(reader.read(writing) for reader in readers))
        await writing
    with clone.as_superuser() as connection:
        rows = connection.execute("select seq from mnemic.history where scope_key = any(%s)", (list(KEYS),)).fetchall()
    return readers, {seq for (seq,) in rows}


def wrong(readers: list[Reader], happened: set[int]) -> tuple[int, int]:
    """How many changes a reader missed, and was told of twice."""
    missed = sum(len(happened - set(reader.told)) for reader in readers)
    repeated = sum(count > 1 for reader in readers for count in reader.told.values())
    return missed, repeated


async def test_each_of_480_changes_is_told_once_to_each_session(fresh_db: Clone) -> None:
    readers, happened = await watched(fresh_db, ROUNDS)

    assert len(happened) == 480
    for reader in readers:
        assert reader.told == Counter(happened)
        assert len(reader.bullets) > 20
        assert max(reader.bullets) == MOST_BULLETS
    assert wrong(readers, happened) == (0, 0)


async def _unchecked(database: Database) -> None:
    """A start that looks at nothing."""


async def test_control_without_the_heads_lock_some_are_missed(fresh_db: Clone, monkeypatch: pytest.MonkeyPatch) -> None:
    with fresh_db.as_superuser() as connection:
        open_beside_the_head(connection, lock="")
        connection.execute(_UNLOCKED)
    monkeypatch.setattr(opening, "require_sound", _unchecked)  # which refuses such functions
    worsen(
        monkeypatch,
        revisions,
        changes=("select h.seq as head", "select (select max(seq) from history) as head"),
        advance=("coalesce(max(seq), 0) as seq from heads", "coalesce(max(seq), 0) as seq from history"),
    )
    assert wrong(*await watched(fresh_db))[0] > 0


async def test_control_with_a_cursor_that_lags_by_one_some_are_told_twice(
    fresh_db: Clone, monkeypatch: pytest.MonkeyPatch
) -> None:
    worsen(monkeypatch, revisions, changes=("h.seq > told.seen_seq", "h.seq >= told.seen_seq"))
    assert wrong(*await watched(fresh_db))[1] > 0
