"""A real agent and its model side by side: what is done to one is done to the other, and all of both is compared."""

from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeVar
from uuid import UUID

from mnemic.state.records import Memory, NewMemory
from mnemic.storage import memories
from mnemic.storage.transaction import ScopedTransaction
from tests.support.machine_agent import NOW, Entry, Real, added
from tests.support.machine_past import Done, Past, Row, Subject, are_twins, taken_in

Item = TypeVar("Item")
Act = Callable[[ScopedTransaction], Awaitable[object]]
After = Mapping[Subject, Row | None]


def same(what: str, real: object, model: object) -> None:
    """Fails with a name that tells which promise was broken."""
    assert real == model, f"{what}: {real!r} instead of {model!r}"


def chosen(items: Sequence[Item], number: int) -> Item:
    """0 is the newest."""
    return items[-1 - number % len(items)]


class Pair:
    """The real agent, the model, and the next id."""

    def __init__(self, real: Real) -> None:
        self.real = real
        self.past = Past()
        self._numbers = 0
        real.superuser.execute("insert into mnemic.agents (agent_id) values (%s)", (real.agent,))

    def new_id(self) -> UUID:
        """Ids that grow and do not depend on chance, so that a run can be repeated."""
        self._numbers += 1
        return UUID(int=self._numbers)

    def rows(self, wanted: Callable[[Row], bool]) -> list[Row]:
        return [row for row in self.past.memories().values() if wanted(row)]

    def open(self, key: str, *kinds: str) -> list[Row]:
        """Living memories that the service may change."""
        return self.rows(
            lambda row: (
                row["scope_key"] == key and row["kind"] in kinds and row["state"] == "active" and not row["protected"]
            )
        )

    def read(self, row: Row) -> Memory:
        """As the service reads a memory before it changes it."""
        found = self.real.serve(lambda scoped: memories.find(scoped, row["id"]))
        assert found, "a memory that can be chosen is there"
        return found

    def storable(self, new: Sequence[NewMemory]) -> list[NewMemory]:
        """Those without a living twin, which may be another new one."""
        living = self.rows(lambda row: row["state"] == "active")
        stored = []
        for one in new:
            row = added(one, self.real.who())
            if not any(are_twins(row, other) for other in living):
                living.append(row)
                stored.append(one)
        return stored

    def twins_of(self, row: Row) -> bool:
        """Whether a living memory stands where this one would."""
        return any(are_twins(row, other) for other in self.rows(lambda other: bool(other["state"] == "active")))

    def freed(self, erased: Mapping[Subject, Row]) -> dict[Subject, Row]:
        """What erased memories had taken in stands for itself again, but for what a living memory says."""
        living = self.rows(lambda row: row["state"] == "active" and row["id"] not in erased)
        freed: dict[Subject, Row] = {}
        waiting = taken_in(self.past, erased)
        for row in sorted(self.rows(lambda row: row["id"] in waiting), key=lambda row: str(row["id"])):
            if not any(are_twins(row, other) for other in living):
                freed[row["id"]] = {**row, "state": "active", "absorbed_at": None, "consolidated_into": None}
                living.append(freed[row["id"]])
        return freed

    def operate(
        self,
        reason: str,
        session: str | None,
        after: After,
        acts: Sequence[Act],
        gone: Sequence[UUID] = (),
    ) -> None:
        """One operation of the service, and what the model says of it.

        Args:
            gone: the memories that take what they rest on out of search.
        """

        async def operation(scoped: ScopedTransaction) -> None:
            await scoped.begin_operation(reason)
            for act in acts:
                await act(scoped)

        self.real.serve(operation, session)
        self.done(reason, "agent", session, after, gone=gone)

    def done(
        self,
        reason: str,
        actor_kind: str,
        session: str | None,
        after: After,
        *,
        gone: Sequence[UUID] = (),
        back: Sequence[UUID] = (),
        refinement: UUID | None = None,
        events: Mapping[str, int] | None = None,
    ) -> UUID | None:
        """Writes into the model what the database has to have done, and compares; the operation's id, if it is one.

        Args:
            refinement: the session that all of it is part of.
            events: how often what happens, where that is not told by what changed.
        """
        told = self.real.told(len(self.past.changes))
        same("what changed", {row.subject for row in told}, set(after))
        same("the refinement of what changed", {row.refinement for row in told}, {refinement} if told else set())
        if events is not None:
            same("what happened", Counter(row.event for row in told), Counter(events))
        op_ids = {row.op_id for row in told}
        assert len(op_ids) <= 1, "one operation"
        for op_id in op_ids:
            done = Done(op_id, reason, actor_kind, session, refinement)
            self.past.write(done, self._timed(after), [(row.subject, row.ts) for row in told])
        self.past.hide(gone)
        self.past.show(back)
        self.compare()
        return next(iter(op_ids), None)

    def _timed(self, after: After) -> After:
        real: dict[Any, Row] = {**self.real.memories()[0], **self.real.links()}
        return {
            subject: row and {name: real[subject][name] if value is NOW else value for name, value in row.items()}
            for subject, row in after.items()
        }

    def compare(self) -> None:
        """Rows, versions, relations, entries, sources: all of them, after every step."""
        model = self.past.memories()
        rows, versions = self.real.memories()
        same("memories", rows, model)
        same("versions", versions, {memory_id: self.past.version(memory_id) for memory_id in model})
        same("relations", self.real.links(), self.past.links())
        indexed = {memory_id: row for memory_id, row in model.items() if _has_entry(row)}
        of_memories, of_messages = self.real.entries({memory_id: row["content"] for memory_id, row in indexed.items()})
        searched = {one: Entry(_is_searched(row), True, one in self.past.vectors) for one, row in indexed.items()}
        same("searched memories", of_memories, searched)
        same("searched messages", of_messages, self.past.searched)
        pairs = {(memory_id, said) for memory_id, messages in self.past.sources.items() for said in messages}
        same("sources", self.real.sources(), pairs)


def _has_entry(row: Row) -> bool:
    return row["kind"] in memories.INDEXED and row["state"] != "purged"


def _is_searched(row: Row) -> bool:
    return bool(row["state"] == ("absorbed" if row["kind"] == "reflection" else "active"))
