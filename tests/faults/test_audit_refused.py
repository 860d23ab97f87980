"""What cannot be recorded does not happen: the audit's insert fails in every kind of write, and nothing has changed."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from itertools import product
from uuid import UUID

import psycopg
import pytest

from mnemic.memory.refinement import edits
from mnemic.memory.refinement.edits import complete
from mnemic.memory.refinement.session import RefinementSession
from mnemic.memory.runtime.resources import Resources
from mnemic.service.governance.administration import Administration
from mnemic.service.memory import Mnemic
from mnemic.state.errors import RefusedError
from mnemic.state.identity import Identity
from mnemic.state.records import Relation
from mnemic.storage import erasure, refinements
from tests.support.audited import administration
from tests.support.erasing import expire
from tests.support.loopback import LoopbackModel
from tests.support.matrix import mostly_thorough
from tests.support.refinements import begun
from tests.support.rollbacks import everything
from tests.support.scripted import (
    CONSOLIDATION,
    FACTS,
    REFLECTIONS,
    consolidation,
    fact,
    facts,
    reflection,
    reflections,
    scripted_model,
    scripted_resources,
    turns,
)
from tests.support.server import Clone
from tests.support.worlds import AGENT, MORNING, identity, memory, remember

ANA = identity("ana", session="s1")
#: What the refinement tools are called with; the last two differ in their white space.
CORE = ("Ana wants brief replies.", "Ana wants no jokes.", "Ana counts  all spaces.", "Ana counts all spaces.")
#: Fails in the nth row that a transaction adds to one of the audit's tables.
TRAP = """
create or replace function public.trap() returns trigger language plpgsql as $$
begin
    perform set_config('trap.rows', (1 + coalesce(nullif(current_setting('trap.rows', true), ''), '0')::int)::text,
                       true);
    if current_setting('trap.rows')::int >= tg_argv[0]::int then
        raise exception 'no room for another row';
    end if;
    return new;
end $$;
grant execute on function public.trap to public;
"""


@dataclass(frozen=True)
class Place:
    """The product on a database with some memories in it."""

    memory: Mnemic
    administration: Administration
    model: LoopbackModel
    clone: Clone
    superuser: psycopg.Connection
    refining: RefinementSession

    async def operations(self) -> list[UUID]:
        """Newest first."""
        return [operation.id for operation in await self.administration.history.operations(Identity(agent_id=AGENT))]

    def ids(self, kind: str = "fact") -> list[UUID]:
        statement = "select id from mnemic.memories where kind = %s and state = 'active' order by created_at"
        return [row[0] for row in self.superuser.execute(statement, (kind,)).fetchall()]

    def dump(self) -> dict[str, list[str]]:
        """Every row but leases, tries, the price of a model's answers, and how far erasures have come."""
        return everything(self.superuser, without=("leases", "token_usage", "erasures", "erasing"))


@asynccontextmanager
async def placed(clone: Clone) -> AsyncIterator[Place]:
    """Two related facts with a source, reflections enough to consolidate, what expired, and a refinement that runs."""
    with scripted_model() as model, clone.as_superuser() as superuser:
        async with scripted_resources(clone, model) as resources, administration(clone) as opened:
            core = [memory(text, kind="core") for text in CORE]
            core.append(memory("Ana never ever sings.", kind="core", valid_from=MORNING + timedelta(days=1)))
            await remember(resources.database, ANA, *core)
            place = Place(Mnemic(resources), opened, model, clone, superuser, await _refining(resources))
            await _settle_in(place)
            first = memory("Ana keeps bees.")
            second = replace(memory("Ana keeps hens."), relations=(Relation(to_id=first.id, strength=0.8),))
            await remember(resources.database, ANA, first)
            await remember(resources.database, ANA, second)
            await remember(resources.database, ANA, expired := memory("Ana waits."))
            expire(superuser, expired.id)
            yield place


async def _refining(resources: Resources) -> RefinementSession:
    """A session that has begun, and has changed something."""
    claim = await begun(resources.database, ANA, seconds=600)
    refining = RefinementSession(resources=resources, overrides={}, identity=ANA, claim=claim)
    refining.show(await refining.transact(refinements.read_ledger))
    await edits.update(refining, len(CORE) + 1, "Ana never sings.")
    return refining


async def _settle_in(place: Place) -> None:
    place.model.answer(FACTS, facts(fact("Ana plays the cello.", 1)))
    thoughts = [reflection(f"Ana wants {thing}.") for thing in ("short answers", "tables", "dates")]
    place.model.answer(REFLECTIONS, reflections(user=thoughts))
    place.model.answer(CONSOLIDATION, consolidation("Ana wants short answers with tables and dates."))
    await place.memory.observe(ANA, turns("I play the cello.", "assistant: Nice."))
    await place.memory.form(ANA)
    place.model.answer(FACTS, facts(fact("Ana sails a red boat to Horten.", 1)))
    place.model.answer(REFLECTIONS, reflections(user=[reflection("Ana likes music.")]))
    await place.memory.observe(ANA, turns("My boat is red.", "assistant: Good.", minutes=9))


async def _undo(place: Place) -> object:
    return await place.memory.history.undo(ANA, (await place.operations())[0])


async def _undo_as_administrator(place: Place) -> object:
    return await place.administration.history.undo(Identity(agent_id=AGENT), (await place.operations())[2])


async def _complete(place: Place) -> object:
    return await complete(place.refining, "Little was to be done.")


async def _protect(place: Place) -> object:
    call = "select mnemic.set_protection(%s, %s, true, 'a')"
    with place.clone.as_role("mnemic_admin") as admin:
        return admin.execute(call, (AGENT, place.ids()[0])).fetchone()


#: Each kind of write, and the most rows of history that it leaves.
WRITES: dict[str, tuple[Callable[[Place], Awaitable[object]], int]] = {
    "formation": (lambda at: at.memory.form(ANA), 2),
    "consolidation": (lambda at: at.memory.admin.consolidate(ANA, "user:ana", force=True), 4),
    "remember": (lambda at: at.memory.remember(ANA, "Ana moved to Ghent.", category="profile"), 1),
    "remember_procedure": (
        lambda at: at.memory.remember(ANA, "Make tea", kind="procedure", steps=["Boil the water.", "Pour."]),
        1,
    ),
    "correct": (lambda at: at.memory.correct(ANA, at.ids()[0], "Ana is never silent."), 2),
    "forget": (lambda at: at.memory.forget(ANA, at.ids()[0]), 1),
    "undo": (_undo, 1),
    "undo_as_administrator": (_undo_as_administrator, 2),
    "restore": (lambda at: at.memory.history.restore(ANA, "user:ana", 0), 6),
    "restore_as_administrator": (
        lambda at: at.administration.history.restore(Identity(agent_id=AGENT), "user:ana", 0),
        6,
    ),
    "erase": (lambda at: at.memory.privacy.erase(ANA, *at.ids()[:2]), 2),
    "erase_person": (lambda at: at.memory.privacy.erase_person(ANA), 5),
    "purge": (lambda at: erasure.purge_expired(at.administration._database, ANA, timedelta(0)), 1),
    "set_protection": (_protect, 1),
    "merge": (lambda at: edits.consolidate(at.refining, [1, 2], "Ana wants brief replies, and no jokes."), 5),
    "update": (lambda at: edits.update(at.refining, 3, "Ana counts spaces."), 1),
    "delete": (lambda at: edits.delete(at.refining, 3), 1),
    "protect_in_refinement": (lambda at: edits.protect(at.refining, 3), 1),
    "dedup": (
        lambda at: at.refining.run_operation("dedup", lambda editor: refinements.remove_duplicates(editor.tx)),
        1,
    ),
    "complete": (_complete, 1),
}


def trap(place: Place, nth: int, table: str = "history") -> None:
    """The nth row that a transaction adds to the table fails."""
    place.superuser.execute(TRAP.encode())
    statement = f"create trigger trap before insert on mnemic.{table} for each row execute function public.trap({nth})"
    place.superuser.execute(statement.encode())


@pytest.mark.parametrize("write", mostly_thorough(WRITES.keys(), "forget"))
async def test_a_write_that_cannot_be_recorded_does_not_happen(fresh_db: Clone, write: str) -> None:
    act, most = WRITES[write]
    async with placed(fresh_db) as place:
        before = place.dump()
        for table, nth in product(("history", "history_contents"), sorted({1, most})):
            trap(place, nth, table)
            # whoever asks through the driver itself gets the driver's own error
            with pytest.raises(psycopg.errors.RaiseException if write == "set_protection" else RefusedError):
                await act(place)
            assert place.dump() == before, (table, nth)
            place.superuser.execute(f"drop trigger trap on mnemic.{table}".encode())

        await act(place)
        after = place.dump()
        assert after["memories"] != before["memories"]
        assert len(after["history"]) >= len(before["history"]) + most
        assert await place.administration.verify(Identity(agent_id=AGENT)) == []


@pytest.mark.thorough
@pytest.mark.parametrize("begins", [True, False], ids=["beginning", "end"])
async def test_a_session_whose_beginning_or_end_cannot_be_recorded_is_as_before(fresh_db: Clone, begins: bool) -> None:
    """The last row of the end has no contents, and comes after that of its journal."""
    async with placed(fresh_db) as place:
        if begins:
            await _complete(place)
        before = place.dump()
        trap(place, 1 if begins else 2)
        with pytest.raises(RefusedError):
            await (place.memory.refine(ANA, "user:ana", force=True) if begins else _complete(place))
        assert place.dump() == before


#: What a careless author might have written: the memory is what matters, its record comes along where it can.
RECORD = "    insert into history select * from unnest(rows);\n"
CARELESS = f"    begin\n{RECORD}    exception when raise_exception then null;\n    end;\n"


@pytest.mark.thorough
async def test_an_audit_that_lets_a_write_go_on_without_its_row_fails_that_check(fresh_db: Clone) -> None:
    async with placed(fresh_db) as place:
        trap(place, 1)
        body = place.superuser.execute("select pg_get_functiondef('mnemic.record_history'::regproc)").fetchone()
        assert body is not None
        assert RECORD in body[0]
        place.superuser.execute(body[0].replace(RECORD, CARELESS).encode())
        before = place.dump()
        await place.memory.forget(ANA, place.ids()[0])
        assert place.dump()["memories"] != before["memories"]
        assert await place.administration.verify(Identity(agent_id=AGENT)) != []
