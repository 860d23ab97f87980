"""Refinements, done to the real agent and to the model: sessions, what is done in them, and how they end."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from uuid import UUID

import pytest

from mnemic.state.errors import ConcurrentChangeError
from mnemic.state.refinement import LedgerEntry
from mnemic.storage import history, memories, refinements
from mnemic.storage.refinements import Claim
from mnemic.storage.transaction import ScopedTransaction
from tests.support.machine_agent import Act, Pair, added, chosen, draft, linked, same
from tests.support.machine_past import Row, Subject, are_twins
from tests.support.refinements import take_up
from tests.support.worlds import MODEL, direction

MERGEABLE = ("core", "reflection")
STANDING = (*MERGEABLE, "consolidation")


def _rank(row: Row) -> tuple[object, ...]:
    """Of those that say the same the first one stays."""
    is_thought = row["kind"] != "core"
    return not row["protected"], is_thought, not row["pinned"], -row["importance"], row["valid_from"], str(row["id"])


class _RefusedError(Exception):
    """Takes a transaction back, as a refinement tool does when it refuses."""


@dataclass
class _Running:
    session: Claim
    #: What it did, in memories.
    done: Counter[str] = field(default_factory=Counter)


class RefinementSteps:
    """What the state machine does with refinements."""

    def __init__(self, both: Pair, met: Counter[str]) -> None:
        self._both = both
        self._met = met
        self._running: dict[str, _Running] = {}
        #: All that there were.
        self.ids: list[UUID] = []

    # -- sessions

    def begin(self, key: str) -> None:
        """Begins a session; a second one of the same scope key is refused."""
        session = Claim(id=self._both.new_id(), scope_key=key, holder=self._both.new_id())

        async def act(scoped: ScopedTransaction) -> None:
            await scoped.begin_operation("refinement")
            await take_up(scoped, session, seconds=600)
            await refinements.begin(scoped, session, await refinements.ledger(scoped), target=10)

        if key in self._running:
            with pytest.raises(ConcurrentChangeError):
                self._both.real.serve(act, "s1", key)
            return
        self._both.real.serve(act, "s1", key)
        self._running[key] = _Running(session)
        self.ids.append(session.id)
        after: dict[Subject, Row | None] = {str(session.id): {"scope_key": key, "ended": False}}
        self._both.done("refinement", after, refinement=session.id, events={"SESSION": 1})

    def finish(self, key: str) -> None:
        """Ends it, with figures and a journal."""
        running = self._running.pop(key)
        session = running.session
        new = draft(self._both.new_id(), "journal", key, f"A refinement of {len(self.ids)} memories.")
        journal = replace(new, category="journal", provenance="consolidated", source_session_id=None)

        async def act(scoped: ScopedTransaction) -> None:
            counts = await refinements.done(scoped, session.id)
            same("what the refinement did", Counter(counts), running.done)
            await refinements.begin_act(scoped, session, "refinement")
            await memories.insert(scoped, [journal], model=MODEL, vectors={}, run_id=None)
            ledger = await refinements.ledger(scoped)
            await refinements.finish(scoped, session, "completed", ledger, counts, journal.id)

        self._both.real.serve(act, "s1", key)
        self._both.past.sources[journal.id] = []
        after: dict[Subject, Row | None] = {
            journal.id: added(journal, self._both.real.who()),
            str(session.id): {"scope_key": key, "ended": True},
        }
        events = {"SESSION": 1, "ADD": 1}
        self._both.done("refinement", after, refinement=session.id, events=events)

    def lapse(self, erased: Mapping[Subject, Row]) -> None:
        """Whoever may have read what is erased holds its session no more; somebody takes it up."""
        shown = {row["scope_key"] for row in erased.values() if row["kind"] in STANDING}
        for key in shown & {*self._running}:
            running = self._running[key]
            session = running.session._replace(holder=self._both.new_id())

            async def act(scoped: ScopedTransaction, session: Claim = session) -> bool:
                return await take_up(scoped, session, seconds=600)

            same("a session of what was erased is free", self._both.real.serve(act, "s1", key), True)
            running.session = session

    def is_running(self, key: str) -> bool:
        return key in self._running

    # -- edits

    def merge(self, key: str, which: int, content: str) -> None:
        """Two or three memories become one, unless a living one says that already."""
        open_now = self._both.open(key, *MERGEABLE)
        if len(open_now) < 2:
            return
        first = which % len(open_now)
        merged = [*open_now[first:], *open_now[:first]][: 2 + which % 2]
        closed = {row["id"]: {**row, "state": "soft_deleted"} for row in merged}
        made: list[UUID] = []

        async def act(scoped: ScopedTransaction) -> None:
            entries = [entry for entry in await self._ledger(scoped, key) if entry.id in closed]
            new_id = await refinements.merge(scoped, entries, "profile", content)
            if new_id is None:
                raise _RefusedError
            made.append(new_id)

        living = self._both.rows(lambda row: row["state"] == "active" and row["id"] not in closed)
        if any(are_twins(self._merged(UUID(int=0), merged, content), other) for other in living):
            with pytest.raises(_RefusedError):
                self._serve(key, "merge", act)
            self._done(key, "merge", {}, {})
            self._met["merge: refused"] += 1
            return
        self._serve(key, "merge", act)
        (new_id,) = made
        past = self._both.past
        past.sources[new_id] = sorted({sent for part in past.parts(closed) for sent in past.sources[part]})
        after: dict[Subject, Row | None] = {**closed, new_id: self._merged(new_id, merged, content)}
        after |= {
            (new_id, row["id"], "merged_from"): linked(self._both.real.agent, new_id, key, row, "merged_from", 1)
            for row in merged
        }
        self._done(key, "merge", after, {"MERGE": len(merged)}, beside={"ADD": 1, "LINK": len(merged)})

    def _merged(self, new_id: UUID, merged: Sequence[Row], content: str) -> Row:
        oldest = min(merged, key=lambda row: (row["valid_from"], str(row["id"])))
        told = {row["source_session_id"] for row in merged}
        new = draft(new_id, "core", oldest["scope_key"], content)
        return {
            **added(new, self._both.real.who()),
            "subject": oldest["subject"],
            "importance": max(row["importance"] for row in merged),
            "pinned": any(row["pinned"] for row in merged),
            "private": any(row["private"] for row in merged),
            "provenance": "consolidated",
            "valid_from": oldest["valid_from"],
            "source_session_id": told.pop() if len(told) == 1 else None,
        }

    def update(self, key: str, which: int, content: str) -> None:
        """Another text and, where it is searched, its vector."""
        if not (row := self._pick(key, which, *STANDING)):
            return
        after = {**row, "content": content}
        if content == row["content"] or (self._both.twins_of(after) and row["kind"] != "consolidation"):
            return
        vector = direction(10, 384) if row["kind"] in memories.INDEXED else None

        async def act(scoped: ScopedTransaction) -> None:
            (entry,) = [entry for entry in await self._ledger(scoped, key) if entry.id == row["id"]]
            assert await refinements.rewrite(scoped, entry, content, model=MODEL, vector=vector)

        self._serve(key, "update", act)
        if vector:
            self._both.past.indexed_anew.add(row["id"])
        self._done(key, "update", {row["id"]: after}, {"UPDATE": 1})

    def delete(self, key: str, which: int) -> None:
        if not (row := self._pick(key, which, *MERGEABLE)):
            return

        async def act(scoped: ScopedTransaction) -> None:
            memory = await memories.find(scoped, row["id"])
            assert memory
            await memories.forget(scoped, memory)

        self._serve(key, "delete", act)
        # what a person said is not the agent's to take out of search
        gone = [row["id"]] if key.startswith("user:") else []
        self._done(key, "delete", {row["id"]: {**row, "state": "soft_deleted"}}, {"DELETE": 1}, gone=gone)

    def protect(self, key: str, which: int) -> None:
        if not (row := self._pick(key, which, *MERGEABLE)):
            return

        async def act(scoped: ScopedTransaction) -> None:
            (entry,) = [entry for entry in await self._ledger(scoped, key) if entry.id == row["id"]]
            assert await refinements.protect(scoped, entry)

        self._serve(key, "protect", act)
        self._done(key, "protect", {row["id"]: {**row, "protected": True}}, {"PROTECT": 1})

    def remove_duplicates(self, key: str) -> None:
        """What says the same lives once: a protected one, or else a commitment, or else what matters most."""
        alike: dict[tuple[object, ...], list[Row]] = {}
        for row in self._both.rows(lambda row: row["scope_key"] == key and row["state"] == "active"):
            if row["kind"] in MERGEABLE:
                sent = " ".join(row["content"].split())
                alike.setdefault((row["subject_user_id"], row["category"], row["private"], sent), []).append(row)
        gone: dict[Subject, Row | None] = {}
        links: dict[Subject, Row | None] = {}
        for rows in alike.values():
            kept, *others = sorted(rows, key=_rank)
            for row in others:
                if not row["protected"]:
                    gone[row["id"]] = {**row, "state": "soft_deleted"}
                    link = linked(self._both.real.agent, kept["id"], key, row, "same_as", 1)
                    links[kept["id"], row["id"], "same_as"] = link

        async def act(scoped: ScopedTransaction) -> None:
            same("duplicates", await refinements.duplicates(scoped, remove=False), len(gone))
            same("removed duplicates", await refinements.duplicates(scoped, remove=True), len(gone))

        self._serve(key, "dedup", act)
        self._done(key, "dedup", gone | links, Counter(DEDUP=len(gone)), beside=Counter(LINK=len(links)))

    def leave_open(self, key: str, which: int) -> None:
        """The session's transaction goes on with an operation that is none of its own."""
        if not (row := self._pick(key, which, *STANDING)):
            return

        async def act(scoped: ScopedTransaction) -> None:
            await scoped.begin_operation("privacy")
            await memories.make_private(scoped, row["id"])

        self._serve(key, "protect", act)
        after: dict[Subject, Row | None] = {} if row["private"] else {row["id"]: {**row, "private": True}}
        self._both.done("privacy", after)

    # -- what all of them do

    def _pick(self, key: str, which: int, *kinds: str) -> Row | None:
        open_now = self._both.open(key, *kinds)
        return chosen(open_now, which) if open_now else None

    async def _ledger(self, scoped: ScopedTransaction, key: str) -> list[LedgerEntry]:
        """As it is shown, and as the model says."""
        rows = self._both.rows(
            lambda row: row["scope_key"] == key and row["state"] == "active" and row["kind"] in STANDING
        )
        entries = await refinements.ledger(scoped)
        rows.sort(key=lambda row: (row["valid_from"], str(row["id"])))
        same(
            "ledger",
            [(entry.id, entry.version, entry.content, entry.protected) for entry in entries],
            [(row["id"], self._both.past.version(row["id"]), row["content"], row["protected"]) for row in rows],
        )
        return entries

    def _serve(self, key: str, reason: str, act: Act) -> None:
        session = self._running[key].session

        async def operation(scoped: ScopedTransaction) -> None:
            await refinements.begin_act(scoped, session, reason)
            await act(scoped)

        self._both.real.serve(operation, "s1", key)

    def _done(
        self,
        key: str,
        reason: str,
        after: dict[Subject, Row | None],
        events: dict[str, int],
        *,
        beside: dict[str, int] | None = None,
        gone: Sequence[UUID] = (),
    ) -> None:
        running = self._running[key]
        told = {**events, **(beside or {})}
        self._both.done(reason, after, gone=gone, refinement=running.session.id, events=told)
        running.done.update(events)
        self._met.update(events)

    # -- as one

    def operations(self, refinement_id: UUID, keys: Sequence[str] | None) -> list[UUID]:
        """What it did to memories of these scope keys, the oldest first."""
        past = self._both.past
        own = [op_id for op_id, done in past.operations.items() if done.refinement == refinement_id]
        touched = {change.op_id for _, change in past.touched(own, keys)}

        async def act(scoped: ScopedTransaction) -> list[UUID]:
            return await history.operations_in(scoped, keys, refinement_id=refinement_id)

        found = self._both.real.administer(act) if keys is None else self._both.real.serve(act)
        same("operations of the refinement", set(found), touched)
        return [op_id for op_id in past.operations if op_id in touched]
