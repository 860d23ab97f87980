"""The history of memories: of one, of an agent, checked, exported; its operations, undone, and the states it tells of.

The database's functions plan a rollback and act; their rows become records here.
"""

import hashlib
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from psycopg.types.json import Jsonb

from mnemic.state.chain import ChainRow, first_hash
from mnemic.state.errors import InvalidInputError, UnknownOperationError
from mnemic.state.governance import AuditProblem, Head, Operation, PastMemory, Plan, PlanRow
from mnemic.state.records import HistoryEvent, Memory
from mnemic.storage.database import Database
from mnemic.storage.transaction import ScopedTransaction, load_statements

_SQL = load_statements("history")
#: Operations that the history of their undoing names by their ids.
MAX_NAMED = 20


async def read_memory_history(tx: ScopedTransaction, memory_id: UUID) -> list[HistoryEvent]:
    """Every audited change of one memory, oldest first; empty for an unknown or foreign id."""
    return await tx.rows(HistoryEvent, _SQL["of_memory"], {"memory_id": memory_id}, for_host=True)


async def count_today(tx: ScopedTransaction, *reasons: str) -> int:
    """Operations for these reasons since midnight (UTC) in the identity's session, or by its actor without one."""
    who = tx.identity
    values = {"reasons": list(reasons), "session_id": who.session_id, "actor": who.actor}
    ((count,),) = await tx.tuples(_SQL["done_today"], values)
    return int(count)


async def find_problems(tx: ScopedTransaction) -> list[AuditProblem]:
    """As administrator: all that is wrong with the agent's history, by revision.

    One statement and so one moment: who writes meanwhile is in nobody's way and causes no false alarm.
    """
    return await tx.rows(AuditProblem, "select *, %(agent_id)s::text as agent_id from audit_problems()", {})


async def read_head(tx: ScopedTransaction) -> Head:
    """The newest row of the agent's history; where there is none, what the first one will follow."""
    found = await tx.rows(Head, _SQL["head"], {})
    return found[0] if found else Head(revision=0, hash=first_hash(tx.identity.agent_id))


async def read_hashes(tx: ScopedTransaction, revisions: Sequence[int]) -> dict[int, bytes]:
    """As administrator: the hashes of those of these rows of the agent's history that are there."""
    return dict(await tx.tuples(_SQL["hashes"], {"revisions": list(revisions)}))


async def list_agents(database: Database) -> list[str]:
    """As administrator: every agent that has a history or should have one, in alphabetical order."""
    async with database.catalog() as connection:
        return [agent for (agent,) in await (await connection.execute("select agent_id from agent_ids()")).fetchall()]


async def read_export_rows(tx: ScopedTransaction, own: Sequence[str], *, after: int, last: int) -> list[ChainRow]:
    """As a person: rows of the chain, after the one up to the other; the person's own with all there is of them."""
    return await tx.rows(ChainRow, _SQL["exported"], {"own": own, "after": after, "last": last})


async def list_operations(
    tx: ScopedTransaction, keys: Sequence[str] | None, *, session_id: str | None, since: datetime | None, limit: int
) -> list[Operation]:
    """What was done to memories of these scope keys, newest first; None: of all that the transaction sees."""
    session_id = await tx.find_session(session_id)
    values = {"keys": keys, "session_id": session_id, "since": since, "most": limit}
    return await tx.rows(Operation, _SQL["operations"], values, for_host=True)


async def find_operation_ids(
    tx: ScopedTransaction,
    keys: Sequence[str] | None,
    *,
    session_id: str | None = None,
    since: datetime | None = None,
    refinement_id: UUID | None = None,
    run_id: UUID | None = None,
) -> list[UUID]:
    """Return the operations that agents did in a session since a moment, of a refinement or of a maintenance run."""
    values = {
        "keys": keys,
        "session_id": await tx.find_session(session_id),
        "since": since,
        "refinement_id": refinement_id,
        "run_id": None if run_id is None else str(run_id),
    }
    return [op_id for (op_id,) in await tx.tuples(_SQL["operations_in"], values)]


class SharedWords(NamedTuple):
    """How an actor's words came into scopes that others read too."""

    actor: str
    ops: list[UUID]
    #: Those in which anything of it is, in force or not.
    scope_keys: tuple[str, ...]
    #: What is in use, and what it closed.
    memory_ids: list[UUID]


async def find_shared(tx: ScopedTransaction, actor: str) -> SharedWords:
    """The operations, the scope keys and the memories."""
    rows = await tx.call("shared_operations", actor)
    return SharedWords(
        actor=actor,
        ops=sorted({op_id for op_id, *_ in rows}),
        scope_keys=tuple(sorted(key for (key,) in await tx.call("contribution_keys", actor))),
        memory_ids=sorted({memory_id for *_, ids in rows for memory_id in ids}),
    )


async def plan_undo(
    tx: ScopedTransaction,
    keys: Sequence[str] | None,
    ops: Sequence[UUID],
    *,
    cascade: bool,
) -> Plan:
    """What undoing operations as one means; reads only.

    Args:
        keys: of a person, whose memories alone are rolled back; None: as administrator, all.
        ops: the operations; of a rollback in steps, the whole.
        cascade: undoes later operations on the same memories too.

    Raises:
        UnknownOperationError: there are none, or one that changed no memory of these scope keys.
    """
    plan = await _plan(tx, keys, ops, _undoing(keys, ops, cascade=cascade))
    if not ops or {row.op_id for row in plan.rows if row.part == "operation"} != set(ops):
        raise UnknownOperationError
    return plan


async def plan_unshare(tx: ScopedTransaction, shared: SharedWords, *, cascade: bool) -> Plan:
    """Return the plan that takes back what an actor has shared, and hides it from the past that others read."""
    request = _undoing(shared.scope_keys, shared.ops, cascade=cascade) | {"unshared_by": shared.actor}
    request["only"] = [str(memory_id) for memory_id in shared.memory_ids]
    return await _plan(tx, shared.scope_keys, shared.ops, request)


def _undoing(keys: Sequence[str] | None, ops: Sequence[UUID], *, cascade: bool) -> dict[str, Any]:
    names = sorted(str(op_id) for op_id in ops)
    # as the history names what was undone, in each of its rows: many by a digest
    undone = names if len(names) <= MAX_NAMED else hashlib.sha256(",".join(names).encode()).hexdigest()
    return {"undone": undone, "cascade": cascade} | ({} if keys is None else {"keys": list(keys)})


async def plan_restore(tx: ScopedTransaction, key: str, moment: int | datetime, *, administers: bool) -> Plan:
    """What giving a scope key back the memories that it had at a moment means; reads only.

    Raises:
        InvalidInputError: the history has not come so far, or the revision lies within an operation, which is
            restored whole or not at all.
    """
    revision = await revision_of(tx, key, moment)
    ((is_divided,),) = await tx.tuples(_SQL["divided"], {"key": key, "revision": revision})
    if is_divided:
        raise InvalidInputError(
            f"{revision} lies within an operation: name its last_revision, or what is before its first_revision"
        )
    return await _plan(tx, None if administers else [key], None, {"revision": revision, "key": key})


async def _plan(
    tx: ScopedTransaction, keys: Sequence[str] | None, ops: Sequence[UUID] | None, request: Mapping[str, Any]
) -> Plan:
    rows = await tx.call("plan_rollback", keys, ops, Jsonb(request))
    return Plan(rows=[*map(PlanRow._make, rows)], request=request, keys=keys)


async def take_step(
    tx: ScopedTransaction, plan: Plan, step: Sequence[PlanRow], *, op_id: UUID, whole: UUID | None, left: int
) -> bool:
    """Does one step as an operation; False, and nothing is written, where anything is not as the plan saw it.

    Args:
        whole: the rollback that the step is part of; None: it is all of it.
        left: changes that remain after it.
    """
    changed = [row for row in step if row.part == "change"]
    changes = [[getattr(row, name) for row in changed] for name in ("memory_id", "version", "revision", "is_orphan")]
    links = [row.revision for row in step if row.part == "relation"]
    ((is_done,),) = await tx.call_with_head(
        "roll_back", plan.keys, *changes, links, Jsonb(plan.request), whole, left, op_id, tx.identity.actor
    )
    return bool(is_done)


async def revision_of(tx: ScopedTransaction, key: str, moment: int | datetime) -> int:
    """The revision that a moment means: itself, or where the scope key's history stood at that time.

    Raises:
        InvalidInputError: the history has not come so far.
    """
    if isinstance(moment, datetime):
        ((revision,),) = await tx.tuples(_SQL["revision_at"], {"key": key, "moment": moment})
        return int(revision)
    newest = (await read_head(tx)).revision
    if moment > newest:
        raise InvalidInputError(f"the history has come as far as {newest}: name an earlier moment")
    return moment


async def as_of(tx: ScopedTransaction, key: str, moment: int | datetime, *, with_closed: bool) -> list[Memory]:
    """The memories of a visible scope key at a moment; of those erased since no more than the skeleton is left."""
    revision = await revision_of(tx, key, moment)
    values = {"key": key, "revision": revision, "with_closed": with_closed}
    return await tx.rows(Memory, _SQL["as_of"], values, for_host=True)


async def as_of_without_contents(tx: ScopedTransaction, key: str, moment: int | datetime) -> list[PastMemory]:
    """The same for an administrator, closed ones too, without what they say."""
    revision = await revision_of(tx, key, moment)
    return await tx.rows(
        PastMemory, "select * from as_of_blind(%(key)s, %(revision)s)", {"key": key, "revision": revision}
    )
