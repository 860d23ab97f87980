"""What an administrator may: roll back and look, blind. No content is readable to their role, whatever it is asked."""

import json
import shutil
import traceback
import uuid
from collections.abc import Awaitable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import psycopg
import pytest

from mnemic import Administration, Mnemic
from mnemic.operations.run.resources import Resources
from mnemic.state.errors import MnemicError
from mnemic.storage.schema import ADMIN_ROLE, SERVICE_ROLE
from tests.support.loopback import LoopbackModel
from tests.support.refinements import refined, set_protected
from tests.support.rollbacks import ANA, again, everything, forgotten, op_ids, saved
from tests.support.scripted import turns
from tests.support.server import Clone, fast_directory
from tests.support.worlds import identity, remember

CANARY = "quincunx"
#: Functions that act for it, of which none tells what a memory says.
CALLABLE = {
    *(
        "agent_ids",
        "as_of_blind",
        "audit_problems",
        "forget_messages",
        "is_held",
        "plan_rollback",
        "purge_expired",
        "roll_back",
        "seq_at",
        "set_protection",
    ),
    "tells_of_memory",
}
_FUNCTIONS = """
select distinct p.proname from pg_proc p
 where p.pronamespace = 'mnemic'::regnamespace and has_function_privilege(%s, p.oid, 'execute')
   and not exists (select from pg_depend d where d.objid = p.oid and d.deptype = 'e')
"""


def test_the_role_calls_what_is_made_for_it_and_nothing_else(superuser: psycopg.Connection) -> None:
    assert {name for (name,) in superuser.execute(_FUNCTIONS, (ADMIN_ROLE,)).fetchall()} == CALLABLE
    of_the_service = {name for (name,) in superuser.execute(_FUNCTIONS, (SERVICE_ROLE,)).fetchall()}
    assert {"agent_ids", "audit_problems", "chain_links"} & of_the_service == {"chain_links"}  # it exports, no more


async def test_the_role_sees_the_agent_that_its_transaction_named(clean_db: Clone, resources: Resources) -> None:
    await saved(resources.database, "Ana keeps bees.")
    await saved(resources.database, "Ana paints.", who=identity("ana", agent="museum"))
    with clean_db.as_role(ADMIN_ROLE) as administrator:
        for agent, seen in {"harbor": {"harbor"}, "museum": {"museum"}, "": set()}.items():
            assert _agents(administrator, agent) == seen


@pytest.mark.thorough
async def test_without_its_policy_it_would_see_every_agent(fresh_db: Clone) -> None:
    """The control."""
    async with fresh_db.database() as db:
        await saved(db, "Ana keeps bees.")
        await saved(db, "Ana paints.", who=identity("ana", agent="museum"))
    with fresh_db.as_superuser() as superuser:
        superuser.execute("alter policy administrator on mnemic.history using (true)")
    with fresh_db.as_role(ADMIN_ROLE) as administrator:
        assert _agents(administrator, "harbor") == {"harbor", "museum"}


def _agents(administrator: psycopg.Connection, agent: str) -> set[str]:
    administrator.execute("select set_config('mnemic.agent_id', %s, false)", (agent,))
    return {found for (found,) in administrator.execute("select agent_id from mnemic.history").fetchall()}


async def told(*acts: Awaitable[object]) -> str:
    """All that calls answer and raise, as anybody would print or log it."""
    said = []
    for act in acts:
        try:
            said.append(repr(await act))
        except MnemicError as error:
            said += traceback.format_exception(error)
            said += [str(error), repr(error), repr(vars(error))]
    return "\n".join(said)


@pytest.fixture
async def canaries(memory: Mnemic, model: LoopbackModel, resources: Resources, superuser: psycopg.Connection) -> None:
    """A message, and memories forgotten, doubled, refined, protected and erased, that all say what nobody may read."""
    await memory.observe(ANA, turns(f"My word is {CANARY}."))
    first, second, third = await saved(resources.database, *(f"{CANARY} {number}" for number in range(3)))
    await forgotten(resources.database, first, second)
    await remember(resources.database, ANA, again(first))
    set_protected(superuser, third)
    await memory.erase(ANA, second.id)
    await refined(memory, model, f"{CANARY}, short.", f"{CANARY}, in English.", into=CANARY)


@pytest.mark.usefixtures("canaries")
async def test_nothing_that_administration_answers_or_raises_says_what_a_memory_says(
    memory: Mnemic, administration: Administration, superuser: psycopg.Connection
) -> None:
    began, ops = datetime.now(UTC) - timedelta(hours=1), op_ids(superuser)
    assert CANARY in json.dumps(everything(superuser))
    said = await told(
        administration.operations("harbor"),
        *(administration.undo("harbor", op, dry_run=True) for op in ops),
        *(administration.undo("harbor", op) for op in ops),
        administration.undo_session("harbor", "s1", began),
        administration.restore("harbor", "user:ana", 3),
        administration.restore("harbor", "user:ana", 3, skip_erased=True, dry_run=True),
        administration.as_of("harbor", "user:ana", 3),
        administration.refinements("harbor"),
        *(administration.undo_refinement("harbor", one.id) for one in await memory.refinements(ANA)),
        *(administration.protect("harbor", one.id) for one in await memory.memories(ANA, with_closed=True)),
    )
    assert "RollbackConflictError" in said
    assert "ContentErasedError" in said
    assert "PastMemory" in said
    assert "Refinement(" in said
    assert "UnknownMemoryError" in said
    assert CANARY not in said
    assert CANARY in await told(memory.as_of(ANA, "user:ana", 3))  # the control: the person sees it


async def test_what_was_done_is_told_with_who_did_it(
    clean_db: Clone, resources: Resources, superuser: psycopg.Connection
) -> None:
    await saved(resources.database, "Ana keeps bees.", "Ana has a boat.")
    (op,) = op_ids(superuser)
    async with Administration.open(admin_url=clean_db.administrator_dsn, actor="keeper") as administration:
        undone = await administration.undo("harbor", op)
        newest, oldest = await administration.operations("harbor")
        assert await administration.operations("harbor", since=newest.ts + timedelta(seconds=1)) == []
        assert await administration.operations("harbor", limit=1) == [newest]
        assert await administration.operations("harbor", session_id="s1") == [oldest]

    assert (newest.op_id, newest.undo_of, newest.actor, newest.actor_kind) == (undone.op_id, op, "keeper", "admin")
    assert (newest.events, newest.reason) == ({"DELETE": 2}, "undo")
    assert (oldest.op_id, oldest.events, oldest.actor_kind) == (op, {"ADD": 2}, "agent")
    assert oldest.scope_keys == ("user:ana",)
    assert newest.token_delta == -oldest.token_delta < 0


@pytest.fixture
def base() -> Iterator[Path]:
    """A directory that the server's account can reach, which pytest's own is not for root."""
    directory = fast_directory() / f"mnemic-administered-{uuid.uuid4().hex[:12]}"
    yield directory
    shutil.rmtree(directory)


@pytest.mark.thorough
async def test_the_embedded_server_lets_administrators_in(base: Path) -> None:
    async with Mnemic.open(data_dir=base, embedder="hash") as memory:
        await memory.remember(ANA, "Ana keeps bees.", category="interests")
        async with Administration.open(data_dir=base) as administration:
            (op,) = await administration.operations("harbor")
            assert (await administration.undo("harbor", op.op_id)).changes
        assert await memory.memories(ANA) == []
