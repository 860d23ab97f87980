"""Models that misbehave in refinement sessions: within their scope key, nothing protected touched, all undoable."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from random import Random
from typing import Any, Final

import psycopg
import pytest
from psycopg import sql

from mnemic.memory.refinement import ending
from mnemic.memory.refinement.editor import ContextMemoryEditor
from mnemic.memory.text.shape import search_text
from mnemic.service.governance.administration import Administration
from mnemic.service.memory import Mnemic
from mnemic.state.errors import RollbackConflictError, UnknownOperationError
from mnemic.state.identity import Identity
from mnemic.state.records import NewMemory
from mnemic.state.refinement import LedgerEntry
from mnemic.state.results import RefinementResult
from mnemic.storage import history
from mnemic.storage.database import Database
from tests.hostile.misbehaving import NAMES, Misbehaving
from tests.support import erasing
from tests.support.loopback import Request, offering
from tests.support.mutating import mutate, worsen
from tests.support.scripted import scripted_memory, scripted_model
from tests.support.server import Clone
from tests.support.worlds import MORNING, identity, memory, message, remember

pytestmark = pytest.mark.thorough
AGENTS = tuple(f"agent{number}" for number in range(8))
Pair = tuple[str, str]
Row = dict[str, Any]
#: Every row that belongs to a scope key, by table, scope key and what names it.
Dump = dict[tuple[str, Pair, str], Row]

TEXTS = (
    "Ana always wants short answers, without greetings.", "Ana wants answers in English, and dates written out.",
    "Ana sails from Oslo on 9 May 2026 with the ferry Hurtig.", "Ana must never be called before nine.",
    "Ana is allergic to peanuts; keep them out of every menu.", "Ana pays 4,100 euros a month for the berth in Porto.",
    "Ana wants tables rather than lists where numbers are compared.", "Ana trusts the harbour master Tor Lindqvist.",
    "Ana decided on 3 April 2026 to sell the boat called Brisa.", "Ana likes long walks along the quay in the evening.",
    "Ana writes her reports on Mondays and sends them to Bo.", "Ana plans a workshop on knots for twelve people.",
)  # fmt: skip
_TABLES = {
    "memories": "id",
    "messages": "id",
    "entries": "(item_id, model, piece)",
    "sources": "(memory_id, message_id)",
    "scopes": "scope_key",
    "relations": "(from_id, to_id, relation_type, created_at)",
}
_FREE = {"version", "updated_at"}
#: What a session may have done.
CHANGES: Final = ("merged", "updated", "deleted", "protected", "duplicates")
#: Half of what there is, roughly; an eighth of it may be protected.
SMALL: dict[str, Any] = {"refinement_target_tokens": 400}


def person(agent: str) -> Identity:
    """Who has their memory refined: of three scope keys."""
    return identity("ana", agent=agent, groups=["crew"])


def dump(superuser: psycopg.Connection) -> Dump:
    """Everything that belongs to some scope key, behind the policies."""
    found: Dump = {}
    for table, name in _TABLES.items():
        query = sql.SQL("select agent_id, scope_key, {}::text, to_jsonb(t) from mnemic.{} t").format(
            sql.SQL(name), sql.Identifier(table)
        )
        for agent, key, row_id, row in superuser.execute(query):
            found[table, (agent, key), row_id] = row
    return found


def foreign(superuser: psycopg.Connection) -> tuple[str, ...]:
    """Ids and words of what no session may reach."""
    rows = superuser.execute(
        "select array[id::text, content] from mnemic.memories where agent_id = 'museum' or scope_key = 'user:bo'"
    )
    return tuple(word for (words,) in rows.fetchall() for word in words)


# -- what there is before


async def settle_world(service: Mnemic, superuser: psycopg.Connection, agents: Sequence[str]) -> None:
    """A core memory on every scope key of these agents, beside those of Bo and of an agent that is never refined."""
    for place, agent in enumerate([*agents, "museum"]):
        who = person(agent)
        await service.admin.configure_agent(who, agent_model="openai:agent", persona=f"I am {agent}.")
        for number, key in enumerate([*person(agent).scope_keys, "user:bo"]):
            await _seed(service, superuser, who, key, Random(f"{place} {number}"))


async def _seed(service: Mnemic, superuser: psycopg.Connection, who: Identity, key: str, random: Random) -> None:
    texts = random.sample(TEXTS, random.randint(3, 9))
    said = [replace(message(text, session="s1"), user_id="ana") for text in texts[:2]]
    core = [memory(text, kind="core", key=key) for text in texts]
    core += [memory(texts[0].replace(" ", "  ", 1), kind="core", key=key)]  # a duplicate but for white space
    core += [memory(text, kind="reflection", key=key) for text in random.sample(texts, 2)]
    core += [memory("Ana lives by the harbour.", kind="consolidation", key=key)]
    aside = [memory("Ana owns the boat Alba.", key=key), memory("Ana rowed home.", kind="episode", key=key)]
    new = [_varied(item, place, said, random) for place, item in enumerate([*core, *aside])]
    whom = who if key in who.scope_keys else identity("bo", agent=who.agent_id)
    if key == "user:ana":
        await erasing.form(service.resources.database, whom.model_copy(update={"session_id": "s1"}), said, *new)
    else:
        await remember(service.resources.database, whom, *new)
    for item in random.sample(core[:-1], random.randint(1, 2)):
        superuser.execute("select mnemic.set_protection(%s, %s, true, 'admin')", (who.agent_id, item.id))


def _varied(new: NewMemory, place: int, said: Sequence[Any], random: Random) -> NewMemory:
    """With a date, a person, an importance and sources of its own."""
    shared = not new.scope_key.startswith("user:")
    since = MORNING + timedelta(days=place)
    return replace(
        new,
        valid_from=since,
        search_text=search_text(since, new.subject, new.content),
        category=random.choice(("profile", "goals", "tasks")),
        importance=random.randint(1, 5),
        private=random.random() < 0.2,
        subject_user_id=random.choice(("ana", "bo")) if shared and random.random() < 0.3 else None,
        source_message_ids=tuple(s.id for s in said if random.random() < 0.6) if new.scope_key == "user:ana" else (),
    )


# -- sessions


@dataclass
class World:
    """A service whose model misbehaves, and the sessions that were there so far."""

    service: Mnemic
    administration: Administration
    superuser: psycopg.Connection
    #: Whose memories are refined; and ids and words that no session may reach.
    agents: tuple[str, ...]
    foreign: tuple[str, ...]
    models: dict[Pair, Misbehaving] = field(default_factory=dict)
    moves: Counter[str] = field(default_factory=Counter)
    ends: Counter[str] = field(default_factory=Counter)
    done: Counter[str] = field(default_factory=Counter)

    def answer(self, request: Request) -> Any:
        """The next turn of the model whose session asks."""
        prompt = str(request["messages"][0]["content"])
        agent = prompt.partition("I am ")[2].partition(".")[0]
        scope = prompt.partition("core memory of the scope ")[2].partition(",")[0]
        key = next(key for key in person(agent).scope_keys if key.startswith(scope))
        return self.models[agent, key](request)

    async def run(self, pairs: Sequence[Pair], seed: int) -> None:
        """Sessions on these scope keys, side by side, and all that is to be said of them afterwards."""
        before = dump(self.superuser)
        (since,) = self.superuser.execute("select coalesce(max(ts), '-infinity') from mnemic.history").fetchone() or ()
        for pair in pairs:
            self.models[pair] = Misbehaving(Random(f"{seed} {pair}"), self.foreign)
        refining = (self.service.refine(person(agent), key, force=True) for agent, key in pairs)
        results = await asyncio.gather(*refining)
        after = dump(self.superuser)
        check_outside(before, after, pairs)
        check_ended(self.superuser)
        check_scope_keys(self.superuser, since)
        for pair, result in zip(pairs, results, strict=True):
            await self._undo(pair, result)
            self.ends[result.ended or ""] += 1
            self.moves += self.models[pair].moves
            self.done.update(what for what in CHANGES if getattr(result, what))
        check_undone(before, dump(self.superuser), pairs)

    async def _undo(self, pair: Pair, result: RefinementResult) -> None:
        undoing = self.administration.history.undo_refinement(Identity(agent_id=pair[0]), result.id or "")
        if any(getattr(result, what) for what in CHANGES):
            assert (await undoing).op_id, "nothing was undone"
        else:
            with pytest.raises(UnknownOperationError, match="changed none"):
                await undoing


# -- what may not be


def check_outside(before: Dump, after: Dump, pairs: Sequence[Pair]) -> None:
    """Outside of the sessions' scope keys no row changed, came or went; there none but of free core memories."""
    ours = set(pairs)
    assert {key: row for key, row in before.items() if key[1] not in ours} == {
        key: row for key, row in after.items() if key[1] not in ours
    }, "rows of another scope key changed"
    for key, row in before.items():
        if key[0] == "messages" or (key[0] == "memories" and row["kind"] in ("fact", "episode")):
            assert after.get(key) == row, "a row changed that is no core memory"
        if key[0] == "memories" and row["protected"]:
            assert after.get(key) == row, "a protected memory changed"


def check_scope_keys(superuser: psycopg.Connection, since: Any) -> None:
    """What was written lately was done by a session of that scope key, between its beginning and its end."""
    stray = superuser.execute(
        "select h.event from mnemic.history h left join"
        " (select agent_id, refinement_id, scope_key, min(revision), max(revision)"
        "  from mnemic.history where event = 'SESSION' group by 1, 2, 3) s using (agent_id, refinement_id, scope_key)"
        " where h.ts > %s and h.revision between s.min and s.max is not true",
        (since,),
    ).fetchall()
    assert not stray, "a change outside of a session of its scope key"


def check_ended(superuser: psycopg.Connection) -> None:
    """Each session is over, for a reason."""
    running = superuser.execute("select count(*) from mnemic.refinements where ended is null").fetchone()
    assert running == (0,), "a session without an end"


def check_undone(before: Dump, after: Dump, pairs: Sequence[Pair]) -> None:
    """Every row is again as it was, but for its version; what is new is closed, and found by nobody."""
    for key, row in before.items():
        table = key[0]
        if table == "memories":
            kept = {name: value for name, value in after.get(key, {}).items() if name not in _FREE}
            assert kept == {name: value for name, value in row.items() if name not in _FREE}, "not as before"
        elif table == "entries":
            found = [other for name, other in after.items() if name[0] == table and other["item_id"] == row["item_id"]]
            assert {(item["tsv"], item["searchable"], item["category"]) for item in found} >= {
                (row["tsv"], row["searchable"], row["category"])
            }, "not searched as before"
        else:
            assert after.get(key) == row, "not as before"
    for key, row in after.items():
        if key not in before and key[0] == "memories":
            assert (row["state"], key[1] in pairs) == ("soft_deleted", True), "something new stayed"
        if key not in before and key[0] == "relations":
            raise AssertionError("a relation stayed")


# -- whatever it does


@asynccontextmanager
async def opened(clone: Clone, superuser: psycopg.Connection, agents: Sequence[str] = AGENTS) -> AsyncIterator[World]:
    """Agents with three scope keys each to refine, and the rest of the world."""
    with scripted_model() as model:
        async with (
            scripted_memory(clone, model, refinement_steps=6, embedder="hash", pool_size=8, **SMALL) as service,
            Administration.open(admin_url=clone.administrator_dsn) as administration,
        ):
            await settle_world(service, superuser, agents)
            world = World(service, administration, superuser, tuple(agents), foreign(superuser))
            model.answer(offering("complete_refinement"), world.answer)
            yield world


async def misbehave(world: World, sessions: int) -> None:
    """So many sessions, on two scope keys of each agent at once, each wave undone before the next one."""
    random = Random(7)
    for wave in range(-(-sessions // (2 * len(world.agents)))):
        pairs = [(agent, key) for agent in world.agents for key in random.sample(person(agent).scope_keys, 2)]
        await world.run(pairs, seed=wave)
    assert await world.administration.verify() == []


@pytest.mark.parametrize("sessions", [96, pytest.param(1000, marks=pytest.mark.slow)])
async def test_whatever_a_model_does_with_the_tools_it_stays_in_its_bounds(
    clean_db: Clone, superuser: psycopg.Connection, sessions: int
) -> None:
    async with opened(clean_db, superuser) as world:
        await misbehave(world, sessions)

        assert sum(world.ends.values()) >= sessions
        # it was no test of doing nothing: each kind of misbehaviour and of honest work was there, and often
        assert world.moves.keys() == NAMES
        assert min(world.moves.values()) >= sessions // 20
        assert min(world.done.values()) >= sessions // 20, world.done
        assert world.ends.keys() == {"completed", "finished", "steps", "tokens"}


# -- controls: what breaks one bound is seen by the same checks


async def caught(clone: Clone, *mutation: str) -> str:
    """What the checks say of some sessions, several on each scope key, with a function of the database made wrong."""
    with clone.as_superuser() as superuser:
        async with opened(clone, superuser, AGENTS[:3]) as world:
            if mutation:  # not before, for no service opens a database whose functions were changed
                mutate(superuser, *mutation)
            with pytest.raises((AssertionError, RollbackConflictError)) as failure:
                await misbehave(world, 60)
    return str(failure.value).splitlines()[0]


EDITABLE = ContextMemoryEditor.require_editable


def as_free(self: ContextMemoryEditor, *numbers: int, **rest: bool) -> list[LedgerEntry]:
    """As if nothing were protected."""
    free = {memory_id: replace(entry, protected=False) for memory_id, entry in self.entries.items()}
    return EDITABLE(replace(self, entries=free), *numbers, **rest)


async def test_control_without_check_and_guard_a_protected_memory_changes(
    fresh_db: Clone, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ContextMemoryEditor, "require_editable", as_free)
    guard = "new.protected or (tg_op = 'UPDATE' and old.protected)"

    assert await caught(fresh_db, "guard_memory", guard, "false") == "a protected memory changed"


def seeing_more(transaction: Callable[..., Any]) -> Callable[..., Any]:
    """Return a transaction that sees every scope key of its identity, not only that of its session."""

    def widened(self: Database, *args: Any, only: object = None, **options: Any) -> Any:
        return transaction(self, *args, **options)

    return widened


async def test_control_a_session_that_sees_more_scope_keys_changes_them(
    fresh_db: Clone, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("transaction", "write"):
        monkeypatch.setattr(Database, name, seeing_more(getattr(Database, name)))

    assert await caught(fresh_db) == "rows of another scope key changed"


async def test_control_a_session_that_is_not_closed_is_seen(fresh_db: Clone, monkeypatch: pytest.MonkeyPatch) -> None:
    async def leave_it(*_: Any) -> None:
        """Ends nothing."""

    monkeypatch.setattr(ending, "finish", leave_it)

    assert await caught(fresh_db) == "a session without an end"


@pytest.mark.parametrize("reason", ["merge", "protect"])
async def test_control_what_is_left_out_of_the_undoing_is_seen(
    fresh_db: Clone, monkeypatch: pytest.MonkeyPatch, reason: str
) -> None:
    worsen(
        monkeypatch, history, find_operation_ids=("h.refinement_id =", f"h.reason <> '{reason}' and h.refinement_id =")
    )

    seen = await caught(fresh_db)
    # or the undoing itself meets what it does not know to be its own
    assert seen in ("not as before", "something new stayed", "a relation stayed") or seen.startswith("later operations")
