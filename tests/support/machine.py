"""The state machine: all operations on memories, the Time Machine among them, done to the database and to the model."""

import uuid
from asyncio import Runner
from collections import Counter
from datetime import timedelta
from typing import Any

import psycopg
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

from mnemic.state.records import IndexedText, Message, NewMemory, Relation, Supersession
from mnemic.state.settings import Settings
from mnemic.storage import history, inbox, memories
from mnemic.storage.database import Database
from mnemic.storage.schema import ADMIN_ROLE, SERVICE_ROLE
from tests.support.machine_agent import NOW, Act, Pair, Real, added, chosen, draft, linked, numbered, same
from tests.support.machine_past import BARE, FREED, KEPT, Row, Subject
from tests.support.machine_refinements import RefinementSteps
from tests.support.machine_rollbacks import OWN, RollbackSteps
from tests.support.server import Clone
from tests.support.worlds import MODEL, MORNING, message

#: Chooses among what there is; 0 is the newest.
CHOICE = st.integers(0, 30)
CONTENTS = st.sampled_from(["Ana keeps bees.", "Ana sails.", "Ana is in Porto."])
#: What is said in any case: a commitment, and a thought of the same words.
SAID = [("core", "Ana rows."), ("reflection", "Ana rows.")]
DRAFTS = st.lists(st.tuples(st.sampled_from(["fact", "reflection", "core"]), CONTENTS), min_size=1, max_size=3)
#: A refinement writes what others say too, and what nobody says.
WORDS = CONTENTS | st.sampled_from(["Ana keeps bees and hens.", "Ana sails to Oslo."])
#: What a refinement does, to which memories, and what it writes.
CUTS = st.lists(
    st.tuples(
        st.sampled_from(["merge", "merge", "repeat", "update", "update", "delete", "protect", "dedup", "other"]),
        CHOICE,
        WORDS,
    ),
    min_size=1,
    max_size=4,
)
KEY = st.integers(0, 1)
YES_OR_NO = st.booleans()


class TimeMachine(RuleBasedStateMachine):
    """Each machine has an agent of its own, so that nothing has to be cleaned up."""

    def __init__(self, real: Real, met: Counter[str]) -> None:
        super().__init__()
        self.both = Pair(real)
        self.rollback = RollbackSteps(self.both, met)
        self.refinement = RefinementSteps(self.both, met)

    # -- what the service does

    @initialize(key=KEY, drafts=DRAFTS, cuts=CUTS, is_finished=YES_OR_NO)
    def begin(
        self, key: int, drafts: list[tuple[Any, str]], cuts: list[tuple[str, int, str]], is_finished: bool
    ) -> None:
        """Whatever comes next meets a few memories that were said, and what a refinement made of some."""
        for each in (key, 1 - key):
            self.form(key=each, drafts=[*drafts, *SAID], spoken=2, beside=0, replaced=None)
        self.refine(key=key, cuts=cuts, is_finished=is_finished)

    @rule(key=KEY, drafts=DRAFTS, spoken=st.integers(0, 2), beside=st.none() | CHOICE, replaced=st.none() | CHOICE)
    def form(
        self, key: int, drafts: list[tuple[Any, str]], spoken: int, beside: int | None, replaced: int | None
    ) -> None:
        """Memories with what they rest on and what they lie near, one of them in the place of a fact."""
        scope_key = self.both.real.keys[key]
        sent = [numbered(message("Yes."), 10_000 + self.both.new_id().int) for _ in range(spoken)]
        neighbours = self.both.rows(lambda row: row["state"] == "active")
        near = chosen(neighbours, beside) if neighbours and beside is not None else None
        relations = (Relation(to_id=near["id"], strength=0.5),) if near else ()
        new = [
            draft(self.both.new_id(), kind, scope_key, content, sent[place % 3 :], relations)
            for place, (kind, content) in enumerate(drafts)
        ]
        stored = self.both.storable(new)
        after: dict[Subject, Row | None] = {item.id: added(item, self.both.real.who()) for item in stored}
        agent = self.both.real.agent
        after |= {
            (item.id, near["id"], "related_to"): linked(agent, item.id, scope_key, near) for item in stored if near
        }
        acts = self._storing(new, sent)
        old, facts = self.both.open(scope_key, "fact"), [item for item in stored if item.kind == "fact"]
        if old and facts and replaced is not None:
            act, closed = self._replacing(replaced, old, facts[0])
            acts.append(act)
            after |= closed
        self.both.past.sources |= {item.id: list(item.source_message_ids) for item in stored}
        self.both.past.searched |= {item.id: True for item in sent}
        self.both.operate("formation", "s1" if spoken else None, after, acts)

    @rule(which=CHOICE)
    def say_again(self, which: int) -> None:
        """What a closed memory says is said again, so that its return would meet a living twin."""
        closed = self.both.rows(lambda row: row["state"] not in ("active", "purged") and row["kind"] != "consolidation")
        if closed:
            row = chosen(closed, which)
            drafts = [(row["kind"], row["content"])]
            self.form(
                key=self.both.real.keys.index(row["scope_key"]), drafts=drafts, spoken=0, beside=None, replaced=None
            )

    def _replacing(self, which: int, old: list[Row], new: NewMemory) -> tuple[Act, dict[Subject, Row | None]]:
        """One of the old facts superseded by the new one."""
        row, until = chosen(old, which), MORNING + timedelta(days=1)
        change = Supersession(old_id=row["id"], old_version=self.both.past.version(row["id"]), new_id=new.id)
        closed = {**row, "state": "superseded", "superseded_by": new.id, "valid_until": until}
        return lambda scoped: memories.supersede(scoped, [(change, until)]), {row["id"]: closed}

    @staticmethod
    def _storing(new: list[NewMemory], sent: list[Message]) -> list[Act]:
        store: list[Act] = [lambda scoped: memories.insert(scoped, new, model=MODEL, vectors={}, run_id=None)]
        if not sent:
            return store
        texts = [IndexedText(item_id=item.id, piece=0, text=item.content) for item in sent]
        return [
            lambda scoped: inbox.observe(scoped, "s1", sent),
            *store,
            lambda scoped: inbox.index_messages(scoped, MODEL, texts),
        ]

    @rule(key=KEY, content=CONTENTS, most=st.integers(0, 2))
    def consolidate(self, key: int, content: str, most: int) -> None:
        """The first text of a scope key, or the next one, or the living one rewritten; it takes reflections in."""
        scope_key = self.both.real.keys[key]
        living = self.both.rows(
            lambda row: (row["scope_key"], row["kind"], row["state"]) == (scope_key, "consolidation", "active")
        )
        after: dict[Subject, Row | None] = {}
        acts: list[Act] = []
        if living and living[0]["protected"]:
            return
        if living:
            old = self.both.read(living[0])
            consolidation_id = old.id
            after[old.id] = {**living[0], "content": content}
            acts.append(lambda scoped: memories.rewrite_consolidation(scoped, old, content))
        else:
            new = draft(self.both.new_id(), "consolidation", scope_key, content)
            consolidation_id = new.id
            after[new.id] = added(new, self.both.real.who())
            self.both.past.sources[new.id] = []
            acts += self._storing([new], [])
        absorbed = self.both.open(scope_key, "reflection")[:most]
        ids = [row["id"] for row in absorbed]
        changed = {"state": "absorbed", "absorbed_at": NOW, "consolidated_into": consolidation_id}
        after |= {row["id"]: {**row, **changed} for row in absorbed}
        acts.append(lambda scoped: memories.absorb(scoped, consolidation_id, ids))
        self.both.operate("consolidation", None, after, acts)

    @rule(which=CHOICE)
    def forget(self, which: int) -> None:
        kept = self.both.rows(lambda row: row["state"] in KEPT and not row["protected"])
        if not kept:
            return
        row = chosen(kept, which)
        memory = self.both.read(row)
        gone = {**row, "state": "soft_deleted", "consolidated_into": None}
        self.both.operate(
            "forget", "s1", {row["id"]: gone}, [lambda scoped: memories.forget(scoped, memory)], gone=[row["id"]]
        )

    # -- what an agent does to its own memory

    @rule(key=KEY)
    def begin_refinement(self, key: int) -> None:
        self.refinement.begin(self.both.real.keys[key])

    @rule(key=KEY, cuts=CUTS, is_finished=YES_OR_NO)
    def refine(self, key: int, cuts: list[tuple[str, int, str]], is_finished: bool) -> None:
        """Some edits of a refinement, in a session that is begun for them where none runs."""
        scope_key, steps = self.both.real.keys[key], self.refinement
        if not steps.is_running(scope_key):
            steps.begin(scope_key)
        for act, which, content in cuts:
            match act:
                case "merge":
                    steps.merge(scope_key, which, content)
                case "repeat":
                    living = self.both.open(scope_key, "core")
                    steps.merge(scope_key, which, living[0]["content"] if living else content)
                case "update":
                    steps.update(scope_key, which, content)
                case "delete":
                    steps.delete(scope_key, which)
                case "protect":
                    steps.protect(scope_key, which)
                case "dedup":
                    steps.remove_duplicates(scope_key)
                case _:
                    steps.leave_open(scope_key, which)
        if is_finished:
            steps.finish(scope_key)

    # -- what others do

    @rule(which=CHOICE)
    def protect(self, which: int) -> None:
        """An administrator sets a protection, or lifts it."""
        living = self.both.rows(lambda row: row["state"] == "active")
        if not living:
            return
        row = chosen(living, which)
        to = not row["protected"]
        self.both.real.administer(lambda scoped: memories.set_protection(scoped, row["id"], protected=to))
        self.both.done("protection", {row["id"]: {**row, "protected": to}})

    @rule(which=st.lists(CHOICE, min_size=1, max_size=2))
    def erase(self, which: list[int]) -> None:
        """A person erases memories; those in the agent's scope key are none of theirs.

        Where else their words live, and what comes back for them, has tests of its own: here the database tells.
        """
        every = self.both.rows(lambda row: True)
        ids = {chosen(every, number)["id"] for number in which} if every else set()
        theirs = {row["id"]: row for row in every if row["scope_key"] == "user:ana" and row["state"] != "purged"}
        erased = self.both.real.erase(sorted(ids))
        assert ids & theirs.keys() <= {*erased} <= theirs.keys(), "erased"
        self.both.past.erase(erased)
        gone: dict[Subject, Row] = {item: {**theirs[item], **BARE} for item in erased}
        changed = {row["subject"] for row in self.both.real.told(len(self.both.past.changes))}
        freed: dict[Subject, Row] = {row["id"]: {**row, **FREED} for row in every if row["id"] in changed - gone.keys()}
        same("in use before", [row for row in every if row["id"] in freed and row["state"] == "active"], [])
        self.both.done("erasure", gone | freed)
        self.refinement.lapse(gone)

    # -- rollback, and looks at the past

    @rule(ops=st.lists(CHOICE, min_size=1, max_size=2), person=YES_OR_NO, cascade=YES_OR_NO, skip=YES_OR_NO)
    def undo(self, ops: list[int], person: bool, cascade: bool, skip: bool) -> None:
        """Any operations, one that is none of a person's own now and then."""
        known = list(self.both.past.operations)
        own = [op_id for op_id in known if any(self.both.past.touched([op_id], OWN))]
        open_to = own if person and own and ops[0] % 8 else known
        wanted = list(dict.fromkeys(chosen(open_to, number) for number in ops))
        self.rollback.undo(wanted, person=person, cascade=cascade, skip_erased=skip)

    @rule(skip=YES_OR_NO)
    def undo_the_last(self, skip: bool) -> None:
        """A rollback too: what it undid is done again."""
        self.rollback.undo([list(self.both.past.operations)[-1]], person=False, cascade=False, skip_erased=skip)

    @rule(which=CHOICE, person=YES_OR_NO, cascade=YES_OR_NO, skip=YES_OR_NO)
    def undo_refinement(self, which: int, person: bool, cascade: bool, skip: bool) -> None:
        ops = self.refinement.operations(chosen(self.refinement.ids, which), OWN if person else None)
        if ops:
            self.rollback.undo(ops, person=person, cascade=cascade, skip_erased=skip, met_as="undo refinement")

    @rule(which=CHOICE, key=KEY, person=YES_OR_NO, skip=YES_OR_NO)
    def restore(self, which: int, key: int, person: bool, skip: bool) -> None:
        scope_key = self.both.real.keys[0 if person else key]
        seq = chosen(range(len(self.both.past.changes) + 1), which)
        self.rollback.restore(scope_key, seq, administers=not person, skip_erased=skip)

    @rule(which=CHOICE, key=KEY, closed=YES_OR_NO)
    def look_back(self, which: int, key: int, closed: bool) -> None:
        self.rollback.look_back(
            self.both.real.keys[key], chosen(range(len(self.both.past.changes) + 1), which), with_closed=closed
        )

    @rule()
    def audit(self) -> None:
        same("audit", self.both.real.administer(history.problems), [])

    def teardown(self) -> None:
        self.audit()


def run_machines(clone: Clone, superuser: psycopg.Connection, chosen_settings: settings) -> Counter[str]:
    """Machines on one event loop, each with an agent of its own; what their rollbacks met, and how often."""
    met: Counter[str] = Counter()
    sizes = Settings(pool_size=1)
    service, admin = (Database(clone.dsn_of(role), sizes) for role in (SERVICE_ROLE, ADMIN_ROLE))
    with Runner() as runner:
        runner.run(service.open())
        runner.run(admin.open())
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
