"""After random histories the erasure of one memory that shows a canary leaves it nowhere: with controls."""

import random
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import LiteralString
from uuid import UUID

import pytest

from mnemic.memory.runtime.principal import Principal
from mnemic.state.errors import MnemicError
from mnemic.state.identity import Identity
from mnemic.state.records import Memory, Message, NewMemory, Supersession
from mnemic.storage import erasure, history, memories
from mnemic.storage.database import Database
from mnemic.storage.transaction import ScopedTransaction
from tests.faults.test_erasure_canaries import dumped
from tests.support.erasing import form_within, problems
from tests.support.mutating import mutate
from tests.support.rollbacks import undo
from tests.support.server import Clone
from tests.support.worlds import MORNING, identity, memory, message

pytestmark = pytest.mark.thorough

KEY = "user:ana"
OWN = [KEY, "session:s1"]
#: None of them is a word of another, and each text has several.
PLACES = ("harbor", "bridge", "market", "station", "garden", "tower", "museum", "school")
_SHOWN: LiteralString = """
select distinct m.id, m.kind from memories m
  join history h on h.agent_id = m.agent_id and h.memory_id = m.id
  join history_contents c on c.agent_id = h.agent_id and c.revision = h.revision
 where m.agent_id = %(agent_id)s and c::text like %(canary)s order by m.id"""


def canary_of(number: int) -> str:
    """Letters alone, for the text index keeps them as they are."""
    return "quok" + "".join("abcdefghij"[int(digit)] for digit in f"{number:03}") + "zz"


@dataclass
class History:
    """One agent, whose operations the product's own statements write."""

    db: Database
    number: int
    #: Whether what is said again becomes a source, as formation has it.
    ties_repeats: bool = True
    said: int = 0
    texts: int = 0
    done: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.random = random.Random(self.number)
        self.canary = canary_of(self.number)
        self.who: Identity = identity(agent=f"agent-{self.number}", session="s1")

    async def play(self, steps: int) -> None:
        """Plants the canary as a fact and as a thought that is consolidated; then whatever comes."""
        said = self._message()
        await self._formed(memory(self._text(), sources=[said]), said=said)
        await self._consolidate()
        for _ in range(steps):
            act = self.random.choice(
                [self._repeat, self._repeat, self._update, self._contradict, self._forget, self._undo, self._undo]
            )
            self.done.append(act.__name__)
            with suppress(MnemicError):  # what is refused leaves nothing
                await act()

    async def chosen(self) -> list[UUID]:
        """One of the facts that show the canary, now or in their history, and the thought."""
        async with self.db.transaction(self.who) as tx:
            shown = await tx.tuples(_SHOWN, {"canary": f"%{self.canary}%"})
        by_kind = [[entry for entry, kind in shown if kind == wanted] for wanted in ("fact", "reflection")]
        return [self.random.choice(ids) for ids in by_kind if ids]

    async def listed(self) -> Sequence[Memory]:
        async with self.db.transaction(self.who) as tx:
            return await memories.list_memories(
                tx, ["fact", "reflection", "consolidation"], limit=1000, with_closed=True
            )

    def _text(self, canary: bool = True) -> str:
        here, there = self.random.sample(PLACES, 2)
        self.texts += 1  # none is the twin of another
        what = f"a {self.canary}" if canary else "birds"
        return f"Ana keeps {what} between the {here} and the {there}, {self.texts} times."

    def _message(self) -> Message:
        """It says not all of what the memory says, nor the same as another one."""
        self.said += 1
        return message(f"Number {self.said}: as I told you, my {self.canary}")

    async def _formed(
        self, *new: NewMemory, said: Message, also: Callable[[ScopedTransaction], Awaitable[object]] | None = None
    ) -> None:
        """An operation of a formation."""
        async with self.db.transaction(self.who) as tx:
            await form_within(tx, [said], *new)
            if also:
                await also(tx)

    async def _consolidate(self) -> None:
        said = self._message()
        thought, calm = memory(self._text(), kind="reflection", sources=[said]), memory("Calm.", kind="reflection")
        whole = memory(f"Calm. {self._text()}", kind="consolidation")
        taken = [thought.id, calm.id]
        await self._formed(thought, calm, whole, said=said, also=lambda tx: memories.absorb(tx, whole.id, taken))

    async def _living(self) -> Memory | None:
        """A living fact that shows the canary."""
        shown = [entry for entry in await self.listed() if self.canary in entry.content and entry.kind == "fact"]
        living = sorted((entry for entry in shown if entry.state == "active"), key=lambda entry: entry.id)
        return self.random.choice(living) if living else None

    async def _repeat(self) -> None:
        said = self._message()
        known = await self._living()
        if known and self.ties_repeats:
            pair = [(known.id, said.id)]
            await self._formed(said=said, also=lambda tx: memories.add_sources(tx, pair))
        elif known:
            await self._formed(said=said)

    async def _update(self) -> None:
        await self._replace(self._text())

    async def _contradict(self) -> None:
        await self._replace(self._text(canary=False))

    async def _replace(self, text: str) -> None:
        if old := await self._living():
            said = self._message()
            new = memory(text, sources=[said] if self.canary in text else [])
            change = Supersession(old_id=old.id, old_version=old.version, new_id=new.id, until=MORNING)
            if self.canary not in text:
                said = message(f"Number {self.said}")
            await self._formed(new, said=said, also=lambda tx: memories.supersede(tx, [change]))

    async def _forget(self) -> None:
        if known := await self._living():
            async with self.db.transaction(self.who) as tx:
                await tx.begin_operation("forget")
                await memories.forget(tx, known)

    async def _undo(self) -> None:
        async with self.db.transaction(self.who) as tx:
            found = await history.list_operations(tx, OWN, session_id=None, since=None, limit=6)
        op_id = self.random.choice(found).id
        await undo(Principal(self.db, self.who, (*OWN,)), op_id, cascade=True, skip_erased=True)


async def histories(db: Database, many: int, *, ties_repeats: bool = True) -> list[History]:
    played = [History(db, number, ties_repeats=ties_repeats) for number in range(many)]
    for entry in played:
        await entry.play(14)
        await erasure.erase(db, entry.who, OWN, await entry.chosen())
    return played


def shown(clone: Clone, played: list[History]) -> list[str]:
    dump = dumped(clone)
    return [entry.canary for entry in played if entry.canary in dump]


@pytest.mark.parametrize("many", [15, pytest.param(200, marks=pytest.mark.slow)])
async def test_after_any_history_nothing_is_left_of_what_was_erased(db: Database, clean_db: Clone, many: int) -> None:
    played = await histories(db, many)
    left = shown(clean_db, played)
    assert left == [], {entry.canary: entry.done for entry in played if entry.canary in left}
    others: list[Memory] = []
    for entry in played[:: max(1, many // 10)]:
        listed: list[Memory] = [*await entry.listed()]
        assert not [item for item in listed if entry.canary in item.content]
        others += [item for item in listed if item.scope_key == KEY and item.state == "active"]
        assert problems(clean_db, entry.who.agent_id) == []
    assert others  # what shares no word with it stays


async def test_where_nothing_ties_repeats_to_what_they_repeat_canaries_are_left(db: Database, clean_db: Clone) -> None:
    assert shown(clean_db, await histories(db, 12, ties_repeats=False))


#: What is erased, what it came from and what it went into: each rule is needed.
RULES = {
    "no lineage": ("related_memories", "k.id = k.origin or o.words && t.words or", "k.id = k.origin or false and"),
    "nothing it came from": ("related_memories", "select source_memories(p_agent, e.id) union", ""),
    "nothing it went into": ("related_memories", "select derived_memories(p_agent, array[k.id]) union", ""),
}  # fmt: skip


@pytest.mark.parametrize("rule", RULES)
async def test_each_rule_of_the_lineage_is_needed(fresh_db: Clone, rule: str) -> None:
    function, text, wrong = RULES[rule]
    with fresh_db.as_superuser() as superuser:
        mutate(superuser, function, text, wrong)
    async with fresh_db.database() as db:
        assert shown(fresh_db, await histories(db, 15))
