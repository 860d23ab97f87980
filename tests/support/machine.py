"""The state machine: all operations on memories in any order, and the Time Machine, which does what its model says."""

import uuid
from asyncio import Runner
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, fields, replace
from datetime import datetime, timedelta
from typing import Any

import psycopg
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

from mnemic.memory.governance import rollback
from mnemic.state.errors import MnemicError, RollbackRefusedError
from mnemic.state.governance import Rollback, RollbackOptions
from mnemic.state.kinds import CONTEXT_KINDS, MERGEABLE_KINDS
from mnemic.state.records import IndexedText, Memory, NewMemory, Relation, Supersession
from mnemic.state.settings import Settings
from mnemic.storage import erasure, history, inbox, memories, refinements
from mnemic.storage.database import Database
from mnemic.storage.refinements import Claim
from mnemic.storage.schema import ADMIN_ROLE, SERVICE_ROLE
from mnemic.storage.transaction import ScopedTransaction
from tests.support.machine_agent import AUTOMATIC, Real, chosen, same
from tests.support.machine_past import KEPT, Event, Expected, Row, Subject, restore, undo
from tests.support.refinements import begun, ended, taken_over, within
from tests.support.server import Clone
from tests.support.worlds import MODEL, MORNING, memory, message

#: Chooses among what there is; 0 is the newest.
CHOICE = st.integers(0, 30)
CONTENTS = st.sampled_from(["Ana keeps bees.", "Ana sails.", "Ana is in Porto."])
#: What is said in any case: a commitment, and a thought of the same words.
AT_FIRST = [("core", "Ana rows."), ("reflection", "Ana rows.")]
DRAFTS = st.lists(st.tuples(st.sampled_from(["fact", "reflection", "core"]), CONTENTS), min_size=1, max_size=3)
#: A refinement writes what others say too, and what nobody says.
WORDS = CONTENTS | st.sampled_from(["Ana keeps bees and hens.", "Ana sails to Oslo."])
#: What a refinement does, to which memories, and what it writes; `other` is an operation that is none of its own.
CUT = st.sampled_from(["merge", "merge", "merge", "update", "update", "delete", "protect", "dedup", "other"])
CUTS = st.lists(st.tuples(CUT, CHOICE, WORDS), min_size=1, max_size=4)
KEY = st.integers(0, 1)
YES_OR_NO = st.booleans()
#: A person's scope keys.
OWN = ["user:ana", "session:s1"]
#: What a past memory is known by.
COLUMNS = {each.name for each in fields(Memory)} - {*AUTOMATIC}


class TimeMachine(RuleBasedStateMachine):
    """Each machine has an agent of its own, so that nothing has to be cleaned up."""

    def __init__(self, real: Real, met: Counter[str]) -> None:
        super().__init__()
        self.real = real
        self.past = real.past
        #: What was done and what rollbacks met, and how often.
        self.met = met
        #: The refinements that run, by their scope keys.
        self.running: dict[str, Claim] = {}
        self.numbers = 0
        real.superuser.execute("insert into mnemic.agents (agent_id) values (%s)", (real.agent,))

    # -- what the service does

    @initialize(key=KEY, drafts=DRAFTS, cuts=CUTS, is_finished=YES_OR_NO)
    def begin(
        self, key: int, drafts: list[tuple[Any, str]], cuts: list[tuple[str, int, str]], is_finished: bool
    ) -> None:
        """Whatever comes next meets a few memories that were said, and what a refinement made of some."""
        for each in (key, 1 - key):
            self.form(key=each, drafts=[*drafts, *AT_FIRST], spoken=2, beside=0, replaced=None)
        self.refine(key=key, cuts=cuts, is_finished=is_finished)

    @rule(key=KEY, drafts=DRAFTS, spoken=st.integers(0, 2), beside=st.none() | CHOICE, replaced=st.none() | CHOICE)
    def form(
        self, key: int, drafts: list[tuple[Any, str]], spoken: int, beside: int | None, replaced: int | None
    ) -> None:
        """Memories with what they rest on and what they lie near, one of them in the place of a fact."""
        scope_key = self.real.keys[key]
        sent = [replace(message("Yes."), id=self.new_id()) for _ in range(spoken)]
        near = self.real.rows(lambda row: row["state"] == "active")
        beside_it = chosen(near, beside)["id"] if near and beside is not None else None
        relations = (Relation(to_id=beside_it, strength=0.5),) if beside_it else ()
        new = [
            replace(self.draft(kind, scope_key, content), relations=relations, source_message_ids=tuple(rests_on))
            for place, (kind, content) in enumerate(drafts)
            for rests_on in [[item.id for item in sent[place % 3 :]]]
        ]
        old = self.real.open(scope_key, "fact")

        async def act(tx: ScopedTransaction) -> None:
            await inbox.observe(tx, "s1", sent)
            stored = await memories.insert(tx, new, model=MODEL, vectors={}, run_id=None)
            texts = [IndexedText(item_id=item.id, piece=0, text=item.content) for item in sent]
            await inbox.index_messages(tx, MODEL, texts)
            facts = [item.id for item in new if item.kind == "fact" and item.id in stored]
            if old and facts and replaced is not None:
                known = await memories.find(tx, chosen(old, replaced)["id"])
                assert known
                change = Supersession(known.id, known.version, new_id=facts[0], until=MORNING + timedelta(days=1))
                await memories.supersede(tx, [change])

        self.real.operate(act)

    def new_id(self) -> uuid.UUID:
        """Ids that grow and do not depend on chance, so that a run can be repeated."""
        self.numbers += 1
        return uuid.UUID(int=self.numbers)

    def draft(self, kind: Any, key: str, content: str) -> NewMemory:
        new_id = self.new_id()
        return replace(
            memory(content, kind=kind, key=key, valid_from=MORNING - timedelta(hours=self.numbers % 5)),
            id=new_id,
            importance=1 + self.numbers % 4,
            source_session_id="s1" if self.numbers % 2 else None,
        )

    @rule(which=CHOICE)
    def say_again(self, which: int) -> None:
        """What a closed memory says is said again, so that its return would meet a living twin."""
        closed = self.real.rows(lambda row: row["state"] not in ("active", "purged") and row["kind"] != "consolidation")
        if closed:
            row = chosen(closed, which)
            key, drafts = self.real.keys.index(row["scope_key"]), [(row["kind"], row["content"])]
            self.form(key=key, drafts=drafts, spoken=0, beside=None, replaced=None)

    @rule(key=KEY, content=CONTENTS, most=st.integers(0, 2))
    def consolidate(self, key: int, content: str, most: int) -> None:
        """The first text of a scope key, or the living one rewritten; it takes reflections in."""
        scope_key = self.real.keys[key]
        new = self.draft("consolidation", scope_key, content)
        taken = [row["id"] for row in self.real.open(scope_key, "reflection")[:most]]
        known = [row["id"] for row in self.real.open(scope_key, "consolidation")]

        async def act(tx: ScopedTransaction) -> None:
            if known:
                text = await memories.find(tx, known[0])
                assert text
                await memories.rewrite(tx, text, content)
            elif not await memories.insert(tx, [new], model=MODEL, vectors={}, run_id=None):
                return  # the one that lives is protected
            await memories.absorb(tx, known[0] if known else new.id, taken)

        self.real.operate(act)

    @rule(which=CHOICE)
    def forget(self, which: int) -> None:
        if kept := self.real.rows(lambda row: row["state"] in KEPT and not row["protected"]):
            self.real.operate(lambda tx: _forget(tx, chosen(kept, which)))

    # -- what an agent does to its own memory

    @rule(key=KEY, cuts=CUTS, is_finished=YES_OR_NO)
    def refine(self, key: int, cuts: list[tuple[str, int, str]], is_finished: bool) -> None:
        """Some edits of a refinement, which is begun for them where none runs."""
        scope_key, real = self.real.keys[key], self.real
        if scope_key not in self.running:
            self.running[scope_key] = real.run(begun(real.service, real.who, scope_key, seconds=600))
            real.done()
        session = self.running[scope_key]
        for act, which, content in cuts:
            edit = self._edit(scope_key, act, which, content)
            reason = "protect" if act == "other" else act
            with suppress(MnemicError):  # what is refused leaves nothing
                real.run(within(real.service, real.who, session, edit, reason=reason))
            done = real.done()
            of = None if act == "other" else session.id
            same("the refinement of what changed", {event.refinement_id for event in done}, {of} if done else set())
            self.met.update(event.event for event in done)
            self._rests_on_the_merged([event.subject for event in done])
        if is_finished:
            real.run(ended(real.service, real.who, self.running.pop(scope_key)))
            real.done()

    def _rests_on_the_merged(self, subjects: list[Subject]) -> None:
        """A merge rests on all that the merged rested on, and what they were made of."""
        links = [each for each in subjects if isinstance(each, tuple) and each[2] == "merged_from"]
        parts = self.past.parts(to for _, to, _ in links)
        below = {sent for item, sent in self.past.sources if item in parts}
        for new_id in {link[0] for link in links}:
            same("sources of a merge", {sent for item, sent in self.past.sources if item == new_id}, below)

    def _edit(self, key: str, act: str, which: int, content: str) -> Callable[[ScopedTransaction], Any]:
        cut = self.real.open(key, *MERGEABLE_KINDS)
        first = which % max(1, len(cut))
        ids = [row["id"] for row in [*cut[first:], *cut[:first]]]

        async def edit(tx: ScopedTransaction) -> None:
            entries = {entry.id: entry for entry in await refinements.read_ledger(tx)}
            if act == "dedup":
                await refinements.remove_duplicates(tx)
            elif len(ids) < 2:
                return
            elif act == "merge":
                parts = [entries[item] for item in ids[: 2 + which % 2]]
                if await refinements.merge(tx, parts, "profile", content) is None:
                    raise MnemicError
            elif act == "update":
                await memories.rewrite(tx, entries[ids[0]], content)
            elif act == "delete":
                await _forget(tx, cut[first])
            elif act == "protect":
                await refinements.protect(tx, entries[ids[0]])
            else:
                await tx.begin_operation("privacy")
                await memories.make_private(tx, ids[0])

        return edit

    # -- what others do

    @rule(which=CHOICE)
    def protect(self, which: int) -> None:
        """An administrator sets a protection, or lifts it."""
        if living := self.real.rows(lambda row: row["state"] == "active"):
            row = chosen(living, which)
            to = not row["protected"]
            self.real.administer(lambda tx: memories.set_protection(tx, row["id"], protected=to))
            self.real.done()

    @rule(which=st.lists(CHOICE, min_size=1, max_size=2))
    def erase(self, which: list[int]) -> None:
        """A person erases memories; where else their words live, and what comes back for them, has tests of its own."""
        real, theirs = (
            self.real,
            self.real.rows(lambda row: row["scope_key"] == "user:ana" and row["state"] != "purged"),
        )
        ids = {chosen(theirs, number)["id"] for number in which} if theirs else set()
        erased = real.run(erasure.erase(real.service, real.who, ["user:ana"], sorted(ids))).erased
        assert ids <= {*erased} <= {row["id"] for row in theirs}, "erased"
        real.done()
        # whoever may have read what is erased holds its session no more; somebody takes it up
        shown = [row for row in theirs if row["id"] in erased and row["kind"] in CONTEXT_KINDS]
        if shown and (session := self.running.get("user:ana")):
            self.running["user:ana"] = real.run(taken_over(real.service, real.who, session))

    # -- rollback, and looks at the past

    @rule(ops=st.lists(CHOICE, min_size=1, max_size=2), person=YES_OR_NO, cascade=YES_OR_NO, skip=YES_OR_NO)
    def undo(self, ops: list[int], person: bool, cascade: bool, skip: bool) -> None:
        """Any operations, one that is none of a person's own now and then."""
        known = self.past.operations()
        own = [op_id for op_id in known if any(self.past.touched([op_id], OWN))]
        open_to = own if person and own and ops[0] % 8 else known
        self._undo({chosen(open_to, number) for number in ops}, "undo", person=person, cascade=cascade, skip=skip)

    @rule(skip=YES_OR_NO)
    def undo_the_last(self, skip: bool) -> None:
        """A rollback too: what it undid is done again."""
        self._undo({self.past.operations()[-1]}, "undo", person=False, cascade=False, skip=skip)

    @rule(which=CHOICE, person=YES_OR_NO, cascade=YES_OR_NO, skip=YES_OR_NO)
    def undo_refinement(self, which: int, person: bool, cascade: bool, skip: bool) -> None:
        events = [change.event for _, change in self.past.touched(self.past.operations(), OWN if person else None)]
        if sessions := list(dict.fromkeys(event.refinement_id for event in events if event.refinement_id)):
            session = chosen(sessions, which)
            ops = {event.op_id for event in events if event.refinement_id == session}
            self._undo(ops, "undo refinement", person=person, cascade=cascade, skip=skip)

    def _undo(self, ops: set[uuid.UUID], met_as: str, *, person: bool, cascade: bool, skip: bool) -> None:
        expected = undo(self.past, ops, OWN if person else None, cascade=cascade, skip_erased=skip)
        options = RollbackOptions(cascade=cascade, skip_erased=skip)
        actor = self.real.actor(not person)
        events = self._roll_back(met_as, expected, options, lambda options: rollback.undo(actor, [*ops], options))
        if events and len(ops) == 1:
            same("what was undone", {event.undo_of for event in events}, ops)

    @rule(which=CHOICE, key=KEY, person=YES_OR_NO, skip=YES_OR_NO)
    def restore(self, which: int, key: int, person: bool, skip: bool) -> None:
        """To where an operation ended, since each is restored whole or not at all."""
        scope_key = self.real.keys[0 if person else key]
        revision = chosen(
            [0, *{change.event.op_id: revision for revision, change in enumerate(self.past.changes, 1)}.values()], which
        )
        expected = restore(self.past, scope_key, revision, administers=not person, skip_erased=skip)
        actor = self.real.actor(not person)
        options = RollbackOptions(skip_erased=skip)
        self._roll_back(
            "restore", expected, options, lambda options: rollback.restore(actor, scope_key, revision, options)
        )

    def _roll_back(
        self, met_as: str, expected: Expected, options: RollbackOptions, act: Callable[[RollbackOptions], Any]
    ) -> list[Event]:
        """Told first, then done, or refused; what it met is counted, so that a test can tell whether all was tried."""
        wanted = expected.report and _in_order(expected.report)
        dry, _ = self._outcome(act, replace(options, dry_run=True))
        same(f"dry run of {met_as}", dry, wanted)
        same("written by a dry run", self.real.unwritten(), [])
        done, error = self._outcome(act, options)
        same(f"refusal of {met_as}", error, expected.error)
        same(f"what {met_as} tells", done, wanted)
        events = self.real.rolled_back(expected)
        if wanted is None:
            self.met[f"{met_as}: unknown"] += 1
            return events
        links = [subject for subject in expected.after if isinstance(subject, tuple)]
        parts = {name: getattr(wanted, name) for name in ("changes", "later", "erased", "twins", "protected")}
        parts |= {"links": links, "links that come back": [link for link in links if expected.after[link]]}
        outcome = "refused" if error else "done"
        self.met.update(f"{met_as}: {outcome} with {name}" for name, part in parts.items() if part)
        return events

    def _outcome(
        self, act: Callable[[RollbackOptions], Any], options: RollbackOptions
    ) -> tuple[Rollback | None, type[MnemicError] | None]:
        """What was told, and the refusal."""
        try:
            return _in_order(self.real.run(act(options))), None
        except RollbackRefusedError as refused:
            return _in_order(refused.rollback), type(refused)
        except MnemicError as refused:
            return None, type(refused)

    @rule(which=CHOICE, key=KEY, closed=YES_OR_NO)
    def look_back(self, which: int, key: int, closed: bool) -> None:
        """Contents for a person, states for an administrator; what was erased since shows what is left of it."""
        real, scope_key = self.real, self.real.keys[key]
        revision, now = chosen(range(len(self.past.changes) + 1), which), self.past.memories()
        then = [row for each, row in self.past.at(revision).items() if isinstance(each, uuid.UUID)]
        then = [row for row in then if row["scope_key"] == scope_key and row["state"] != "purged"]
        rows: dict[uuid.UUID, Row] = {
            row["id"]: now[row["id"]] if now[row["id"]]["state"] == "purged" else row for row in then
        }
        found = real.run(self._as_of(scope_key, revision, closed))
        known = {
            each.id: {name: value for name, value in asdict(each).items() if name in rows[each.id]} for each in found
        }
        shown = {i: row for i, row in rows.items() if closed or row["state"] in ("active", "purged")}
        same("past contents", known, {i: {name: row[name] for name in known.get(i, row)} for i, row in shown.items()})
        blind = real.administer(lambda tx: history.as_of_without_contents(tx, scope_key, revision))
        sizes = {(i, row["state"], -(-len(row["content"]) // 4), row["protected"]) for i, row in rows.items()}
        same("past states", {(each.id, each.state, each.tokens, each.protected) for each in blind}, sizes)
        if revision:
            self._moment(scope_key, self.past.changes[revision - 1].event.ts)

    async def _as_of(self, key: str, revision: int, closed: bool) -> Any:
        async with self.real.service.transaction(self.real.who) as tx:
            return await history.as_of(tx, key, revision, with_closed=closed)

    def _moment(self, key: str, ts: datetime) -> None:
        """A time means the last operation that was whole by then."""
        events = [(revision, change.event) for revision, change in enumerate(self.past.changes, 1)]
        own = [(revision, event) for revision, event in events if event.scope_key == key]
        open_still = {event.op_id for _, event in own if event.ts > ts}
        whole = [revision for revision, event in own if event.ts <= ts and event.op_id not in open_still]
        moment = self.real.administer(lambda tx: history.revision_of(tx, key, ts))
        same("moment", moment, max(whole, default=0))

    def teardown(self) -> None:
        same("audit", self.real.administer(history.find_problems), [])


async def _forget(tx: ScopedTransaction, row: Row) -> None:
    known = await memories.find(tx, row["id"])
    assert known
    await memories.forget(tx, known)


def _in_order(report: Rollback) -> Rollback:
    """In an order of its own, and without the operation."""
    parts = {name: getattr(report, name) for name in ("changes", "later", "erased", "twins", "protected")}
    ordered: dict[str, Any] = {name: tuple(sorted(part, key=str)) for name, part in parts.items()}
    return replace(report, op_id=None, **ordered)


def run_machines(clone: Clone, superuser: psycopg.Connection, chosen_settings: settings) -> Counter[str]:
    """Machines on one event loop, each with an agent of its own; what they did and met, and how often."""
    met: Counter[str] = Counter()
    sizes = Settings(pool_size=1)

    async def opened(role: str) -> Database:
        database = Database(clone.dsn_of(role), sizes)
        await database.open()
        return database

    with Runner() as runner:
        service, admin = (runner.run(opened(role)) for role in (SERVICE_ROLE, ADMIN_ROLE))
        try:
            run_state_machine_as_test(
                lambda: TimeMachine(  # type: ignore[arg-type]  # any callable that makes a machine
                    Real(runner, service, admin, superuser, f"agent-{uuid.uuid4().hex}"), met
                ),
                settings=chosen_settings,
            )
        finally:
            runner.run(admin.close())
            runner.run(service.close())
    return met
