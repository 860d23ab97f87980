"""A real agent and its model side by side: what is done to one is done to the other, and all of both is compared."""

from asyncio import Runner
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, LiteralString, NamedTuple, TypeVar
from uuid import UUID

import psycopg
from psycopg.rows import dict_row

from mnemic.operations.governance.actor import Actor
from mnemic.state.identity import Identity
from mnemic.state.kinds import Kind
from mnemic.state.records import Memory, Message, NewMemory, Relation
from mnemic.storage import erasure, memories
from mnemic.storage.database import Database
from mnemic.storage.transaction import ScopedTransaction
from tests.support.machine_past import CLOSED, Done, Link, Past, Row, Subject, are_twins
from tests.support.worlds import MORNING, memory

Item = TypeVar("Item")
Result = TypeVar("Result")
Act = Callable[[ScopedTransaction], Awaitable[object]]
After = Mapping[Subject, Row | None]

#: A time that the database sets; the model takes it over.
NOW = object()
#: What the database sets by itself at every change, or once and for all at the first.
AUTOMATIC = ("agent_id", "created_at", "updated_at", "version", "content_hash", "tokens")
_HISTORY: LiteralString = """
select h.seq, coalesce((h.meta ->> 'rollback')::uuid, h.op_id) as op_id, h.event, h.memory_id, h.refinement_id, h.ts,
       h.undo_of, coalesce(c.after, c.before) as contents
  from mnemic.history h left join mnemic.history_contents c using (agent_id, seq)
 where h.agent_id = %(agent)s and h.seq > %(after)s order by h.seq"""
_ENTRIES: LiteralString = """
select e.item_id, e.kind, e.living, e.vec is not null as has_vector,
       e.tsv @@ plainto_tsquery('english', t.content) as says
  from mnemic.entries e left join unnest(%(ids)s::uuid[], %(contents)s::text[]) as t(id, content) on t.id = e.item_id
 where e.agent_id = %(agent)s"""
_SOURCES: LiteralString = "select memory_id, message_id from mnemic.sources where agent_id = %(agent)s"


class Entry(NamedTuple):
    """How a memory is searched: at all, by the words it says, by a vector."""

    is_living: bool
    says: bool
    has_vector: bool


@dataclass(frozen=True)
class Real:
    """One agent of the database. Whatever is not a look behind the policies runs as a role of the product."""

    runner: Runner
    service: Database
    administration: Database
    superuser: psycopg.Connection
    agent: str

    @property
    def keys(self) -> tuple[str, str]:
        return ("user:ana", f"agent:{self.agent}")

    def who(self, session: str | None = "s1") -> Identity:
        return Identity(agent_id=self.agent, user_id="ana", session_id=session)

    def serve(
        self, act: Callable[[ScopedTransaction], Awaitable[Result]], session: str | None = "s1", only: str | None = None
    ) -> Result:
        """In one transaction of the service's role, with one scope key where `only` names it."""

        async def run() -> Result:
            async with self.service.scoped(self.who(session), only=only) as scoped:
                return await act(scoped)

        return self.runner.run(run())

    def administer(self, act: Callable[[ScopedTransaction], Awaitable[Result]]) -> Result:
        """In one transaction of the administrators' role."""
        keeper = Identity(agent_id=self.agent, actor_id="keeper")

        async def run() -> Result:
            async with self.administration.scoped(keeper, administers=True) as scoped:
                return await act(scoped)

        return self.runner.run(run())

    def actor(self, administers: bool) -> Actor:
        if administers:
            return Actor.administrator(self.administration, self.agent, "keeper")
        return Actor.person(self.service, self.who())

    def erase(self, ids: Sequence[UUID]) -> list[UUID]:
        return [*self.runner.run(erasure.erase(self.service, self.who(), ["user:ana"], ids)).erased]

    # -- looks behind the policies

    def _look(self, statement: LiteralString, **values: object) -> list[dict[str, Any]]:
        with self.superuser.cursor(row_factory=dict_row) as cursor:
            return cursor.execute(statement, {"agent": self.agent, **values}).fetchall()

    def told(self, after: int) -> list[dict[str, Any]]:
        """The rows of history after a seq, each with its subject."""
        rows = self._look(_HISTORY, after=after)
        assert [row["seq"] for row in rows] == list(range(after + 1, after + 1 + len(rows))), "history has gaps"
        return [{**row, "subject": _subject(row)} for row in rows]

    def memories(self) -> tuple[dict[UUID, Row], dict[UUID, int]]:
        """Rows without what is automatic, and versions."""
        rows = self._look("select * from mnemic.memories where agent_id = %(agent)s order by id")
        plain: dict[UUID, Row] = {row["id"]: {name: row[name] for name in row if name not in AUTOMATIC} for row in rows}
        return plain, {row["id"]: row["version"] for row in rows}

    def links(self) -> dict[Link, Row]:
        rows = self._look("select * from mnemic.relations where agent_id = %(agent)s")
        return {(row["from_id"], row["to_id"], row["relation_type"]): row for row in rows}

    def entries(self, contents: Mapping[UUID, str]) -> tuple[dict[UUID, Entry], dict[UUID, bool]]:
        """How memories that say this are searched, and which messages are."""
        rows = self._look(_ENTRIES, ids=list(contents), contents=list(contents.values()))
        found = {row["item_id"]: Entry(row["living"], row["says"], row["has_vector"]) for row in rows
                 if row["kind"] != "message"}  # fmt: skip
        return found, {row["item_id"]: row["living"] for row in rows if row["kind"] == "message"}

    def sources(self) -> set[tuple[UUID, UUID]]:
        return {(row["memory_id"], row["message_id"]) for row in self._look(_SOURCES)}


def _subject(row: Mapping[str, Any]) -> Subject:
    if row["event"] == "SESSION":
        return str(row["refinement_id"])
    if row["event"] != "LINK":
        return UUID(str(row["memory_id"]))
    contents = row["contents"]
    return UUID(contents["from_id"]), UUID(contents["to_id"]), contents["relation_type"]


#: What storing a new memory takes from it, and what it leaves open.
_GIVEN = ("id", "kind", "scope_key", "category", "content", "subject", "subject_user_id", "importance", "private",
          "provenance", "valid_from", "source_session_id")  # fmt: skip
_OPEN = (*CLOSED, "tags", "valid_until", "run_id", "import_id")


def added(new: NewMemory, who: Identity) -> Row:
    """The row that storing a new memory makes."""
    row = {name: getattr(new, name) for name in _GIVEN} | dict.fromkeys(_OPEN)
    return row | {"state": "active", "pinned": False, "protected": False, "actor_id": who.actor, "role": who.role}


def linked(
    agent: str, new_id: UUID, scope_key: str, near: Row, relation_type: str = "related_to", strength: float = 0.5
) -> Row:
    """The row that storing a relation of a new memory makes."""
    return {
        "agent_id": agent,
        "from_id": new_id,
        "to_id": near["id"],
        "relation_type": relation_type,
        "strength": strength,
        "scope_key": scope_key,
        "to_scope_key": near["scope_key"],
        "created_at": NOW,
    }


def draft(
    memory_id: UUID,
    kind: Kind,
    key: str,
    content: str,
    sent: Sequence[Message] = (),
    relations: tuple[Relation, ...] = (),
) -> NewMemory:
    """A new memory with an id that is known beforehand."""
    return replace(
        memory(content, kind=kind, key=key, sources=sent, valid_from=MORNING - timedelta(hours=memory_id.int % 5)),
        id=memory_id,
        relations=relations,
        importance=1 + memory_id.int % 4,
        source_session_id="s1" if memory_id.int % 2 else None,
    )


def numbered(message: Message, number: int) -> Message:
    """The message with an id that sorts as the number does."""
    return replace(message, id=UUID(int=number))


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
        for item in new:
            row = added(item, self.real.who())
            if not any(are_twins(row, other) for other in living):
                living.append(row)
                stored.append(item)
        return stored

    def twins_of(self, row: Row) -> bool:
        """Whether a living memory stands where this one would."""
        return any(are_twins(row, other) for other in self.rows(lambda other: bool(other["state"] == "active")))

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
        self.done(reason, after, gone=gone)

    def done(
        self,
        reason: str,
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
        same("what changed", {row["subject"] for row in told}, set(after))
        same("the refinement of what changed", {row["refinement_id"] for row in told}, {refinement} if told else set())
        if events is not None:
            same("what happened", Counter(row["event"] for row in told), Counter(events))
        op_ids = {row["op_id"] for row in told}
        assert len(op_ids) <= 1, "one operation"
        for op_id in op_ids:
            done = Done(op_id, reason, refinement)
            self.past.write(done, self._timed(after), [(row["subject"], row["ts"]) for row in told])
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
        searched = {item: Entry(_is_searched(row), True, item in self.past.vectors) for item, row in indexed.items()}
        same("searched memories", of_memories, searched)
        same("searched messages", of_messages, self.past.searched)
        pairs = {(memory_id, sent) for memory_id, messages in self.past.sources.items() for sent in messages}
        same("sources", self.real.sources(), pairs)


def _has_entry(row: Row) -> bool:
    return row["kind"] in memories.INDEXED and row["state"] != "purged"


def _is_searched(row: Row) -> bool:
    return bool(row["state"] == ("absorbed" if row["kind"] == "reflection" else "active"))
