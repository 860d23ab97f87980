"""A real agent and its past side by side: after each operation all of the database is what the history tells."""

from asyncio import Runner
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, LiteralString, TypeVar
from uuid import UUID

import psycopg
from psycopg.rows import dict_row

from mnemic.memory.runtime.principal import Principal
from mnemic.state.identity import Identity
from mnemic.state.kinds import INDEXED_KINDS
from mnemic.storage.database import Database
from mnemic.storage.transaction import ScopedTransaction
from tests.support.machine_past import Event, Expected, Past, Row, Subject, World
from tests.support.worlds import operate

Item = TypeVar("Item")
Result = TypeVar("Result")

#: What the database sets by itself at every change, or once and for all at the first.
AUTOMATIC = ("agent_id", "created_at", "updated_at", "version", "content_hash", "tokens")
_HISTORY: LiteralString = """
select h.revision, coalesce((h.meta ->> 'rollback')::uuid, h.op_id) as op_id, h.reason, h.refinement_id,
       h.undo_of, h.event,
       h.memory_id, h.scope_key, h.ts, coalesce(c.after, c.before) as contents
  from mnemic.history h left join mnemic.history_contents c using (agent_id, revision)
 where h.agent_id = %(agent)s and h.revision > %(after)s order by h.revision"""
#: Whether each memory or message is searched, and by the words that it says.
_ENTRIES: LiteralString = """
select e.item_id, e.kind, e.searchable, m.id is null or e.tsv @@ plainto_tsquery('english', m.content) as says
  from mnemic.entries e left join mnemic.memories m on (m.agent_id, m.id) = (e.agent_id, e.item_id)
 where e.agent_id = %(agent)s"""
_SOURCES: LiteralString = "select memory_id, message_id from mnemic.sources where agent_id = %(agent)s"


@dataclass(frozen=True)
class Real:
    """One agent of the database, and its past. Whatever is not a look behind the policies runs as a product's role."""

    runner: Runner
    service: Database
    administration: Database
    superuser: psycopg.Connection
    agent: str
    past: Past = field(default_factory=Past)

    @property
    def keys(self) -> tuple[str, str]:
        return ("user:ana", f"agent:{self.agent}")

    @property
    def who(self) -> Identity:
        return Identity(agent_id=self.agent, user_id="ana", session_id="s1")

    def run(self, act: Coroutine[Any, Any, Result]) -> Result:
        return self.runner.run(act)

    def administer(self, act: Callable[[ScopedTransaction], Awaitable[Result]]) -> Result:
        """In one transaction of the administrators' role."""
        keeper = Identity(agent_id=self.agent, actor_id="keeper")

        async def run() -> Result:
            async with self.administration.transaction(keeper, administers=True) as tx:
                return await act(tx)

        return self.run(run())

    def actor(self, administers: bool) -> Principal:
        if administers:
            return Principal.administrator(self.administration, self.agent, "keeper")
        return Principal.person(self.service, self.who)

    def rows(self, wanted: Callable[[Row], bool]) -> list[Row]:
        return [row for row in self.past.memories().values() if wanted(row)]

    def open(self, key: str, *kinds: str) -> list[Row]:
        """Living memories that the service may change."""
        return self.rows(
            lambda row: (
                row["scope_key"] == key and row["kind"] in kinds and row["state"] == "active" and not row["protected"]
            )
        )

    # -- after an operation

    def operate(self, act: Callable[[ScopedTransaction], Awaitable[object]]) -> None:
        """One operation of the service."""
        self.run(operate(self.service, self.who, act))
        self.done()

    def done(self) -> list[Event]:
        """An operation has happened: it becomes part of the past, which explains all that there is."""
        events = self.unwritten()
        self.past.write(events, self._world())
        self.past.sources.clear()
        self.past.sources |= self._sources()
        self.past.searched = self._searched()
        self.compare()
        return events

    def rolled_back(self, expected: Expected) -> list[Event]:
        """A rollback has happened, or nothing: it changed what it had to, and nothing else."""
        events = self.unwritten()
        same("what changed", {event.subject for event in events}, {*expected.after})
        self.past.roll_back(events, expected.after)
        self.compare()
        return events

    def compare(self) -> None:
        """Rows, versions, relations, sources, what is searched."""
        world = self.past.now()
        same("memories and relations", self._world(), world)
        rows = self._look("select id, version from mnemic.memories where agent_id = %(agent)s")
        changed = Counter(change.subject for change in self.past.changes)
        same("versions", [row["version"] for row in rows], [changed[row["id"]] for row in rows])
        found = [row for row in self._look(_ENTRIES) if row["kind"] != "message"]
        entries = {row["item_id"]: (row["searchable"], row["says"]) for row in found}
        indexed = {i: row for i, row in self.past.memories().items() if row["kind"] in INDEXED_KINDS}
        searched = {i: (_is_searched(row), True) for i, row in indexed.items() if row["state"] != "purged"}
        same("searched memories", entries, searched)
        same("searched messages", self._searched(), self.past.searched)
        same("sources", self._sources(), self.past.sources)

    # -- looks behind the policies

    def _look(self, statement: LiteralString, **values: object) -> list[dict[str, Any]]:
        with self.superuser.cursor(row_factory=dict_row) as cursor:
            return cursor.execute(statement, {"agent": self.agent, **values}).fetchall()

    def unwritten(self) -> list[Event]:
        """The rows of history that are no part of the past yet: one operation, or none."""
        after = len(self.past.changes)
        rows = self._look(_HISTORY, after=after)
        same("revisions", [row["revision"] for row in rows], [*range(after + 1, after + 1 + len(rows))])
        assert len({row["op_id"] for row in rows}) <= 1, "one operation"
        given = [name for name in Event._fields if name != "subject"]
        return [Event(subject=_subject(row), **{name: row[name] for name in given}) for row in rows]

    def _world(self) -> World:
        """Memories without what is automatic, and relations."""
        rows = self._look("select * from mnemic.memories where agent_id = %(agent)s")
        world: World = {row["id"]: {name: row[name] for name in row if name not in AUTOMATIC} for row in rows}
        links = self._look("select * from mnemic.relations where agent_id = %(agent)s")
        return world | {(row["from_id"], row["to_id"], row["relation_type"]): row for row in links}

    def _searched(self) -> dict[UUID, bool]:
        return {row["item_id"]: row["searchable"] for row in self._look(_ENTRIES) if row["kind"] == "message"}

    def _sources(self) -> set[tuple[UUID, UUID]]:
        return {(row["memory_id"], row["message_id"]) for row in self._look(_SOURCES)}


def _subject(row: Mapping[str, Any]) -> Subject:
    if row["event"] == "SESSION":
        return str(row["refinement_id"])
    if row["event"] != "LINK":
        return UUID(str(row["memory_id"]))
    contents = row["contents"]
    return UUID(contents["from_id"]), UUID(contents["to_id"]), contents["relation_type"]


def _is_searched(row: Row) -> bool:
    return bool(row["state"] == ("absorbed" if row["kind"] == "reflection" else "active"))


def same(what: str, real: object, model: object) -> None:
    """Fails with a name that tells which promise was broken."""
    assert real == model, f"{what}: {real!r} instead of {model!r}"


def chosen(items: Sequence[Item], number: int) -> Item:
    """0 is the newest."""
    return items[-1 - number % len(items)]
