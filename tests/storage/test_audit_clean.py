"""No false alarm: histories as the product writes them have no problems, whoever writes meanwhile."""

import asyncio
import uuid
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta

import psycopg
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from mnemic.operations.governance import rollback
from mnemic.operations.governance.actor import Actor
from mnemic.policy.governance.audit import check_export, header_line, row_line
from mnemic.state.errors import MnemicError
from mnemic.state.identity import Identity
from mnemic.state.records import Relation
from mnemic.state.settings import Settings
from mnemic.storage import erasure, history, inbox, memories, scopes
from mnemic.storage.database import Database
from mnemic.storage.transaction import ScopedTransaction
from tests.support.audited import administration, problems, tell
from tests.support.erasing import expire
from tests.support.rollbacks import restore, undo
from tests.support.server import Clone
from tests.support.worlds import AGENT, MODEL, direction, identity, memory, message, remember

ACTS = ("keep", "forget", "absorb", "weigh", "undo", "redo", "restore", "erase", "purge", "protect")


async def roll_back(person: Actor, name: str) -> None:
    """The second newest operation undone or done again, or the scope key as it was at first."""
    if name == "restore":
        await restore(person, "user:ana", 2, skip_erased=True)
        return
    found = await rollback.operations(person, limit=100)
    wanted = [one.op_id for one in found if (one.undo_of is not None) == (name == "redo")][:2]
    for op_id in wanted[-1:]:
        await undo(person, op_id, cascade=True, skip_erased=True)


async def act(scoped: ScopedTransaction, name: str) -> None:
    """One operation of a person's, on what the person has."""
    living = [one for one in await memories.living(scoped, ["fact", "reflection"], most=50) if not one.protected]
    if name == "keep":
        await _keep(scoped, "user:ana")
    elif living:
        await scoped.begin_operation(name, meta={"kept_share": 0.75})
        if name == "forget":
            await memories.forget(scoped, living[0])
        elif name == "absorb":
            await memories.absorb(scoped, uuid.uuid4(), [one.id for one in living if one.kind == "reflection"])
        else:
            change = "update memories set importance = 6 - importance where state = 'active' and not protected"
            await scoped.execute(change, {})


async def _keep(scoped: ScopedTransaction, key: str) -> None:
    """A fact with a source and a relation, and a reflection."""
    said = message("So it is.", user=key.removeprefix("user:"))
    fact = memory(f"A fact {uuid.uuid4()}.", key=key, sources=[said])
    thought = memory(f"A thought {uuid.uuid4()}.", key=key, kind="reflection")
    await inbox.observe(scoped, "s1", [said])
    op_id = await scoped.begin_operation("formation")
    await inbox.settle(scoped, op_id, [said], read_seq=(await scopes.first_look(scoped))[1])
    await memories.insert(scoped, [fact, thought], model=MODEL, vectors={fact.id: direction(9)}, run_id=None)


def _purge(superuser: psycopg.Connection, agent: str) -> None:
    living = "select id from mnemic.memories where agent_id = %s and state = 'active' and not protected limit 1"
    expire(superuser, *(row[0] for row in superuser.execute(living, (agent,))), agent=agent)
    with superuser.transaction():
        superuser.execute("set local role mnemic_admin")
        superuser.execute("select set_config('mnemic.agent_id', %s, true)", (agent,))
        superuser.execute(f"select mnemic.purge_expired('0', gen_random_uuid(), 'a', '{uuid.UUID(int=0)}', 9)".encode())


def _protect(clone: Clone, superuser: psycopg.Connection, agent: str) -> None:
    """Or lifts it, from a session that shows times in its own way."""
    rows = superuser.execute("select id, protected from mnemic.memories where agent_id = %s limit 1", (agent,))
    if found := rows.fetchone():
        with clone.as_role("mnemic_admin") as admin:
            admin.execute("set timezone = 'Asia/Kathmandu'; set datestyle = 'German'")
            admin.execute("select mnemic.set_protection(%s, %s, %s, 'a')", (agent, found[0], not found[1]))


@pytest.mark.thorough
@hypothesis_settings(max_examples=25)
@given(names=st.lists(st.sampled_from(ACTS), max_size=9))
async def test_whatever_was_done_there_is_nothing_wrong(
    db: Database, clean_db: Clone, superuser: psycopg.Connection, names: list[str]
) -> None:
    who = Identity(agent_id=f"agent-{uuid.uuid4().hex}", user_id="ana", session_id="s1")
    await remember(db, who)
    for name in ("keep", "keep", *names):
        if name == "purge":
            _purge(superuser, who.agent_id)
        elif name == "erase":
            async with db.scoped(who) as scoped:
                living = await memories.living(scoped, ["fact", "reflection"], most=50)
            await erasure.erase(db, who, ["user:ana", "session:s1"], [one.id for one in living[:1]])
        elif name == "protect":
            _protect(clean_db, superuser, who.agent_id)
        elif name in ("undo", "redo", "restore"):
            with suppress(MnemicError):  # what is refused leaves nothing
                await roll_back(Actor.person(db, who), name)
        else:
            with suppress(MnemicError):
                async with db.scoped(who) as scoped:
                    await act(scoped, name)
    assert await problems(clean_db, who.agent_id) == []


@pytest.mark.thorough
async def test_a_purge_and_the_erasure_of_a_person_leave_a_whole_chain(
    db: Database, clean_db: Clone, superuser: psycopg.Connection
) -> None:
    await tell(clean_db, db)
    ana = identity(session="s1")
    expired = memory("Ana waits for the ferry.")
    await remember(db, ana, expired)
    expire(superuser, expired.id)
    async with administration(clean_db) as opened:
        assert await erasure.purge_expired(opened._database, AGENT, "a", timedelta(0)) == [expired.id]
    assert await problems(clean_db) == []
    assert len((await erasure.erase(db, ana, ["user:ana"], None)).erased) > 3
    assert await problems(clean_db) == []
    count = (
        "select count(*) from mnemic.history_contents where after ->> 'state' <> 'purged' and scope_key = 'user:ana'"
    )
    assert superuser.execute(count).fetchone() == (0,)


@pytest.mark.thorough
async def test_who_checks_while_others_write_sees_one_moment(clean_db: Clone) -> None:
    async with clean_db.database(Settings(pool_size=4)) as db, administration(clean_db) as opened:
        await remember(db, identity())
        found: list[object] = []

        async def write(user: str) -> None:
            for number in range(12):
                await remember(db, identity(user), memory(f"{user} {number}", key=f"user:{user}"))

        async def check() -> None:
            for _ in range(12):
                found.extend(await opened.verify(AGENT))

        await asyncio.gather(write("ana"), write("bo"), check(), check())
    assert found == []


async def test_the_agents_are_all_that_have_a_trace(
    db: Database, clean_db: Clone, superuser: psycopg.Connection
) -> None:
    await remember(db, identity(agent="museum"), memory("Ana paints."))
    await remember(db, identity(agent="harbor"))
    superuser.execute("insert into mnemic.heads values ('abbey', 1, sha256('abbey'))")
    async with administration(clean_db, retention_purge_after_days=1) as opened:
        assert await opened.purge("harbr") == []  # a name mistyped is no agent from then on
        assert await history.agents(opened._database) == ["abbey", "harbor", "museum"]


async def test_a_relation_whose_far_end_the_person_no_longer_sees_is_no_problem(db: Database) -> None:
    mine, own = identity(session="s1"), ["user:ana", "session:s1"]
    inside = identity(session="s1", groups=["yard"])
    yards = memory("The yard is closed.", key="group:yard")
    await remember(db, inside, yards)
    await remember(db, inside, replace(memory("Ana works."), relations=(Relation(to_id=yards.id, strength=0.5),)))
    async with db.scoped(mine) as scoped:
        head = await history.head(scoped)
        assert head
        rows = await history.exported(scoped, own, after=0, last=head.seq)
    assert check_export([header_line("harbor", "ana", own, head), *map(row_line, rows)]).problems == []
