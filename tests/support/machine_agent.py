"""A real agent whose memories the state machine changes, and all that the tests compare of it with the model."""

from asyncio import Runner
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, LiteralString, NamedTuple, TypeVar
from uuid import UUID

import psycopg
from psycopg.rows import dict_row

from mnemic.operations.governance import rollback
from mnemic.operations.governance.actor import Actor
from mnemic.state.governance import PastMemory, Rollback, RollbackOptions
from mnemic.state.identity import Identity
from mnemic.state.kinds import Kind
from mnemic.state.records import Memory, Message, NewMemory, Relation
from mnemic.storage import erasure, time_machine
from mnemic.storage.database import Database
from mnemic.storage.transaction import ScopedTransaction
from tests.support.machine_past import Link, Row, Subject
from tests.support.worlds import MORNING, memory

Result = TypeVar("Result")

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
class Told:
    """A row of the real history."""

    op_id: UUID
    event: str
    subject: Subject
    ts: datetime
    undo_of: UUID | None
    refinement: UUID | None


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

        async def run() -> Result:
            async with self.administration.administered(self.agent, "keeper") as scoped:
                return await act(scoped)

        return self.runner.run(run())

    def protect(self, memory_id: UUID, protected: bool) -> None:
        async def act(scoped: ScopedTransaction) -> None:
            await scoped.execute(
                "select set_protection(%(agent_id)s, %(id)s, %(protected)s, 'keeper')",
                {"id": memory_id, "protected": protected},
            )

        self.administer(act)

    def actor(self, administers: bool) -> Actor:
        if administers:
            return Actor.administrator(self.administration, self.agent, "keeper")
        return Actor.person(self.service, self.who())

    def undo(self, ops: Sequence[UUID], options: RollbackOptions, *, administers: bool) -> Rollback:
        return self.runner.run(rollback.undo(self.actor(administers), ops, options))

    def restore(self, key: str, seq: int, options: RollbackOptions, *, administers: bool) -> Rollback:
        return self.runner.run(rollback.restore(self.actor(administers), key, seq, options))

    def erase(self, ids: Sequence[UUID]) -> list[UUID]:
        return self._erased(ids)

    def erase_person(self) -> list[UUID]:
        return self._erased(None)

    def _erased(self, ids: Sequence[UUID] | None) -> list[UUID]:
        return [*self.runner.run(erasure.erase(self.service, self.who(), ["user:ana"], ids)).erased]

    def of_session(self, keys: Sequence[str] | None, since: datetime) -> list[UUID]:
        async def act(scoped: ScopedTransaction) -> list[UUID]:
            return await time_machine.operations_of_session(scoped, keys, "s1", since)

        return self.serve(act) if keys is not None else self.administer(act)

    def as_of(self, key: str, seq: int, with_closed: bool) -> list[Memory]:
        return self.serve(lambda scoped: time_machine.as_of(scoped, key, seq, with_closed=with_closed))

    def as_of_blind(self, key: str, seq: int) -> list[PastMemory]:
        return self.administer(lambda scoped: time_machine.as_of_blind(scoped, key, seq))

    def seq_at(self, key: str, moment: datetime) -> tuple[int, int]:
        """As the person and as the administrator are told it."""

        async def act(scoped: ScopedTransaction) -> int:
            return await time_machine.seq_of(scoped, key, moment)

        return self.serve(act), self.administer(act)

    def problems(self) -> list[tuple[Any, ...]]:
        """What is wrong with the history, as the administrators see it."""
        return self.administer(lambda scoped: scoped.tuples("select * from audit_problems()", {}))

    # -- looks behind the policies

    def _look(self, statement: LiteralString, **values: object) -> list[dict[str, Any]]:
        with self.superuser.cursor(row_factory=dict_row) as cursor:
            return cursor.execute(statement, {"agent": self.agent, **values}).fetchall()

    def told(self, after: int) -> list[Told]:
        """The rows of history after a seq."""
        rows = self._look(_HISTORY, after=after)
        assert [row["seq"] for row in rows] == list(range(after + 1, after + 1 + len(rows))), "history has gaps"
        return [
            Told(row["op_id"], row["event"], _subject(row), row["ts"], row["undo_of"], row["refinement_id"])
            for row in rows
        ]

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


def added(new: NewMemory, who: Identity) -> Row:
    """The row that storing a new memory makes."""
    return {
        "id": new.id,
        "kind": new.kind,
        "scope_key": new.scope_key,
        "category": new.category,
        "content": new.content,
        "subject": new.subject,
        "subject_user_id": new.subject_user_id,
        "importance": new.importance,
        "pinned": False,
        "protected": False,
        "private": new.private,
        "tags": None,
        "provenance": new.provenance,
        "state": "active",
        "superseded_by": None,
        "absorbed_at": None,
        "consolidated_into": None,
        "valid_from": new.valid_from,
        "valid_until": None,
        "purge_at": None,
        "source_session_id": new.source_session_id,
        "run_id": None,
        "actor_id": who.actor,
        "role": who.role,
        "import_id": None,
    }


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
    said: Sequence[Message] = (),
    relations: tuple[Relation, ...] = (),
) -> NewMemory:
    """A new memory with an id that is known beforehand."""
    return replace(
        memory(content, kind=kind, key=key, sources=said, valid_from=MORNING - timedelta(hours=memory_id.int % 5)),
        id=memory_id,
        relations=relations,
        importance=1 + memory_id.int % 4,
        source_session_id="s1" if memory_id.int % 2 else None,
    )


def numbered(message: Message, number: int) -> Message:
    """The message with an id that sorts as the number does."""
    return replace(message, id=UUID(int=number))
