"""The history of memories: its rows, checks, exports, operations, rollbacks and past states.

Functions of the database plan and carry out a rollback; their rows become records here.
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
from mnemic.storage.transaction import ScopedTransaction, first_column, load_statements

_SQL = load_statements("history")
#: Maximum number of operations whose ids a rollback records; a larger number is recorded as a digest.
MAX_NAMED = 20


async def read_memory_history(tx: ScopedTransaction, memory_id: UUID) -> list[HistoryEvent]:
    """Return every audited change of one memory, oldest first; none for an unknown or foreign id."""
    return await tx.rows(HistoryEvent, _SQL["read_memory_history"], {"memory_id": memory_id}, for_host=True)


async def count_today(tx: ScopedTransaction, *reasons: str) -> int:
    """Return the number of operations since midnight (UTC) in the identity's session, or else by its actor.

    Args:
        tx: of the identity.
        reasons: codes of the operations.
    """
    identity = tx.identity
    values = {"reasons": list(reasons), "session_id": identity.session_id, "actor": identity.actor}
    ((count,),) = await tx.tuples(_SQL["count_today"], values)
    return int(count)


async def find_problems(tx: ScopedTransaction) -> list[AuditProblem]:
    """Return all problems of the agent's history by revision, as an administrator.

    One statement reads one snapshot: concurrent writes are not blocked and cause no false alarm.
    """
    return await tx.rows(AuditProblem, "select *, %(agent_id)s::text as agent_id from audit_problems()", {})


async def read_head(tx: ScopedTransaction) -> Head:
    """Return the newest row of the agent's history; without a history, the predecessor of its first row."""
    rows = await tx.rows(Head, _SQL["read_head"], {})
    if rows:
        return rows[0]
    return Head(revision=0, hash=first_hash(tx.identity.agent_id))


async def read_hashes(tx: ScopedTransaction, revisions: Sequence[int]) -> dict[int, bytes]:
    """Return the hashes of the existing rows with these revisions, as an administrator."""
    return dict(await tx.tuples(_SQL["read_hashes"], {"revisions": list(revisions)}))


async def list_agents(database: Database) -> list[str]:
    """Return every agent that has a history or should have one, in alphabetical order, as an administrator."""
    async with database.catalog() as connection:
        cursor = await connection.execute("select agent_id from agent_ids()")
        return first_column(await cursor.fetchall())


async def read_export_rows(tx: ScopedTransaction, own: Sequence[str], *, after: int, last: int) -> list[ChainRow]:
    """Return rows of the chain for a user's export.

    Args:
        tx: of the user.
        own: the user's scope keys; their rows have all contents.
        after: revision before the first row.
        last: revision of the last row.
    """
    return await tx.rows(ChainRow, _SQL["read_export_rows"], {"own": own, "after": after, "last": last})


async def list_operations(
    tx: ScopedTransaction, keys: Sequence[str] | None, *, session_id: str | None, since: datetime | None, limit: int
) -> list[Operation]:
    """Return the operations on memories of these scope keys, newest first; None: of all visible scope keys."""
    session_id = await tx.find_session(session_id)
    values = {"keys": keys, "session_id": session_id, "since": since, "most": limit}
    return await tx.rows(Operation, _SQL["list_operations"], values, for_host=True)


async def find_operation_ids(  # noqa: PLR0913 - the values of one statement
    tx: ScopedTransaction,
    keys: Sequence[str] | None,
    *,
    session_id: str | None = None,
    since: datetime | None = None,
    refinement_id: UUID | None = None,
    run_id: UUID | None = None,
) -> list[UUID]:
    """Return the operations of agents in a session since a time, of a refinement or of a maintenance run."""
    values = {
        "keys": keys,
        "session_id": await tx.find_session(session_id),
        "since": since,
        "refinement_id": refinement_id,
        "run_id": None if run_id is None else str(run_id),
    }
    return first_column(await tx.tuples(_SQL["find_operation_ids"], values))


class SharedWords(NamedTuple):
    """Memories of an actor in scopes that other users read too."""

    actor: str
    #: Operations that shared them.
    ops: list[UUID]
    #: Scope keys with any of them, active or not.
    scope_keys: tuple[str, ...]
    #: The active memories, and those that they closed.
    memory_ids: list[UUID]


async def find_shared(tx: ScopedTransaction, actor: str) -> SharedWords:
    """Return the memories that an actor has shared."""
    ops: set[UUID] = set()
    memory_ids: set[UUID] = set()
    for op_id, *_, ids in await tx.call("shared_operations", actor):
        ops.add(op_id)
        memory_ids.update(ids)
    keys = await tx.call("contribution_keys", actor)
    return SharedWords(
        actor=actor,
        ops=sorted(ops),
        scope_keys=tuple(sorted(first_column(keys))),
        memory_ids=sorted(memory_ids),
    )


async def plan_undo(
    tx: ScopedTransaction,
    keys: Sequence[str] | None,
    ops: Sequence[UUID],
    *,
    cascade: bool,
) -> Plan:
    """Return the plan to undo operations as one; change nothing.

    Args:
        tx: sees the scope keys.
        keys: scope keys of a user, whose memories alone are rolled back; None: all, as an administrator.
        ops: the operations; of a rollback in steps, the whole rollback.
        cascade: undo later operations on the same memories too.

    Raises:
        UnknownOperationError: if there are no operations, or one that changed no memory of these scope keys.
    """
    plan = await _plan(tx, keys, ops, _undo_request(keys, ops, cascade=cascade))
    planned: set[UUID] = set()
    for row in plan.rows:
        if row.part == "operation":
            planned.add(row.op_id)
    if not ops or planned != set(ops):
        raise UnknownOperationError
    return plan


async def plan_unshare(tx: ScopedTransaction, shared: SharedWords, *, cascade: bool) -> Plan:
    """Return the plan that withdraws an actor's shared memories, also from the past states that others read."""
    request = _undo_request(shared.scope_keys, shared.ops, cascade=cascade)
    request["unshared_by"] = shared.actor
    request["only"] = list(map(str, shared.memory_ids))
    return await _plan(tx, shared.scope_keys, shared.ops, request)


def _undo_request(keys: Sequence[str] | None, ops: Sequence[UUID], *, cascade: bool) -> dict[str, Any]:
    names = sorted(map(str, ops))
    undone: list[str] | str = names
    if len(names) > MAX_NAMED:  # every row of the history would repeat the ids
        undone = hashlib.sha256(",".join(names).encode()).hexdigest()
    request: dict[str, Any] = {"undone": undone, "cascade": cascade}
    if keys is not None:
        request["keys"] = list(keys)
    return request


async def plan_restore(tx: ScopedTransaction, key: str, at: int | datetime, *, administers: bool) -> Plan:
    """Return the plan to restore the memories that a scope key had at a revision or time; change nothing.

    Raises:
        InvalidInputError: if the history has not reached that revision, or it lies within an operation, which is only
            restored as a whole.
    """
    revision = await revision_of(tx, key, at)
    ((is_within,),) = await tx.tuples(_SQL["is_within_operation"], {"key": key, "revision": revision})
    if is_within:
        raise InvalidInputError(
            f"revision {revision} lies within an operation: use its last_revision, or the one before its first_revision"
        )
    keys = None if administers else [key]
    return await _plan(tx, keys, None, {"revision": revision, "key": tx.stored_key(key)})


async def _plan(
    tx: ScopedTransaction, keys: Sequence[str] | None, ops: Sequence[UUID] | None, request: Mapping[str, Any]
) -> Plan:
    stored_keys = None if keys is None else tx.stored_keys(keys)
    rows: list[PlanRow] = []
    for values in await tx.call("plan_rollback", stored_keys, ops, Jsonb(request)):
        row = PlanRow._make(values)
        if row.scope_key:
            row = row._replace(scope_key=tx.host_session(row.scope_key))
        rows.append(row)
    return Plan(rows=rows, request=request, keys=keys)


async def take_step(  # noqa: PLR0913 - the values of one statement
    tx: ScopedTransaction, plan: Plan, step: Sequence[PlanRow], *, op_id: UUID, whole: UUID | None, left: int
) -> bool:
    """Carry out one step as an operation.

    Args:
        tx: sees the plan's scope keys.
        plan: the whole plan.
        step: rows of the plan.
        op_id: id of the operation.
        whole: the rollback that the step belongs to; None if it is the only step.
        left: changes that remain after it.

    Returns:
        False if anything differs from the plan; nothing is written then.
    """
    memory_ids: list[UUID] = []
    versions: list[int] = []
    revisions: list[int] = []
    are_orphans: list[bool] = []
    relations: list[int] = []
    for row in step:
        if row.part == "change":
            memory_ids.append(row.memory_id)
            versions.append(row.version)
            revisions.append(row.revision)
            are_orphans.append(row.is_orphan)
        elif row.part == "relation":
            relations.append(row.revision)
    removed: list[UUID] = []
    since: list[int] = []
    for row in plan.rows:
        if row.part == "removal" and left == 0:
            removed.append(row.memory_id)
            since.append(row.revision)
    ((is_done,),) = await tx.call_with_head(
        "roll_back",
        None if plan.keys is None else tx.stored_keys(plan.keys),
        memory_ids,
        versions,
        revisions,
        are_orphans,
        relations,
        removed,
        since,
        Jsonb(plan.request),
        whole,
        left,
        op_id,
        tx.identity.actor,
    )
    return bool(is_done)


async def revision_of(tx: ScopedTransaction, key: str, at: int | datetime) -> int:
    """Return the revision itself, or the revision of the scope key's history at a time.

    Raises:
        InvalidInputError: if the history has not reached that revision.
    """
    if isinstance(at, datetime):
        ((revision,),) = await tx.tuples(_SQL["revision_at"], {"key": key, "moment": at})
        return int(revision)
    newest = (await read_head(tx)).revision
    if at > newest:
        raise InvalidInputError(f"the newest revision of the history is {newest}: use that or an earlier one")
    return at


async def as_of(tx: ScopedTransaction, key: str, at: int | datetime, *, with_closed: bool) -> list[Memory]:
    """Return the memories of a visible scope key at a revision or time; of erased ones only the skeleton remains."""
    revision = await revision_of(tx, key, at)
    values = {"key": key, "revision": revision, "with_closed": with_closed}
    return await tx.rows(Memory, _SQL["as_of"], values, for_host=True)


async def as_of_without_contents(tx: ScopedTransaction, key: str, at: int | datetime) -> list[PastMemory]:
    """Return the memories of a scope key at a revision or time, closed ones too, for an administrator."""
    values = {"key": key, "revision": await revision_of(tx, key, at)}
    return await tx.rows(PastMemory, "select * from metadata_as_of(%(key)s, %(revision)s)", values)
