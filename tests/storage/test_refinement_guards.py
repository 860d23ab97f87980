"""Outside of a refinement SQL refuses what its tools do, to the service's own role and whatever it pretends."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any
from uuid import uuid4

import psycopg
import pytest

from mnemic.state.errors import ConcurrentChangeError, MnemicError, RefinementOverError, RefusedError
from mnemic.state.identity import Identity
from mnemic.state.kinds import Kind
from mnemic.state.records import NewMemory
from mnemic.storage import refinements
from mnemic.storage.database import Database
from mnemic.storage.refinements import Claim
from mnemic.storage.transaction import ScopedTransaction
from tests.support.mutating import mutate
from tests.support.refinements import Act, begun, ended, in_a_session, new, take_up, taken_over, within
from tests.support.server import Clone
from tests.support.worlds import executing, expire_leases, identity, memory, operate, remember

ANA, MUSEUM = identity("ana"), identity("ana", agent="museum")
KEY, SHARED = "user:ana", "agent:harbor"
KINDS: tuple[Kind, ...] = ("fact", "reflection", "consolidation", "episode", "journal", "insight", "procedure")
REFUSED = "in a running refinement alone"


@pytest.fixture
async def core(db: Database) -> NewMemory:
    """A core memory of Ana, and others of every kind beside it."""
    return await _stored(db)


async def _stored(db: Database) -> NewMemory:
    core = memory("Ana wants short answers.", kind="core")
    await remember(db, ANA, core, *(memory(f"Ana has a {kind}.", kind=kind) for kind in KINDS))
    await remember(db, ANA, memory("The harbour opens at eight.", kind="core", key=SHARED))
    await remember(db, MUSEUM, memory("The museum opens at nine.", kind="core"))
    return core


def rewriting(kind: str) -> Act:
    """Gives memories of a kind other words."""
    return executing(f"update memories set content = 'Other words.' where kind = '{kind}' and scope_key = '{KEY}'")


async def merging(tx: ScopedTransaction) -> None:
    """Stores a memory that passes for a merged one."""
    columns = "agent_id, id, kind, scope_key, subject, category, content, importance, provenance, valid_from"
    values = f"%(agent_id)s, gen_random_uuid(), 'core', '{KEY}', 'Ana', 'profile', 'All.', 2, 'consolidated', now()"
    await executing(f"insert into memories ({columns}) values ({values})")(tx)


def protecting(core: NewMemory) -> Act:
    """Protects it, or fails."""

    async def act(tx: ScopedTransaction) -> None:
        statement: Any = "select protect_in_refinement(id, version) from memories where id = %(id)s"
        if await tx.tuples(statement, {"id": core.id}) != [(True,)]:
            raise RefusedError(REFUSED)

    return act


def beginning(session: Claim, reason: str) -> Act:
    """Begins an act of the session."""
    return lambda tx: refinements.begin_operation(tx, session, reason)


def acts_of_a_session(core: NewMemory) -> list[Act]:
    """All that a session alone may do."""
    return [rewriting("core"), rewriting("reflection"), rewriting("fact"), merging, protecting(core)]


async def refused(db: Database, core: NewMemory) -> None:
    """Each of them is refused to an operation that begins none."""
    for act in acts_of_a_session(core):
        with pytest.raises(RefusedError, match=REFUSED):
            await operate(db, ANA, act)


# -- no session


async def test_writes_need_a_session_except_rewriting_the_consolidation(
    db: Database, core: NewMemory, superuser: psycopg.Connection
) -> None:
    contents = "select to_jsonb(m) from mnemic.memories m where kind <> 'consolidation' order by id"
    before = superuser.execute(contents).fetchall()
    await refused(db, core)
    for kind in set(KINDS) - {"consolidation"}:
        with pytest.raises(RefusedError, match=REFUSED):
            await operate(db, ANA, rewriting(kind))

    await operate(db, ANA, rewriting("consolidation"))

    assert superuser.execute(contents).fetchall() == before
    rows = superuser.execute("select content from mnemic.memories where kind = 'consolidation'").fetchall()
    assert rows == [("Other words.",)]


async def test_within_a_session_all_of_it_is_done(db: Database, core: NewMemory) -> None:
    session = await begun(db, ANA)
    for act in (protecting(core), rewriting("reflection"), rewriting("fact"), merging):
        await within(db, ANA, session, act)


async def test_protection_is_no_function_of_the_service_otherwise(db: Database, core: NewMemory) -> None:
    session = await begun(db, ANA)
    for protected in ("true", "false"):
        setting = executing(f"select set_protection('harbor', %(id)s, {protected}, 'ana')", id=core.id)
        with pytest.raises(RefusedError, match="permission denied"):
            await within(db, ANA, session, setting)
    # what it protected itself it cannot free either
    await within(db, ANA, session, protecting(core))
    with pytest.raises(RefusedError, match="protected"):
        await within(db, ANA, session, executing("update memories set protected = false"))


async def test_only_standing_memories_of_the_session_are_protected(db: Database, core: NewMemory) -> None:
    session = await begun(db, ANA)
    others = [memory("Ana sails.", kind="fact"), memory("Bo sails.", kind="core", key=SHARED)]
    await remember(db, ANA, *others)
    for one in others:
        with pytest.raises(RefusedError):
            await within(db, ANA, session, protecting(one))


# -- sessions that are none


async def test_a_session_that_is_over_or_another_agents_is_none(
    db: Database, core: NewMemory, superuser: psycopg.Connection
) -> None:
    async def is_none(session: Claim) -> None:
        with pytest.raises(RefinementOverError):
            await within(db, ANA, session, merging)
        await refused(db, core)

    first = await begun(db, ANA)
    expire_leases(superuser)
    await is_none(first)
    second = await taken_over(db, ANA, first)
    await within(db, ANA, second, merging)
    await is_none(first)
    await ended(db, ANA, second)
    await is_none(second)
    await is_none(await begun(db, MUSEUM))


async def test_a_session_of_another_scope_key_is_none(db: Database, core: NewMemory) -> None:
    session = await begun(db, ANA, SHARED)
    for act in (rewriting("core"), merging):
        with pytest.raises(RefusedError):
            await operate(db, ANA, beginning(session, "update"), act)


async def test_session_of_a_foreign_scope_key_cannot_be_used_or_begun(
    db: Database, core: NewMemory, superuser: psycopg.Connection
) -> None:
    session = await begun(db, ANA)
    for other in (identity("bo"), identity(None), identity("bo", groups=["crew"])):
        with pytest.raises(RefinementOverError):
            await operate(db, other, beginning(session, "merge"))
    await ended(db, ANA, session)
    with pytest.raises(MnemicError):
        await operate(db, identity("bo"), lambda tx: refinements.begin(tx, new(), [], target=10))
    assert superuser.execute("select count(*) from mnemic.refinements").fetchone() == (1,)


async def test_a_session_begins_and_ends_in_an_operation_and_is_never_unmade(db: Database, core: NewMemory) -> None:
    with pytest.raises(RefusedError, match="42501"):
        async with db.transaction(ANA) as tx:
            await refinements.begin(tx, new(), [], target=10)
    session = await begun(db, ANA)
    with pytest.raises(RefusedError, match="42501"):
        async with db.transaction(ANA) as tx:
            await refinements.finish(tx, session, "completed", [], {}, None)
    for statement in ("delete from refinements", "truncate refinements"):
        with pytest.raises(RefusedError, match="permission denied"):
            await operate(db, ANA, executing(statement))


async def test_a_merge_of_what_somebody_changed_meanwhile_is_to_be_done_again(db: Database, core: NewMemory) -> None:
    async def of_yesterday(tx: ScopedTransaction) -> None:
        entries = [replace(entry, version=entry.version + 1) for entry in await refinements.read_ledger(tx)]
        await refinements.merge(tx, entries, "profile", "Ana.")

    with pytest.raises(ConcurrentChangeError, match="changed meanwhile"):
        await within(db, ANA, await begun(db, ANA), of_yesterday)


# -- controls: each guard is what keeps it out

Pretence = Callable[[Act], Act]


async def _expire(tx: ScopedTransaction, _: Claim) -> None:
    await executing("update leases set until = clock_timestamp()")(tx)


async def _end(tx: ScopedTransaction, session: Claim) -> None:
    """Its lease goes with it, and is taken again, so that the end alone keeps it out."""
    await refinements.finish(tx, session, "completed", [], {}, None)
    await take_up(tx, session)


CONTROLS: dict[str, tuple[Pretence, tuple[str, str, str]]] = {
    "no session": (lambda act: act, ("guard_memory", "not in_refinement(new.agent_id, new.scope_key)", "false")),
    "an ended session": (partial(in_a_session, KEY, before=_end), ("in_refinement", "and r.ended is null", "")),
    "an expired lease": (
        partial(in_a_session, KEY, before=_expire),
        ("in_refinement", "and l.until > clock_timestamp()", ""),
    ),
    "another scope key's session": (partial(in_a_session, SHARED), ("in_refinement", "and r.scope_key = p_key", "")),
}


async def done(db: Database, core: NewMemory, pretence: Pretence) -> int:
    """How many acts of a session an operation may do that pretends so."""
    count = 0
    for act in acts_of_a_session(core):
        try:
            await operate(db, ANA, pretence(act))
        except (RefusedError, ConcurrentChangeError):
            continue
        count += 1
    return count


@pytest.mark.thorough
@pytest.mark.parametrize("pretence", CONTROLS)
async def test_control_without_its_guard_a_pretended_session_edits(fresh_db: Clone, pretence: str) -> None:
    pretended, guard = CONTROLS[pretence]
    async with fresh_db.database() as db:
        core = await _stored(db)
        assert await done(db, core, pretended) == 0
        with fresh_db.as_superuser() as superuser:
            mutate(superuser, *guard)
        assert await done(db, core, pretended) == (4 if pretence == "no session" else 5)


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("who", "text", "wrong"),
    [
        (ANA, "and l.holder = p_holder", ""),
        (identity("bo"), "cardinality(permitted_keys(array[r.scope_key])) = 1", "true"),
    ],
    ids=["another holder", "another person"],
)
async def test_control_without_its_fence_a_session_is_taken_by_others(
    fresh_db: Clone, who: Identity, text: str, wrong: str
) -> None:
    async with fresh_db.database() as db:
        await _stored(db)
        session = await begun(db, ANA)
        if who == ANA:
            session = session._replace(lease=session.lease._replace(holder=uuid4()))

        with pytest.raises(RefinementOverError):
            await operate(db, who, beginning(session, "merge"))
        with fresh_db.as_superuser() as superuser:
            mutate(superuser, "begin_refinement_act", text, wrong)
        await operate(db, who, beginning(session, "merge"))


@pytest.mark.thorough
async def test_control_without_the_agent_check_a_foreign_session_protects(fresh_db: Clone) -> None:
    async with fresh_db.database() as db:
        core = await _stored(db)
        begin = beginning(await begun(db, MUSEUM), "update")
        for function, text in (
            ("begin_refinement_act", "r.agent_id = scoped_agent and "),
            ("in_refinement", "r.agent_id = p_agent and "),
        ):
            with pytest.raises((RefusedError, RefinementOverError)):
                await operate(db, ANA, begin, protecting(core))
            with fresh_db.as_superuser() as superuser:
                mutate(superuser, function, text, "")
        await operate(db, ANA, begin, protecting(core))
